"""Benchmark of recording from 1, 4, 16 and 64 threads: runs bench_contention, prints a table.

    python bench/contention.py [--rounds N] [--only PART] [--write] [--build DIR]

`ours` is the time of a core per scope, `floor` that of one thread at the same work, `noise` how
far two runs lay apart. With a context per thread nothing is shared but the session, and a figure
must be at most three times that of one thread; threads that record into one context share its rows,
which has no target. Needs an idle machine: the figures are wall time. --write stores
bench/results/contention.json.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

import report
from run import ROOT, build, processor

TIMES_MAX = 3.0


def measure(program: str, rounds: int, part: str) -> dict[str, list[float]]:
    """Each figure of two runs with `part` in its name, by the work."""
    values: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for _ in range(2):
            text = subprocess.run(
                [program, scratch, str(rounds), part],
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            ).stdout
            for line in text.splitlines():
                work, _unit, value = line.split("\t")
                values.setdefault(work, []).append(float(value))
    return values


def summarize(values: dict[str, list[float]]) -> list[dict[str, Any]]:
    """Rows in the order of the figures."""
    rows = []
    for work, runs in values.items():
        kind = work.rsplit(", ", 1)[0]
        ours = statistics.median(runs)
        one = statistics.median(values[f"{kind}, 1 thread"])
        is_own = "a context per thread" in work and not work.endswith(" 1 thread")
        rows.append(
            report.row(
                work,
                "ns",
                ours=ours,
                floor=one,
                noise=max(runs) / min(runs) - 1,
                target=f"at most {TIMES_MAX:.0f} times one thread" if is_own else None,
                met=ours <= TIMES_MAX * one if is_own else None,
            )
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each of the two runs")
    parser.add_argument("--only", default="", help="figures with this in their name")
    parser.add_argument("--write", action="store_true", help="store bench/results/contention.json")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build directory")
    options = parser.parse_args()

    program = build(options.build, "bench_contention")
    rows = summarize(measure(program, options.rounds, options.only))
    for row in rows:
        report.show(row)
    if options.write and not options.only:
        report.write("contention", processor(), report.versions(), rows)
    return 1 if any(row["met"] is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
