"""Benchmark of CUPTI's two interfaces: launches, graph replays, and the thread that reads records.

    python bench/cupti_v2.py [--rounds N] [--write] [--build DIR] [--cupti PATH]...
                             [--before PROGRAM] [--fake]

Without a library, the reading of records is measured, on the fake libcupti of the tests: the time
of Proton's own code, without CUPTI's. --before names the program bench_cupti_decode of an earlier
version: its first interface is `plain` in that row. On a GPU, name libraries to compare, each as a
file or directory of NVIDIA's wheels (13.0, and two of 13.3 or later):

    pip download --no-deps nvidia-cuda-cupti==13.5.25     # and unzip it

Each library is used by its first interface and, from 13.3 on, by its second. The sides take turns.
A library that the driver refuses is reported and left out. In a row, `plain` is without Proton,
`floor` bare CUPTI, `ours` a session; a target compares what sides add in the same round (medians,
intervals of 95 %), and is met if the whole interval meets it. The floor uses the first interface,
which excludes the second in its process: rows of the second have none, nor has the Python loop,
which is that of bench/cuda_python.py. --fake tries that loop on the fake libcupti. --write stores
bench/results/cupti_v2.json, without a GPU bench/results/cupti_decode.json.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Optional

import report
from run import HERE, ROOT, build
from turns import MIN_ROUNDS, Side, SideError, median_interval, spread

INTERFACES = ("1", "2")
DECODE_TARGET = 0.7  # times the first interface's time before fields were selected
PYTHON_WORK = ("Python loop, empty Triton kernel", "us per launch")
PYTHON_LAUNCHES = 2000  # in each loop
# Program, its launches or replays, work, unit, and the limit of what is added, as in bench/cuda.py:
# so many units more than so many times what bare CUPTI or the first interface add.
GPU_WORK = (
    ("bench_cuda_launch", 60000, "C launch loop, empty kernel", "us per launch", 0.15, 1.0),
    ("bench_cuda_graph", 2000, "replay of a graph of 100 kernels", "us per replay", 0.0, 1.05),
)


def values_of(program: str, env: dict[str, str], *arguments: object) -> dict[str, list[float]]:
    """The values that a benchmark program prints, by name."""
    values: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run(
            [program, scratch, *map(str, arguments)],
            env={**os.environ, **env},
            capture_output=True,
            text=True,
        )
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr else "no output")
    for line in done.stdout.splitlines():
        name, value = line.split("\t")
        values.setdefault(name, []).append(float(value))
    return values


def fakes(directory: str) -> dict[str, str]:
    """The environment for programs that use the fake libraries of tests/fake."""
    libraries = {}
    for name in ("cupti", "cuda"):
        path = os.path.join("tests", "fake", f"libfake_{name}.so")
        subprocess.run(["ninja", "--quiet", "-C", directory, path], check=True)
        libraries[f"PROTON_{name.upper()}_PATH"] = os.path.join(os.path.abspath(directory), path)
    return libraries


def decode(directory: str, rounds: int, before: Optional[str]) -> list[dict]:
    """Reading records of the fake libcupti: the interfaces take turns in one process."""
    libraries = fakes(directory)
    program = build(directory, "bench_cupti_decode")
    values: dict[str, list[float]] = {}
    plain: list[float] = []
    for _ in range(rounds):
        for name, some in values_of(program, libraries, 3).items():
            values.setdefault(name, []).extend(some)
        if before:
            plain += values_of(before, libraries, 3)["first"]
    first, second = statistics.median(values["first"]), statistics.median(values["second"])
    limit = DECODE_TARGET * statistics.median(plain) if plain else None
    return [
        report.row(
            "reading records of the fake libcupti: second interface (ours), first (floor), "
            "first before fields were selected (plain)",
            "ns CPU per kernel",
            plain=statistics.median(plain) if plain else None,
            floor=first,
            ours=second,
            noise=(max(values["first"]) - min(values["first"])) / first,
            target=f"at most {DECODE_TARGET} x plain",
            met=None if limit is None else second <= limit,
        ),
        report.row(
            "record of a kernel, in the layouts of the fake: second (ours), first (floor)",
            "bytes",
            floor=values["first bytes"][0],
            ours=values["second bytes"][0],
        ),
    ]


def side_name(library: str, interface: str) -> str:
    return f"{os.path.basename(os.path.normpath(library))}, interface {interface}"


Found = dict[tuple[str, str], dict[str, list[float]]]


def take_turns(
    program: str, count: int, sides: Sequence[tuple[str, str]], rounds: int
) -> Found:
    """The figures of each side, one per round; a side that the driver refuses is left out."""
    found: Found = {side: {} for side in sides}
    for _ in range(rounds):
        for side in list(found):
            env = {"PROTON_CUPTI_PATH": side[0], "PROTON_CUPTI_INTERFACE": side[1]}
            try:
                values = values_of(program, env, 1, count)
            except RuntimeError as error:
                print(f"{side_name(*side)}: {error}", file=sys.stderr)
                del found[side]
                continue
            for name, some in values.items():
                found[side].setdefault(name, []).append(statistics.median(some))
    return found


def added(values: Mapping[str, list[float]], name: str = "ours") -> list[float]:
    """The difference to the program without Proton in each round."""
    return [with_it - plain for with_it, plain in zip(values[name], values["plain"])]


def against(
    found: Found, side: tuple[str, str], more: Optional[float] = None, times: float = 1.0
) -> dict:
    """
    The target of a side and whether it is met: a side may add `times` as much as another, and
    `more` units. The first interface is compared with bare CUPTI in the same process, the
    second with the first interface of the same library in the same round.
    """
    library, interface = side
    first = found.get((library, "1"))
    if more is None or first is None or (interface == "1" and "floor" not in first):
        return {}
    reference = added(first, "floor") if interface == "1" else added(first)
    name = "bare CUPTI" if interface == "1" else "the first interface"
    differences = [
        ours - times * theirs - more for ours, theirs in zip(added(found[side]), reference)
    ]
    middle, interval = median_interval(differences)
    text = f"at most {times:g} x what {name} adds, and {more:g}: {middle:+.3f} from that limit"
    if interval is not None:
        text += f" ({interval[0]:+.3f} to {interval[1]:+.3f})"
    met = interval is not None and len(differences) >= MIN_ROUNDS and interval[1] <= 0
    return {"target": f"{text}; {len(differences)} rounds", "met": met}


def measure_gpu(directory: str, libraries: list[str], rounds: int) -> list[dict]:
    """One process per round and side, in turns."""
    rows = []
    sides = [(library, interface) for library in libraries for interface in INTERFACES]
    for program_name, count, work, unit, more, times in GPU_WORK:
        found = take_turns(build(directory, program_name), count, sides, rounds)
        for side, values in found.items():
            figures = {
                name: statistics.median(values[name])
                for name in ("plain", "floor", "ours")
                if name in values
            }
            limit = against(found, side, more, times)
            row = report.row(
                f"{work}: {side_name(*side)}", unit, noise=spread(values["plain"]), **figures
            )
            rows.append({**row, **limit})
        rows += [
            report.row(
                f"{work}, threads that read records: {side_name(*side)}",
                "us of CPU per launch",
                ours=statistics.median(values["ours reading"]),
                noise=spread(values["ours reading"]),
            )
            for side, values in found.items()
            if "ours reading" in values
        ]
    return rows


def measure_python(
    sides: Sequence[tuple[str, str]], rounds: int, more: Mapping[str, str]
) -> list[dict]:
    """A process of bench/launch_side.py per side; in turns without, with and without a session."""
    cpu = max(os.sched_getaffinity(0))
    command = [sys.executable, os.path.join(HERE, "launch_side.py"), "ours", str(cpu)]
    turns: dict[tuple[str, str], list[list[float]]] = {side: [] for side in sides}
    with tempfile.TemporaryDirectory() as scratch:
        running = {}
        for number, side in enumerate(sides):
            env = {
                **os.environ,
                **more,
                "PROTON_CUPTI_PATH": side[0],
                "PROTON_CUPTI_INTERFACE": side[1],
                "PROTON_QUIET": "1",
            }
            running[side] = Side(side_name(*side), command, f"{scratch}/{number}", env)
        for _ in range(rounds):
            for side in list(running):
                try:
                    turns[side].append(
                        running[side].ask({"options": {}, "launches": PYTHON_LAUNCHES})
                    )
                except SideError as error:
                    print(error, file=sys.stderr)
                    running.pop(side).kill()
        for left in running.values():
            left.end()
    work, unit = PYTHON_WORK
    rows = []
    for side, some in turns.items():
        figures = {}
        if some:
            figures["plain"] = statistics.median(one for turn in some for one in turn[::2])
            figures["ours"] = figures["plain"] + statistics.median(
                turn[1] - (turn[0] + turn[2]) / 2 for turn in some
            )
        rows.append(report.row(f"{work}: {side_name(*side)}", unit, **figures))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cupti", action="append", default=[], help="a libcupti; needs a GPU")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--before", help="bench_cupti_decode of an earlier version")
    parser.add_argument("--fake", action="store_true", help="the Python loop without a GPU")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if arguments.fake and arguments.write:
        parser.error("--fake measures nothing that could be stored")
    libraries = [os.path.abspath(library) for library in arguments.cupti]
    if libraries:
        rows = measure_gpu(arguments.build, libraries, arguments.rounds)
        sides = [(library, interface) for library in libraries for interface in INTERFACES]
        rows += measure_python(sides, arguments.rounds, {})
    else:
        rows = decode(arguments.build, arguments.rounds, arguments.before)
    if arguments.fake:
        fake = fakes(arguments.build)
        sides = [(fake["PROTON_CUPTI_PATH"], interface) for interface in INTERFACES]
        more = {**fake, "PROTON_BENCH_FAKE": "1", "FAKE_CUPTI_VERSION": "130500"}
        rows += measure_python(sides, arguments.rounds, more)
    for row in rows:
        report.show(row)
    if arguments.write and libraries:
        report.write("cupti_v2", report.gpu(), report.versions("torch", "triton"), rows)
    elif arguments.write:
        report.write("cupti_decode", "fake libcupti, no GPU", report.versions(), rows)


if __name__ == "__main__":
    main()
