"""Benchmark of intra-kernel scopes on an NVIDIA GPU, next to Triton's profiler.

    python bench/intra.py [--launches N] [--sides ours,upstream,auto] [--write]

Needs a GPU, torch, triton, the installed package, and libcupti where the library finds it
(PROTON_CUPTI_PATH). Each side is a separate process (bench/intra_side.py). Figures: the kernel's
time from CUPTI's records with scopes over without (medians; each launch alone, and launches back to
back while records are read; over all kernels the first's mean and worst), the same with tree=sums;
microseconds of the launching thread (median of launches on an idle device, and of launches back to
back); milliseconds per launch when launches follow each other, until everything has been recorded;
seconds and megabytes of a trace of 24 launches, of which ours keeps 8 unless told to keep all;
registers; cycles of a record. The side `auto` (bench/intra_auto.py, about a minute) times these
kernels and others of the shapes of Triton's tutorials with automatic scopes, with and without a
budget. --write stores bench/results/intra.json; rows of sides that are not measured stay there.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from typing import Any, Optional

import report
from run import HERE

ALL = "all kernels"
RECORD = "a record"
SUM = "a sum"

# Figure, unit, and what is to be reached: by all cases where it must hold for EVERY one, else by
# the first, by all of them together and by a record.
FIGURES: dict[str, tuple[str, Optional[float]]] = {
    "kernel time, plain": ("us", None),
    "kernel time with scopes": ("x", 1.05),
    "kernel time with scopes, launches back to back": ("x", None),
    "kernel time with sums": ("x", None),
    "kernel time with sums, launches back to back": ("x", None),
    "kernel time with sums, mean": ("x", None),
    "kernel time with sums, worst": ("x", None),
    "kernel time with scopes, mean": ("x", 1.05),
    "kernel time with scopes, worst": ("x", 1.15),
    "kernel time with auto=all": ("x", None),
    "kernel time with auto=all and a budget": ("x", None),
    "kernel time with auto=all and a budget, mean": ("x", 1.03),
    "kernel time with auto=all and a budget, worst": ("x", 1.08),
    "scopes with auto=all": ("scopes", None),
    "scopes with auto=all and a budget": ("scopes", None),
    "more registers with auto=all and a budget": ("registers", None),
    "added to the launching thread": ("us", 50.0),
    "launch, back to back": ("us", None),
    "launch, sustained": ("ms", 2.0),
    "24 launches, trace written": ("s", 3.0),
    "24 launches, trace": ("MB", 60.0),
    "24 launches, slices": ("slices", None),
    "24 launches, trace for Perfetto": ("MB", 60.0),
    "24 launches, trace for Perfetto written": ("s", 3.0),
    "24 launches, all kept, trace written": ("s", None),
    "24 launches, all kept, trace": ("MB", None),
    "24 launches, all kept, slices": ("slices", None),
    "more registers": ("registers", 6.0),
    "spills": ("bytes", 0.0),
    "results differ": ("", 0.0),
    "empty scope measures": ("cycles", None),
    "scope adds to the one around": ("cycles", 60.0),  # two records of 30
}

EVERY = {
    "added to the launching thread",
    "launch, sustained",
    "more registers",
    "spills",
    "results differ",
}

# Targets of single cases. Trees of long loops have sums by default.
OF_CASE: dict[tuple[str, str], float] = {
    ("flash attention", "kernel time with sums"): 1.08,
    ("layer norm", "kernel time with sums, launches back to back"): 1.08,
}


def run_side(side: str, launches: int) -> Optional[dict[str, Any]]:
    program = ["intra_auto.py"] if side == "auto" else ["intra_side.py", side]
    command = [sys.executable, os.path.join(HERE, program[0]), *program[1:], str(launches)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    for line in done.stdout.splitlines():
        if line.startswith("result "):
            return json.loads(line[len("result ") :])
    print(f"the side '{side}' ended with {done.returncode} and no result", file=sys.stderr)
    return None


def figures(found: dict[str, Any]) -> dict[tuple[str, str], float]:
    """(case, figure) -> value, of one side."""
    values: dict[tuple[str, str], float] = {}
    for name, case in found["cases"].items():
        values[name, "results differ"] = 0.0 if case["identical"] else 1.0
        plain, marked = case.get("plain"), case.get("marked")
        if case.get("kernel"):
            kernel = case["kernel"]
            values[name, "kernel time, plain"] = kernel["plain us"]
            values[name, "kernel time with scopes"] = kernel["ratio"]
            if "busy ratio" in kernel:
                values[name, "kernel time with scopes, launches back to back"] = kernel[
                    "busy ratio"
                ]
            if "sums ratio" in kernel:
                values[name, "kernel time with sums"] = kernel["sums ratio"]
                values[name, "kernel time with sums, launches back to back"] = kernel[
                    "sums busy ratio"
                ]
        if plain and marked:
            values[name, "added to the launching thread"] = (
                marked["launching thread us"] - plain["launching thread us"]
            )
            values[name, "launch, back to back"] = marked["back to back us"]
            values[name, "launch, sustained"] = marked["sustained ms"]
            values[name, "more registers"] = marked["registers"] - plain["registers"]
            values[name, "spills"] = marked["spills"]
        for key, what in (("trace", "24 launches"), ("whole trace", "24 launches, all kept")):
            if case.get(key):
                values[name, f"{what}, trace written"] = case[key]["write s"]
                values[name, f"{what}, trace"] = case[key]["MB"]
                values[name, f"{what}, slices"] = case[key]["slices"]
        if case.get("perfetto"):
            values[name, "24 launches, trace for Perfetto"] = case["perfetto"]["MB"]
            values[name, "24 launches, trace for Perfetto written"] = case["perfetto"]["write s"]
    kernels = [case["kernel"] for case in found["cases"].values() if case.get("kernel")]
    for key, what in (("ratio", "scopes"), ("sums ratio", "sums")):
        ratios = [kernel[key] for kernel in kernels if key in kernel]
        if ratios and len(ratios) == len(found["cases"]):  # one that fails could be the worst
            values[ALL, f"kernel time with {what}, mean"] = statistics.mean(ratios)
            values[ALL, f"kernel time with {what}, worst"] = max(ratios)
    for key, what in (("record", RECORD), ("sum", SUM)):
        if found.get(key):
            values[what, "empty scope measures"] = found[key]["empty cycles"]
            values[what, "scope adds to the one around"] = found[key]["scope cycles"]
    return values


def automatic(found: dict[str, Any]) -> dict[tuple[str, str], float]:
    """(case, figure) -> value, of bench/intra_auto.py."""
    values: dict[tuple[str, str], float] = {}
    names = {"all": "auto=all", "budget": "auto=all and a budget"}
    for name, case in found["cases"].items():
        if not case:
            continue
        values[name, "results differ"] = 0.0 if case["identical"] else 1.0
        for key, what in names.items():
            values[name, f"kernel time with {what}"] = case[f"{key} ratio"]
            values[name, f"scopes with {what}"] = case[f"{key} scopes"]
        values[name, f"more registers with {names['budget']}"] = case["budget registers"]
    ratios = [case["budget ratio"] for case in found["cases"].values() if case]
    if ratios and len(ratios) == len(found["cases"]):
        figure = f"kernel time with {names['budget']}"
        values[ALL, f"{figure}, mean"] = statistics.mean(ratios)
        values[ALL, f"{figure}, worst"] = max(ratios)
    return values


def rows_of(raw: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    raw = dict(raw)
    auto = raw.pop("auto", None)
    sides = {side: figures(found) for side, found in raw.items()}
    if auto is not None:
        ours = sides.setdefault("ours", {})
        for key, value in automatic(auto).items():
            ours[key] = max(value, ours.get(key, value))
    first = next(iter(next(iter([*raw.values(), auto]))["cases"]))
    kept = raw.get("ours", {}).get("cases", {}).get(first, {}).get("launches kept")
    rows = []
    for case, figure in dict.fromkeys(key for values in sides.values() for key in values):
        found = report.row(
            f"{case}: {figure}",
            FIGURES[figure][0],
            ours=sides.get("ours", {}).get((case, figure)),
            upstream=sides.get("upstream", {}).get((case, figure)),
        )
        note = ""
        if figure.startswith("24 launches") and kept is not None:
            note = f"; the file holds {kept} of the 24, as it does by default"
        rows.append(judged(found, first, note))
    return rows


def judged(found: dict[str, Any], first: str, note: str = "") -> dict[str, Any]:
    """The row with its target; the figures of the case `first` are judged one by one."""
    case, _, figure = found["work"].rpartition(": ")
    unit, limit = FIGURES[figure]
    limit = OF_CASE.get((case, figure), limit)
    is_judged = case in (first, ALL, RECORD) or figure in EVERY or (case, figure) in OF_CASE
    if limit is None or not is_judged:
        return found
    met = None if found["ours"] is None else found["ours"] <= limit
    return {**found, "target": f"at most {limit:g} {unit}".rstrip() + note, "met": met}


def with_stored(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The stored rows with today's targets, and what `rows` have in place of theirs."""
    stored = report.stored("intra")
    first = stored[0]["work"].rpartition(": ")[0]
    found = {}
    for row in stored:
        _, separator, note = (row["target"] or "").partition("; ")
        found[row["work"]] = judged(row, first, separator + note)
    for row in rows:
        figures = {key: value for key, value in row.items() if value is not None}
        found[row["work"]] = {**row, **found.get(row["work"], {}), **figures}
    return list(found.values())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--launches", type=int, default=50)
    parser.add_argument("--sides", default="ours,upstream,auto")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    raw = {}
    for side in options.sides.split(","):
        found = run_side(side, options.launches)
        if found is None:
            continue
        raw[side] = found
        rows = rows_of(raw)
        for row in rows:
            report.show(row)
        if options.write:  # after each side: the next one may not end in time
            of = {**report.versions("torch", "triton"), "sides of the last run": ", ".join(raw)}
            is_whole = set(raw) == {"ours", "upstream", "auto"}
            report.write("intra", report.gpu(), of, rows if is_whole else with_stored(rows))
    if not raw:
        raise SystemExit("no side gave a result")


if __name__ == "__main__":
    main()
