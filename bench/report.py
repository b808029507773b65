"""Results of benchmarks: rows as bench/results/*.json keeps them, printed and written.

A row is a dict with the keys work, unit, plain, ours, upstream, floor, noise, target and met; None
where a column does not apply. `noise` is a share, `target` a text, `met` whether it was reached.

    python bench/report.py NAME [WORD]

prints the rows of bench/results/NAME.json with WORD in their work, as in README's table.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Optional

RESULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results")


def row(
    work: str,
    unit: str,
    *,
    plain: Optional[float] = None,
    ours: Optional[float] = None,
    upstream: Optional[float] = None,
    floor: Optional[float] = None,
    noise: Optional[float] = None,
    target: Optional[str] = None,
    met: Optional[bool] = None,
) -> dict[str, Any]:
    """One row, its figures rounded to four significant digits."""

    def figure(value: Optional[float]) -> Optional[float]:
        return None if value is None else float(f"{value:.4g}")

    return {
        "work": work,
        "unit": unit,
        "plain": figure(plain),
        "ours": figure(ours),
        "upstream": figure(upstream),
        "floor": figure(floor),
        "noise": None if noise is None else round(noise, 3),
        "target": target,
        "met": met,
    }


def show(one: Mapping[str, Any]) -> None:
    """Print a row on a line."""
    columns = [
        f"{name} {one[name]}"
        for name in ("plain", "floor", "ours", "upstream")
        if one[name] is not None
    ]
    if one["noise"] is not None:
        columns.append(f"noise {100 * one['noise']:.1f} %")
    verdict = {None: "  ", True: "  met: ", False: "  MISSED: "}[one["met"]]
    print(
        f"{one['work']:<48} {'  '.join(columns)}  ({one['unit']}){verdict}{one['target'] or ''}",
        flush=True,
    )


def gpu() -> str:
    """The first GPU and its driver, as nvidia-smi names them."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    answer = subprocess.run(query, check=True, stdout=subprocess.PIPE, text=True)
    return answer.stdout.splitlines()[0]


def versions(*modules: str) -> dict[str, str]:
    """The versions of Python, the kernel and the importable modules named."""
    found = {"python": platform.python_version(), "kernel": platform.release()}
    for name in modules:
        found[name] = __import__(name).__version__
    return found


def write(
    name: str, machine: str, of: Mapping[str, str], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Store the rows as bench/results/`name`.json."""
    result = {
        "date": datetime.date.today().isoformat(),
        "machine": machine,
        "versions": dict(of),
        "rows": list(rows),
    }
    with open(os.path.join(RESULTS, name + ".json"), "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")


def stored(name: str) -> list[dict[str, Any]]:
    """The rows of bench/results/`name`.json."""
    with open(os.path.join(RESULTS, name + ".json"), encoding="utf-8") as file:
        rows: list[dict[str, Any]] = json.load(file)["rows"]
    return rows


def merged(name: str, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows of bench/results/`name`.json, with `rows` in place of those of the same work."""
    new = {one["work"]: one for one in rows}
    kept = [new.pop(one["work"], one) for one in stored(name)]
    return [*kept, *new.values()]


def as_markdown(one: Mapping[str, Any]) -> str:
    """A row of README's table: work, unit, without, with Proton, with upstream, bare CUPTI."""
    columns = ("work", "unit", "plain", "ours", "upstream", "floor")
    cells = ["" if one[column] is None else str(one[column]) for column in columns]
    return "| " + " | ".join(cells) + " |"


def main(name: str, word: str = "") -> None:
    for one in stored(name):
        if word in one["work"]:
            print(as_markdown(one))


if __name__ == "__main__":
    main(*sys.argv[1:3])
