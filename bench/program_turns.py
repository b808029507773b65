"""Whole Python programs that take turns: the processes, the rounds, and the rows of their results.

Judged is the CPU time of the launching thread, which is far less noisy than wall time.
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
from run import HERE, build
from turns import MIN_ROUNDS, Compared, Round, Side, SideError, process_medians, spread, take_round

CPU, WALL = 0, 1  # figures of a turn
# Work: its name, the unit, seconds in units, calls per turn, minimum of kernels per call.
WORKS: dict[str, tuple[str, str, float, int, int]] = {
    "step": ("training step of a Llama-shaped model", "ms of CPU per step", 1e3, 12, 100),
    "launch": ("Python Triton launch", "us of CPU per launch", 1e6, 10000, 1),
}
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
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    command: Optional[Sequence[str]] = None  # the options of `proton`, which runs the program
    injection: bool = False  # an empty library in CUDA_INJECTION64_PATH


class Programs:
    """The cases and works of a benchmark, and the libraries that their processes need."""

    def __init__(
        self,
        cases: Mapping[str, Case],
        works: Sequence[str],
        *,
        directory: str = "",
        cpu: Optional[int] = None,
        counts: Optional[Mapping[str, int]] = None,
    ) -> None:
        self.cases = cases
        self.counts = {work: (counts or {}).get(work) or WORKS[work][3] for work in works}
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

    def check(self, side: Side, turns: int) -> None:
        """A side that has lost kernels, or recorded none, has not done what is measured."""
        case = self.cases[side.name]
        if case.profiler is None and case.command is None:
            return
        wanted = sum(turns * count * WORKS[work][4] for work, count in self.counts.items())
        found = recorded_kernels(side.directory)
        if found < wanted:
            raise SideError(f"the side '{side.name}' recorded {found} kernels of {wanted}")

    def take_round(self, number: int, turns: int, scratch: str) -> Round:
        first = list(self.cases)
        first = first[number % len(first) :] + first[: number % len(first)]
        return take_round(
            {name: lambda directory, name=name: self.start(name, directory) for name in first},
            {work: {"work": work, "count": count} for work, count in self.counts.items()},
            turns,
            os.path.join(scratch, f"round{number}"),
            seed=number,
            check=lambda side: self.check(side, turns),
        )

    def measure(self, rounds: int, turns: int, seconds: Optional[float] = None) -> list[Round]:
        """
        Up to `rounds` complete rounds, within `seconds` if that is given. Where fewer than
        MIN_ROUNDS would fit, rounds have fewer turns.
        """
        begin = time.monotonic()
        done: list[Round] = []
        with Interruptible(seconds), tempfile.TemporaryDirectory() as scratch:
            try:
                for number in range(rounds):
                    os.mkdir(os.path.join(scratch, f"round{number}"))
                    started = time.monotonic()
                    done.append(self.take_round(number, turns, scratch))
                    took = time.monotonic() - started
                    self.show_progress(done, took)
                    if seconds is None:
                        continue
                    left = seconds - (time.monotonic() - begin)
                    missing = MIN_ROUNDS - len(done)
                    if turns > 1 and missing > 0 and left < 1.1 * took * missing:
                        turns -= 1
                    elif left < 1.1 * took:
                        print(f"time is up after {len(done)} rounds", flush=True)
                        break
            except Stopped as stopped:
                print(f"stopped by {stopped} after {len(done)} complete rounds", flush=True)
        return done

    def show_progress(self, done: Sequence[Round], took: float) -> None:
        """The medians of the round before."""
        print(f"round {len(done)}, {took:.1f} s", flush=True)
        for work in self.counts:
            scale = WORKS[work][2]
            figures = [
                f"{name} {process_medians(done[-1:], name, work)[0] * scale:.4g}"
                for name in self.cases
                if name in done[-1]
            ]
            print(f"  {work}: {', '.join(figures)} {WORKS[work][1]}", flush=True)


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
    name, unit, scale, _, _ = WORKS[work]
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
    text += f"; wall time {Compared(rounds, work, side, 'plain', WALL)} over plain"
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
