"""Benchmark of traces: recording events, and writing a million of them.

    python bench/trace.py [--rounds N] [--write] [--build DIR]

Needs the installed package, Meson and a C compiler. `ours` is the median of two runs with
alternating rounds, `noise` their difference. --write stores bench/results/trace.json. Upstream's
profiler records traces with GPU backends only, so its column is empty.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile

import report
from run import ROOT, build, processor, run_c

TARGETS = {
    "finalize 1000000 events as chrome_trace": (0.5, "at most 0.5 s"),
    "finalize 1000000 events as perfetto": (0.5, "at most 0.5 s"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each of the two runs")
    parser.add_argument("--write", action="store_true", help="store bench/results/trace.json")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build directory")
    options = parser.parse_args()

    program = build(options.build, "bench_trace")
    values: dict[tuple[str, str], tuple[list[float], list[float]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for turn in range(2 * options.rounds):
            for work, unit, value in run_c(program, scratch):
                values.setdefault((work, unit), ([], []))[turn % 2].append(value)
    rows = []
    for (work, unit), (a, b) in values.items():
        ours = statistics.median(a + b)
        low, high = sorted((statistics.median(a), statistics.median(b)))
        limit, sentence = TARGETS.get(work, (None, None))
        rows.append(
            report.row(
                work,
                unit,
                ours=ours,
                noise=high / low - 1 if low > 0 else None,
                target=sentence,
                met=None if limit is None else ours <= limit,
            )
        )
        report.show(rows[-1])
    if options.write:
        report.write("trace", processor(), report.versions("triton_proton"), rows)
    return 1 if any(row["met"] is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
