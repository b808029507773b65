"""Whole Python programs that take turns: the processes, the rounds, and the rows of their results.

Judged is the CPU time of the launching thread, adjusted to the speed of the machine at the moment
by reference work around it (bench/reference.py).

The processes of a round load their modules while those of the round before warm up and those of the
one before that end. Nothing else of the benchmark runs while a round is measured, and processes
stay away from the measured processor and its hardware threads, except for the timed loops.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import report
from reference import CPU, WALL, adjust
from run import HERE, build
from turns import Compared, Round, Running, Side, SideError, process_medians, spread

# Work: its name, the unit, seconds in units, calls per chunk, chunks per turn, minimum of kernels
# per call. Fewer launches are in a chunk than the queue of a stream holds (1024).
WORKS: dict[str, tuple[str, str, float, int, int, int]] = {
    "step": ("training step of a Llama-shaped model", "ms of CPU per step", 1e3, 1, 3, 100),
    "launch": ("Python Triton launch", "us of CPU per launch", 1e6, 500, 4, 1),
}
GOAL = 9  # rounds; with less time, rounds have fewer turns
FIND_CUPTI = """
import torch
files = {line.split(None, 5)[-1].strip() for line in open("/proc/self/maps")}
print(next((file for file in sorted(files) if "/libcupti.so" in file), ""))
"""


@dataclasses.dataclass(frozen=True)
class Case:
    """Definition of a side: how the program is started, and which profiler it starts itself."""

    profiler: Optional[str] = None
    start: str = "late"
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    command: Optional[Sequence[str]] = None  # the options of `proton`, which runs the program
    injection: bool = False  # an empty library in CUDA_INJECTION64_PATH
    every: int = 1  # takes part in one round of so many: what is not judged needs fewer
    excludes: Sequence[str] = ()  # sides that cannot record at the same time omit these rounds
    is_slow: bool = False  # its rounds have one turn, of few calls
    counter: str = ""  # a counter that is not 0 in its profile


class Programs:
    """
    The cases and works of a benchmark, and the libraries that their processes need. `goal`: rounds;
    with less time, they have fewer turns. `is_exclusive`: the processes of a round end before the
    next ones use the GPU.
    """

    def __init__(
        self,
        cases: Mapping[str, Case],
        works: Sequence[str],
        *,
        directory: str = "",
        cpu: Optional[int] = None,
        counts: Optional[Mapping[str, int]] = None,
        goal: int = GOAL,
        is_exclusive: bool = False,
    ) -> None:
        self.cases = cases
        self.counts = {work: (counts or {}).get(work) or WORKS[work][3] for work in works}
        self.goal = goal
        self.is_exclusive = is_exclusive
        self.cpu = max(os.sched_getaffinity(0)) if cpu is None else cpu
        self.libraries = {"floor": "", "injection": ""}
        if directory:
            self.libraries = {
                "floor": os.path.abspath(build(directory, "libcupti_floor.so")),
                "injection": os.path.abspath(build(directory, "libempty_injection.so")),
            }
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "PROTON_BACKEND")
        }
        self.environment["PROTON_QUIET"] = "1"

    def use_one_cupti(self) -> None:
        """All sides with Proton get the libcupti of torch, however early they start."""
        if "PROTON_CUPTI_PATH" in self.environment:
            return
        found = subprocess.run(
            [sys.executable, "-c", FIND_CUPTI], check=True, stdout=subprocess.PIPE, text=True
        ).stdout.strip()
        if found:
            print(f"libcupti: {found}", flush=True)
            self.environment["PROTON_CUPTI_PATH"] = found

    def start(self, name: str, directory: str) -> Side:
        """A process of the case `name`, with its own directory."""
        case = self.cases[name]
        asked = {
            "profiler": case.profiler,
            "start": case.start,
            "options": dict(case.options),
            "library": self.libraries["floor"],
            "works": list(self.counts),
            "cpu": self.cpu,
        }
        command = [sys.executable]
        if case.command is not None:
            command += ["-m", "triton_proton", "-q", "-n", "profile", *case.command]
        command += [os.path.join(HERE, "program_side.py"), json.dumps(asked)]
        environment = dict(self.environment)
        if case.injection:
            environment["CUDA_INJECTION64_PATH"] = self.libraries["injection"]
        return Side(name, command, directory, environment)

    def check(self, side: Side, calls: Mapping[str, int]) -> None:
        """A side that has lost kernels, or recorded none, has not done what is measured."""
        case = self.cases[side.name]
        if case.profiler is None and case.command is None:
            return
        wanted = sum(count * WORKS[work][5] for work, count in calls.items())
        found = recorded_kernels(side.directory)
        if found < wanted:
            raise SideError(f"the side '{side.name}' recorded {found} kernels of {wanted}")
        if case.counter and not recorded_counter(side.directory, case.counter):
            raise SideError(f"the side '{side.name}' has no {case.counter}")

    def sides_of(self, number: int) -> list[str]:
        """The sides that take part in round `number`."""
        first = [name for name, case in self.cases.items() if number % case.every == 0]
        excluded = {other for name in first for other in self.cases[name].excludes}
        return [name for name in first if name not in excluded]

    def is_slow(self, number: int) -> bool:
        """Does a side take part that needs so long that the round has one turn only?"""
        return any(self.cases[name].is_slow for name in self.sides_of(number))

    def requests(self, is_slow: bool) -> dict[str, dict[str, Any]]:
        """The request of a turn, by work."""
        return {
            work: {
                "work": work,
                "count": max(count // 4, 1) if is_slow else count,
                "chunks": 1 if is_slow else WORKS[work][4],
            }
            for work, count in self.counts.items()
        }

    def running(self, number: int, scratch: str) -> Running:
        """The processes of round `number`, which begin to load."""
        first = self.sides_of(number)
        first = first[number % len(first) :] + first[: number % len(first)]
        return Running(
            {name: lambda directory, name=name: self.start(name, directory) for name in first},
            os.path.join(scratch, f"round{number}"),
            seed=number,
        )

    def measure(self, rounds: int, turns: int, seconds: Optional[float] = None) -> list[Round]:
        """
        Up to `rounds` complete rounds, adjusted, within `seconds` if that is given. Then the number
        of turns changes from round to round so that GOAL rounds fit.
        """
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, away_from(self.cpu))
        taking = Rounds(self, rounds, turns, seconds)
        with Interruptible(seconds), tempfile.TemporaryDirectory() as scratch:
            try:
                taking.take(scratch)
            except Stopped as stopped:
                print(f"stopped by {stopped} after {len(taking.done)} complete rounds", flush=True)
            finally:
                taking.kill()
                os.sched_setaffinity(0, before)
        self.adjust(taking.done)
        return taking.done

    def adjust(self, rounds: Sequence[Round]) -> None:
        for work in self.counts:
            power = adjust([side[work] for one in rounds for side in one.values()])
            print(f"{work}: adjusted by the reference to the power of {power:.2f}", flush=True)

    def show_progress(self, last: Round) -> None:
        """The medians of a round, as measured: CPU time and wall time."""
        for work in self.counts:
            scale = WORKS[work][2]
            figures = []
            for name in self.cases:
                if name in last:
                    cpu, wall = (
                        process_medians([last], name, work, figure)[0] * scale
                        for figure in (0, 1)  # not adjusted yet
                    )
                    figures.append(f"{name} {cpu:.4g} {wall:.4g}")
            print(f"  {work}: {', '.join(figures)} ({WORKS[work][1]}, CPU and wall)", flush=True)


class Rounds:
    """The rounds of a measurement: one is measured, the next one loads, the one before ends."""

    def __init__(
        self, programs: Programs, rounds: int, turns: int, seconds: Optional[float]
    ) -> None:
        self.programs = programs
        self.rounds = rounds
        self.turns, self.max_turns = turns, 3 * turns
        self.seconds = seconds
        self.turn_s = 0.0  # in a usual round
        self.begin = time.monotonic()
        self.running: list[Running] = []
        self.done: list[Round] = []

    def start(self, number: int, scratch: str) -> Optional[Running]:
        if number >= self.rounds:
            return None
        self.running.append(self.programs.running(number, scratch))
        return self.running[-1]

    def take(self, scratch: str) -> None:
        programs = self.programs
        ending: Optional[Running] = None
        coming = self.start(0, scratch)
        assert coming is not None
        coming.load()
        for number in range(self.rounds):
            started = time.monotonic()
            here, coming = coming, self.start(number + 1, scratch)
            is_slow = programs.is_slow(number)
            turns = 1 if is_slow else self.turns
            if ending and programs.is_exclusive:
                self.end(ending)
                ending = None
            here.warm_up()
            if ending:
                self.end(ending)
            if coming:
                coming.load()
            ready = time.monotonic()
            for _ in range(turns):
                here.take_turns(programs.requests(is_slow))
            here.close_input()
            ending = here
            now = time.monotonic()
            starting, measuring = ready - started, now - ready
            print(
                f"round {number + 1}: {starting:.1f} s to start, "
                f"{measuring:.1f} s for {here.turns} turns",
                flush=True,
            )
            if not is_slow:
                self.turn_s = measuring / here.turns
            if not self.has_time(number + 1, starting, self.turn_s or measuring / here.turns):
                print(f"time is up after {number + 1} rounds", flush=True)
                break
            if coming is None:
                break
        if ending:
            self.end(ending)

    def has_time(self, taken: int, starting: float, turn: float) -> bool:
        """Does another round fit? Sets its number of turns."""
        if self.seconds is None:
            return True
        left = self.seconds - (time.monotonic() - self.begin) - starting / 2  # for the last end
        share = left / max(min(self.programs.goal, self.rounds) - taken, 1)
        self.turns = int((share - starting) / turn)
        self.turns = min(max(self.turns, 1), self.max_turns)
        return left >= 1.1 * (starting + self.turns * turn)

    def end(self, running: Running) -> None:
        programs = self.programs
        self.done.append(running.end(lambda side: programs.check(side, running.calls)))
        self.running.remove(running)
        programs.show_progress(self.done[-1])

    def kill(self) -> None:
        for running in self.running:
            running.kill()


class Stopped(BaseException):
    """A signal, or the end of the time."""


class Interruptible:
    """SIGINT, SIGTERM and the end of `seconds` raise Stopped, once."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)

    def __init__(self, seconds: Optional[float]) -> None:
        self.seconds = seconds

    def __enter__(self) -> None:
        def stop(number: int, frame: Any) -> None:
            for one in self.SIGNALS:
                signal.signal(one, signal.SIG_IGN)
            raise Stopped(signal.Signals(number).name)

        self.before = {one: signal.signal(one, stop) for one in self.SIGNALS}
        signal.setitimer(signal.ITIMER_REAL, max(self.seconds or 0.0, 0.0))

    def __exit__(self, *_: Any) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        for one, handler in self.before.items():
            signal.signal(one, handler)


def away_from(cpu: int) -> set[int]:
    """The processors that share no core with `cpu`; all if there are no others."""
    allowed = os.sched_getaffinity(0)
    threads = {cpu}
    try:
        path = f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        with open(path, encoding="ascii") as file:
            for part in file.read().strip().split(","):
                first, _, last = part.partition("-")
                threads.update(range(int(first), int(last or first) + 1))
    except (OSError, ValueError):
        pass
    return allowed - threads or allowed


def recorded_counter(directory: str, name: str) -> int:
    """A counter of the profile."""
    with open(os.path.join(directory, "profile.hatchet"), encoding="utf-8") as file:
        root = json.load(file)[0]
    return root.get("proton", {}).get("counters", {}).get(name, 0)


def recorded_kernels(directory: str) -> int:
    """Kernel executions in the profile, or the count that bare CUPTI has left."""

    def count(node: Mapping[str, Any]) -> int:
        return node["metrics"].get("count", 0) + sum(map(count, node["children"]))

    recorded = os.path.join(directory, "recorded")
    if os.path.exists(recorded):
        with open(recorded, encoding="ascii") as file:
            return int(file.read())
    try:
        with open(os.path.join(directory, "profile.hatchet"), encoding="utf-8") as file:
            return count(json.load(file)[0])
    except FileNotFoundError:
        return 0


def make_row(
    rounds: Sequence[Round],
    work: str,
    title: str,
    columns: Mapping[str, str],
    side: str,
    limits: Mapping[str, tuple[str, Optional[float]]],
) -> dict[str, Any]:
    """
    The row of `side`. `columns` names the side of each column; `limits` has, for each side that
    this one is compared with, its name in the sentence and the share that it may cost more, or
    None.
    """
    name, unit, scale = WORKS[work][:3]
    plains = process_medians(rounds, "plain", work)
    plain = statistics.median(plains) * scale if plains else None
    figures: dict[str, Optional[float]] = {"plain": plain}
    for column, one in columns.items():
        more = Compared(rounds, work, one, "plain").more
        figures[column] = None if plain is None or more is None else plain * (1 + more)
    over_plain = Compared(rounds, work, side, "plain")
    found = [f"{over_plain} over plain"]
    compared = {other: Compared(rounds, work, side, other) for other in limits}
    found += [f"{one} over {limits[other][0]}" for other, one in compared.items()]
    text = ", ".join(found)
    judged = {other: limit for other, (_, limit) in limits.items() if limit is not None}
    if judged:
        asked = [f"{100 * limit:g} % over {limits[other][0]}" for other, limit in judged.items()]
        text += f": at most {' and '.join(asked)}"
    for what, figure in (("raw CPU time", CPU), ("wall time", WALL)):
        text += f"; {what} {Compared(rounds, work, side, 'plain', figure)} over plain"
    text += f"; {over_plain.rounds} rounds"
    met = [compared[other].within(limit) for other, limit in judged.items()]
    return report.row(
        f"{name}, {title}",
        unit,
        **figures,
        noise=spread(plains),
        target=text,
        met=all(met) if met else None,
    )
