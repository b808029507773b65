"""Benchmark of CUPTI's two interfaces: launches, graph replays, and the thread that reads records.

    python bench/cupti_v2.py [--rounds N] [--write] [--build DIR] [--cupti PATH]...

Without a GPU, only the reading of records is measured, on the fake libcupti of the tests: the time
of Proton's own code, without CUPTI's. On a GPU, name libraries to compare, each as a
file or directory of NVIDIA's wheels (13.0, and two of 13.3 or later):

    pip download --no-deps nvidia-cuda-cupti==13.5.25     # and unzip it

Each library is used by its first interface and, from 13.3 on, by its second. The sides take turns.
A library that the driver refuses is reported and left out. In a row, `plain` is without Proton,
`floor` bare CUPTI, `ours` a session. The floor uses the first interface, which excludes the second
in its process: rows of the second have none. --write stores bench/results/cupti_v2.json; rows that
were not measured have no figures.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

import report
from run import ROOT, build

INTERFACES = ("1", "2")
DECODE_TARGET = 0.7  # times the first interface's time
GPU_WORK = (
    ("bench_cuda_launch", "C launch loop, empty kernel", "us per launch"),
    ("bench_cuda_graph", "replay of a graph of 100 empty kernels", "us per replay"),
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


def decode(directory: str, rounds: int) -> list[dict]:
    """Reading records of the fake libcupti: the interfaces take turns in one process."""
    libraries = {}
    for name in ("cupti", "cuda"):
        path = os.path.join("tests", "fake", f"libfake_{name}.so")
        subprocess.run(["ninja", "--quiet", "-C", directory, path], check=True)
        libraries[f"PROTON_{name.upper()}_PATH"] = os.path.join(os.path.abspath(directory), path)
    values = values_of(build(directory, "bench_cupti_decode"), libraries, rounds)
    first, second = statistics.median(values["first"]), statistics.median(values["second"])
    spread = (max(values["first"]) - min(values["first"])) / first
    return [
        report.row(
            "reading records of the fake libcupti: second interface (ours), first (floor)",
            "ns CPU per kernel",
            floor=first,
            ours=second,
            noise=spread,
            target=f"at most {DECODE_TARGET} x the first",
            met=second <= DECODE_TARGET * first,
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


def measure_gpu(directory: str, libraries: list[str], rounds: int) -> list[dict]:
    """One process per round and side, in turns."""
    rows = []
    sides = [(library, interface) for library in libraries for interface in INTERFACES]
    for program_name, work, unit in GPU_WORK:
        program = build(directory, program_name)
        found: dict[tuple[str, str], dict[str, list[float]]] = {}
        refused: set[tuple[str, str]] = set()
        for _ in range(rounds):
            for side in sides:
                if side in refused:
                    continue
                env = {"PROTON_CUPTI_PATH": side[0], "PROTON_CUPTI_INTERFACE": side[1]}
                try:
                    values = values_of(program, env, 1)
                except RuntimeError as error:
                    print(f"{side_name(*side)}: {error}", file=sys.stderr)
                    refused.add(side)
                    continue
                for name, some in values.items():
                    found.setdefault(side, {}).setdefault(name, []).extend(some)
        for side in sides:
            values = found.get(side, {})
            figures = {
                name: statistics.median(values[name])
                for name in ("plain", "floor", "ours")
                if name in values
            }
            rows.append(report.row(f"{work}: {side_name(*side)}", unit, **figures))
    return rows


def unmeasured() -> list[dict]:
    """The rows of a GPU, without figures."""
    return [
        report.row(f"{work}: CUPTI 13.5, interface {interface}", unit)
        for _, work, unit in GPU_WORK
        for interface in INTERFACES
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cupti", action="append", default=[], help="a libcupti; needs a GPU")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    rows = decode(arguments.build, arguments.rounds)
    if arguments.cupti:
        rows += measure_gpu(arguments.build, arguments.cupti, arguments.rounds)
    else:
        rows += unmeasured()
    for row in rows:
        report.show(row)
    if arguments.write:
        machine = report.gpu() if arguments.cupti else "no GPU: fake libcupti, two shared cores"
        report.write("cupti_v2", machine, report.versions(), rows)


if __name__ == "__main__":
    main()
