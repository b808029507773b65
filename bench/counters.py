"""Benchmark of counters of kernels on an NVIDIA GPU: their cost, and whether they are right.

    python bench/counters.py [--seconds S] [--rounds N] [--write]

Costs: the training steps, kernels and launches of bench/pcsampling.py, without a profiler
(`plain`), with kernel records alone (`records`, in the column of the floor), and with counters
(`ours`), in turns of processes. Each process runs for 20 s before: most kernels have been measured
then. The first seconds cost up to 1 s in all, which no row has.

Values: operations of matrix products, operations of a known kernel and bytes of an addition, as
the profile has them per launch (`ours`), beside the numbers that follow from the shapes (`plain`).

The status is 1 if a target is missed. --fake tries the costs with the fake libcupti, without a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import report
from cuda_python import fake_environment
from pcsampling import WORKS
from program_turns import Case, Programs
from reference import ADJUSTED, WALL
from run import HERE, ROOT
from turns import Compared, Round, process_medians, spread

ROUNDS = 9
CASES = {
    "plain": Case(),
    "records": Case("ours"),
    "counters": Case(
        "ours", options={"counters": "roofline"}, counter="kernels measured by counters"
    ),
}
# Work, the figure that is judged, its unit, the limit over records.
TARGETS = [
    ("step", WALL, "ms per step", 0.05),
    ("busy", WALL, "ms per step", 0.05),
    ("kernel", WALL, "us per kernel", 0.03),
    ("launch", ADJUSTED, "us of CPU per launch", 0.1),
]


def make_row(
    rounds: Sequence[Round], work: str, figure: int, unit: str, limit: float
) -> dict[str, Any]:
    name, _, scale = WORKS[work][:3]
    plains = process_medians(rounds, "plain", work, figure)
    plain = statistics.median(plains) * scale if plains else None
    over = {
        side: Compared(rounds, work, side, "plain", figure) for side in ("records", "counters")
    }
    added = Compared(rounds, work, "counters", "records", figure)

    def column(side: str) -> Any:
        more = over[side].more
        return None if plain is None or more is None else plain * (1 + more)

    return report.row(
        f"counters: {name}",
        unit,
        plain=plain,
        ours=column("counters"),
        floor=column("records"),
        noise=spread(plains),
        target=(
            f"{added} over kernel records alone, {over['counters']} over plain: at most "
            f"{100 * limit:g} % over records; {added.rounds} rounds"
        ),
        met=added.within(limit),
    )


def value_rows(seconds: float) -> list[dict[str, Any]]:
    """The output of bench/counters_side.py: [[work, unit, truth, found, limit, samples], ...]."""
    done = subprocess.run(
        [sys.executable, os.path.join(HERE, "counters_side.py")], capture_output=True, text=True,
        timeout=seconds, check=True,
    )
    rows = []
    for work, unit, truth, found, limit, samples in json.loads(done.stdout.splitlines()[-1]):
        off = abs(found / truth - 1)
        rows.append(
            report.row(
                f"counters: {work}", unit, plain=truth, ours=found,
                target=f"{100 * off:.4f} % off, at most {100 * limit:g} %; {samples:g} samples",
                met=off <= limit,
            )
        )
    return rows


def main() -> int:
    begin = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="at most so many")
    parser.add_argument("--seconds", type=float, help="the measurement takes at most so long")
    parser.add_argument("--turns", type=int, default=2, help="turns per process and work")
    parser.add_argument("--cpu", type=int, help="processor of the timed loops; default: the last")
    parser.add_argument("--fake", action="store_true", help="try it out without a GPU")
    parser.add_argument("--write", action="store_true", help="store bench/results/counters.json")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build directory")
    options = parser.parse_args()

    rows = []
    if options.fake:
        fake_environment(options.build)
        CASES["counters"] = Case("ours", options={"counters": "roofline"})
    else:
        machine = report.gpu()
        of = report.versions("triton_proton", "triton", "torch")
        rows = value_rows(300)
        for row in rows:
            report.show(row)
    works = [work for work, *_ in TARGETS]
    programs = Programs(
        CASES, works, directory=options.build, cpu=options.cpu, goal=ROUNDS, is_exclusive=True
    )
    if not options.fake:
        programs.use_one_cupti()
    left = None
    if options.seconds is not None:
        left = max(options.seconds - (time.monotonic() - begin), 1.0)
    rounds = programs.measure(options.rounds, options.turns, left)
    costs = [make_row(rounds, *target) for target in TARGETS]
    for row in costs:
        report.show(row)
    if options.write and not options.fake:
        report.write("counters", machine, of, rows + costs)
    missed = any(row["met"] is False for row in rows + costs)
    return 1 if missed and not options.fake else 0


if __name__ == "__main__":
    sys.exit(main())
