"""Views of proton-viewer before and after a change: no view may become slower.

    python bench/views.py --build DIR --before DIR [--nodes N] [--ranks N] [--rounds N] [--write]

Needs two build directories with bench/make_nodes, src/proton-viewer and src/proton-merge, of this
revision and of the one to compare with. Each records a profile of N nodes and a job of ranks of
2,000 nodes with the same times, because formats change, and prints each view of the profile, of
the job's directory and of its merged file. In a round all views take turns on both sides.

`plain` is the CPU time before, `ours` after: medians. `noise` is half of the interval of 95 % of
the median of paired differences, as a share. A view is not slower if that interval is not above
2 %.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile

import report
from ranks import run
from turns import MIN_ROUNDS, median_interval
from viewer import machine, record

LIMIT = 0.02
VIEWS = {
    "tree": [],
    "tree, 3 levels": ["-d", "3"],
    "--top": ["--top"],
    "--bottom-up": ["--bottom-up"],
    "--group scope": ["--group", "scope"],
    "--csv": ["--csv"],
    "--json": ["--json"],
}


def make_inputs(build: str, directory: str, nodes: int, ranks: int) -> dict[str, str]:
    """The profile, the job's directory and its merged file, by what they are called in a row."""
    job = os.path.join(directory, "job.ranks")
    os.makedirs(os.path.join(job, "000-999"))
    for rank in range(ranks):
        # The file says which rank it is of.
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank % 8))
        path = record(build, directory, 2000, "proton", str(rank + 1))
        os.replace(path, os.path.join(job, "000-999", f"rank{rank:06}.proton"))
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        os.environ.pop(name, None)
    merged = os.path.join(directory, "merged.proton")
    merge = os.path.join(build, "src", "proton-merge")
    subprocess.run([merge, "-o", merged, job], check=True, stderr=subprocess.DEVNULL)
    return {
        f"a profile of {nodes} nodes": record(build, directory, nodes, "proton"),
        f"the directory of {ranks} ranks of 2000 nodes": job,
        f"the merged file of {ranks} ranks of 2000 nodes": merged,
    }


def row(work: str, before: list[float], after: list[float]) -> dict[str, object]:
    middle, interval = median_interval([b / a - 1 for a, b in zip(before, after)])
    judged = interval if len(before) >= MIN_ROUNDS else None
    return report.row(
        f"{work}: {100 * middle:+.1f} %",
        "CPU s",
        plain=statistics.median(before),
        ours=statistics.median(after),
        noise=(interval[1] - interval[0]) / 2 if interval else None,
        target=f"not slower by more than {100 * LIMIT:.0f} %",
        met=judged[1] <= LIMIT if judged else None,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--before", required=True)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    sides = [os.path.abspath(options.before), os.path.abspath(options.build)]
    with tempfile.TemporaryDirectory() as directory:
        inputs = []
        for number, build in enumerate(sides):
            place = os.path.join(directory, str(number))
            os.makedirs(place)
            inputs.append(make_inputs(build, place, options.nodes, options.ranks))
        spent: dict[str, tuple[list[float], list[float]]] = {}
        for turn in range(options.rounds):
            for what in inputs[0]:
                for name, arguments in VIEWS.items():
                    times = spent.setdefault(f"{what}: {name}", ([], []))
                    for side in (0, 1) if turn % 2 else (1, 0):
                        viewer = os.path.join(sides[side], "src", "proton-viewer")
                        times[side].append(run([viewer, *arguments, inputs[side][what]])[0])
    rows = [row(work, *times) for work, times in spent.items()]
    for one in rows:
        report.show(one)
    if options.write:
        report.write("views", machine(), report.versions(), rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
