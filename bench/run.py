"""Benchmark of recording on the host: runs every host-side benchmark and prints one table.

    python bench/run.py [--rounds N] [--write] [--build DIR]

Needs the installed package, Meson and a C compiler. `ours` is the median over the rounds; `noise`
is the difference between two runs of the same program, as a share of the smaller. Rounds of the
two runs alternate: a machine that changes its pace changes both. --write stores
bench/results/host.json; bench/python_context.py is run with the same flags and keeps its own file.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import timeit
from collections.abc import Callable

import report

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)

# Upper limit of each figure, and the text of the target.
TARGETS = {
    "scope enter+exit, by name": (150.0, "at most 150 ns from C"),
    "scope enter+exit, by frame": (150.0, "at most 150 ns from C"),
    "with scope(name): pass, from Python": (400.0, "at most 400 ns from Python"),
    "launch recorded in an existing context": (60.0, "at most 60 ns"),
    "finalize 1000000 nodes as hatchet": (1.0, "at most 1 s"),
}


def build(directory: str, name: str) -> str:
    """Build bench program `name` in `directory` and return its path."""
    if not os.path.exists(os.path.join(directory, "build.ninja")):
        subprocess.run(["meson", "setup", directory, ROOT], check=True, stdout=subprocess.DEVNULL)
    program = os.path.join("bench", name)
    subprocess.run(["ninja", "--quiet", "-C", directory, program], check=True)
    return os.path.join(directory, program)


def run_c(program: str, scratch: str, *nodes: str) -> list[tuple[str, str, float]]:
    """One round of every figure of bench_record, or of `nodes` alone: (work, unit, value)."""
    text = subprocess.run(
        [program, scratch, "1", *nodes], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    rows = [line.split("\t") for line in text.splitlines()]
    return [(work, unit, float(value)) for work, unit, value in rows]


def run_python(scratch: str) -> list[tuple[str, str, float]]:
    """The same for what Python code pays."""
    import triton_proton as proton

    scope = proton.scope

    def with_scope() -> None:
        with scope("train_step"):
            pass

    @scope("decorated")
    def decorated() -> None:
        pass

    def plain() -> None:
        pass

    def enter_exit() -> None:
        proton.enter_scope("train_step")
        proton.exit_scope()

    def with_metrics() -> None:
        with scope("train_step", {"bytes": 1000}):
            pass

    def ns(work: Callable[[], None], count: int = 100000) -> float:
        work()
        return timeit.timeit(work, number=count) / count * 1e9

    call = ns(plain)  # minus the cost of calling the measuring function
    rows = [("with scope(name): pass, from Python, nothing live", "ns", ns(with_scope) - call)]
    session = proton.start(os.path.join(scratch, "python"), backend="host")
    rows += [
        ("with scope(name): pass, from Python", "ns", ns(with_scope) - call),
        ("decorated function, from Python", "ns", ns(decorated) - call),
        ("enter_scope, exit_scope, from Python", "ns", ns(enter_exit) - call),
        ("with scope(name, one metric): pass, from Python", "ns", ns(with_metrics) - call),
    ]
    proton.finalize(session)
    return rows


def show_progress(text: str) -> None:
    """A progress line that replaces the previous one, on a terminal."""
    if sys.stderr.isatty():
        print(f"\r{text:<20}\r", end="", file=sys.stderr, flush=True)


def collect(rounds: int, program: str) -> list[dict[str, object]]:
    """All rows, each the median of two runs' worth of rounds that took turns."""
    values: dict[tuple[str, str], tuple[list[float], list[float]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for turn in range(2 * rounds):
            for work, unit, value in run_c(program, scratch) + run_python(scratch):
                values.setdefault((work, unit), ([], []))[turn % 2].append(value)
            show_progress(f"round {turn + 1} of {2 * rounds}")
        for turn in range(2):
            for work, unit, value in run_c(program, scratch, "10000000"):
                values.setdefault((work, unit), ([], []))[turn].append(value)
    show_progress("")
    rows = []
    for (work, unit), (a, b) in values.items():
        ours = statistics.median(a + b)
        halves = sorted((statistics.median(a), statistics.median(b)))
        limit, sentence = TARGETS.get(work, (None, None))
        rows.append(
            {
                "work": work,
                "unit": unit,
                "plain": None,
                "ours": float(f"{ours:.4g}"),
                "upstream": None,
                "floor": None,
                "noise": float(f"{halves[1] / halves[0] - 1:.2g}") if halves[0] > 0 else None,
                "target": sentence,
                "met": None if limit is None else ours <= limit,
            }
        )
    return rows


def processor() -> str:
    """The processor's name and the number of cores, as Linux tells them."""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as info:
        names = [line.split(":", 1)[1].strip() for line in info if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


def print_table(rows: list[dict[str, object]]) -> None:
    """One line per row, figures aligned."""
    width = max(len(str(row["work"])) for row in rows)
    for row in rows:
        verdict = {None: "", True: "  met: ", False: "  MISSED: "}[row["met"]]
        noise = f"+-{100 * row['noise']:.0f} %" if row["noise"] is not None else ""
        print(
            f"{row['work']:<{width}}  {row['ours']:>9} {row['unit']:<2} {noise:>7}"
            f"{verdict}{row['target'] or ''}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each of the two runs")
    parser.add_argument("--write", action="store_true", help="store bench/results/host.json")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build directory")
    options = parser.parse_args()

    import triton_proton

    rows = collect(options.rounds, build(options.build, "bench_record"))
    print_table(rows)
    if options.write:
        report.write("host", processor(), report.versions("triton_proton"), rows)
    print()
    context = [sys.executable, os.path.join(HERE, "python_context.py")]
    context += ["--rounds", str(options.rounds)] + (["--write"] if options.write else [])
    status = subprocess.run(context, check=False).returncode
    return 1 if any(row["met"] is False for row in rows) else status


if __name__ == "__main__":
    sys.exit(main())
