"""Benchmark of a C program on an NVIDIA GPU: overhead of launches and graph replays, memory.

    python bench/cuda.py [--rounds N] [--launches N] [--write] [--build DIR]

Needs a GPU, Meson and a C compiler, and libcupti where the library finds it (PROTON_CUPTI_PATH).
The sides take turns in one process: `plain`, `floor` (bare CUPTI: kernel records and one store in
the launch callback), `ours`. Medians over the rounds; `noise` is how far the medians of two plain
turns lay apart. --write stores bench/results/cuda_launch.json.
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

TARGET_ADDED_US = 0.15  # over the floor, per launch
TARGET_GRAPH_SHARE = 1.05  # times the floor's overhead per replay
TARGET_GROWTH_MIB = 8.0


def run_program(program: str, *arguments: object) -> dict[str, list[float]]:
    """The values that a benchmark program prints, by name, in their order."""
    values: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        text = subprocess.run(
            [program, scratch, *map(str, arguments)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
    for line in text.splitlines():
        name, value = line.split("\t")
        values.setdefault(name, []).append(float(value))
    return values


def launches(directory: str, rounds: int, count: int) -> list[dict]:
    """Rows for a loop of empty kernels, and for the same loop after the session has ended."""
    sides = run_program(build(directory, "bench_cuda_launch"), rounds, count)
    plain, floor, ours, after = (
        statistics.median(sides[name]) for name in ("plain", "floor", "ours", "after")
    )
    noise = abs(after - plain) / min(after, plain)
    return [
        report.row(
            "C launch loop, empty kernel",
            "us per launch",
            plain=plain,
            ours=ours,
            floor=floor,
            noise=noise,
            target=f"at most {TARGET_ADDED_US} us over the floor",
            met=ours - floor <= TARGET_ADDED_US,
        ),
        report.row(
            "C launch loop after the session has ended",
            "us per launch",
            plain=plain,
            ours=after,
            noise=noise,
        ),
    ]


def graph(directory: str, rounds: int) -> list[dict]:
    """Rows for replays of a graph of 100 empty kernels."""
    sides = run_program(build(directory, "bench_cuda_graph"), rounds)
    plain, floor, ours, after = (
        statistics.median(sides[name]) for name in ("plain", "floor", "ours", "after")
    )
    added, floor_added = ours - plain, floor - plain
    noise = abs(after - plain) / min(after, plain)
    host = {name: statistics.median(sides[f"{name} host"]) for name in ("plain", "floor", "ours")}
    return [
        report.row(
            "replay of a graph of 100 empty kernels, C",
            "us per replay",
            plain=plain,
            ours=ours,
            floor=floor,
            noise=noise,
            target=f"adds {added:.2f} us, the floor {floor_added:.2f}: at most "
            f"{TARGET_GRAPH_SHARE} of it",
            met=added <= TARGET_GRAPH_SHARE * floor_added,
        ),
        report.row(
            "the same, on the launching thread alone",
            "us per replay",
            plain=host["plain"],
            ours=host["ours"],
            floor=host["floor"],
        ),
    ]


def memory(directory: str, count: int) -> dict:
    """The row for the growth of resident memory over `count` launches."""
    values = run_program(build(directory, "bench_cuda_memory"), count)
    growth = (values["after KiB"][0] - values["warm KiB"][0]) / 1024
    return report.row(
        f"resident memory gained by {count} launches after warm-up",
        "MiB",
        ours=growth,
        target=f"at most {TARGET_GROWTH_MIB:g} MiB",
        met=growth <= TARGET_GROWTH_MIB,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--launches", type=int, default=200000)
    parser.add_argument("--memory-launches", type=int, default=10000000, help="0: leave it out")
    parser.add_argument("--write", action="store_true", help="store bench/results/cuda_launch.json")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build directory")
    options = parser.parse_args()

    rows = launches(options.build, options.rounds, options.launches)
    rows += graph(options.build, options.rounds)
    if options.memory_launches:
        rows.append(memory(options.build, options.memory_launches))
    for row in rows:
        report.show(row)
    if options.write:
        report.write("cuda_launch", report.gpu(), report.versions(), rows)
    return 1 if any(row["met"] is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
