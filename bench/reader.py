"""Costs of reading a large profile in Python: load it, and give it to pandas and to Arrow.

    python bench/reader.py --build DIR [--nodes N] [--rounds N] [--write]

Needs a build directory with bench/make_nodes, pandas and pyarrow. Each row is the median of rounds,
in seconds of CPU time of a new process. "columns" is the step from a loaded profile to its table:
metrics are derived and frames sorted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile

import report
from viewer import machine, record

STEPS = """
import json, sys, time
import numpy, pandas, pyarrow
import triton_proton
steps = {}
def step(name, function):
    start = time.process_time()
    result = function()
    steps[name] = time.process_time() - start
    return result
profile = step("load", lambda: triton_proton.load(sys.argv[1]))
step("columns", lambda: len(profile))
step("Arrow, from columns", profile.to_arrow)
step("pandas, from columns", lambda: profile.df)
print(json.dumps(steps))
"""
LIMITS = {"load": 0.3, "Arrow, from columns": 0.1, "pandas, from columns": 1.5}


def measure(path: str, rounds: int) -> dict[str, list[float]]:
    """Seconds by step."""
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        done = subprocess.run(
            [sys.executable, "-c", STEPS, path], check=True, capture_output=True, timeout=600
        )
        for name, seconds in json.loads(done.stdout).items():
            found.setdefault(name, []).append(seconds)
    return found


def rows_of(path: str, label: str, rounds: int) -> list[dict]:
    rows = []
    for name, values in measure(path, rounds).items():
        seconds = statistics.median(values)
        # JSON takes longer to parse; its limit is that of the viewer (bench/viewer.py).
        limit = LIMITS.get(name) if name != "load" or path.endswith(".proton") else None
        rows.append(
            report.row(
                f"{label}: {name}",
                "s",
                ours=seconds,
                noise=(max(values) - min(values)) / seconds,
                target=f"at most {limit} s for a million nodes" if limit else None,
                met=seconds <= limit if limit else None,
            )
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        for form in ("proton", "hatchet"):
            path = record(arguments.build, directory, arguments.nodes, form)
            rows += rows_of(path, f"{arguments.nodes} nodes, .{form}", arguments.rounds)
    for row in rows:
        report.show(row)
    if arguments.write:
        report.write("reader", machine(), report.versions("numpy", "pandas", "pyarrow"), rows)


if __name__ == "__main__":
    main()
