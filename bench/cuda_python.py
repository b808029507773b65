"""Benchmark of a Triton launch from Python on an NVIDIA GPU, next to Triton's profiler.

    python bench/cuda_python.py [--rounds N] [--launches N] [--write] [--build DIR]

Needs a GPU, torch, triton, the installed package, Meson, a C compiler, and libcupti where the
library finds it (PROTON_CUPTI_PATH). Sides: bare CUPTI (`floor`: kernel records and one store in
the launch callback), `ours`, `upstream`, each in its own process (bench/launch_side.py), because
two profilers cannot share CUPTI. They take turns of a few dozen milliseconds, in an order that
changes from round to round, all on one processor, with garbage collection off.

A turn is the loop without a profiler, with one, and without again. The profiler's overhead is the
difference to the mean of the two plain loops around it. The figures are medians of these
differences over the rounds: `plain` is the median of all plain loops, the other columns are `plain`
and what the side adds. `noise` is the median distance of the two plain loops of a turn, as a share.
--fake tries out the script without a GPU, on the libraries of tests/fake. --write stores
bench/results/cuda_python.json.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import report
from run import HERE, ROOT, build
from turns import Side

OVER_FLOOR_US = 0.3
# Work, options of the session, at most this share of what upstream adds, compared with the floor.
CASES: dict[str, tuple[str, dict[str, str], float, bool]] = {
    "shadow": ("Python Triton launch, context shadow", {"context": "shadow"}, 0.6, True),
    "python": ("Python Triton launch, context python", {"context": "python"}, 0.3, False),
    "hook": ("Python Triton launch, hook triton", {"hook": "triton"}, 0.5, False),
}

Turn = Sequence[float]  # us per launch: plain, with the profiler, plain


def start_side(name: str, cpu: int, library: str, scratch: str) -> Side:
    """A process that launches; its standard error is kept apart until it fails."""
    command = [sys.executable, os.path.join(HERE, "launch_side.py"), name, str(cpu), library]
    return Side(name, command, os.path.join(scratch, name))


def added(turn: Turn) -> float:
    """The profiler's overhead in a turn."""
    before, with_profiler, after = turn
    return with_profiler - (before + after) / 2


def median_added(turns: Sequence[Turn]) -> Optional[float]:
    return statistics.median(map(added, turns)) if turns else None


def over_floor(ours: Sequence[Turn], floor: Sequence[Turn]) -> float:
    """The median of what ours adds more than the floor in the same round."""
    return statistics.median(added(a) - added(b) for a, b in zip(ours, floor))


def quartiles(turns: Sequence[Turn]) -> str:
    low, _, high = statistics.quantiles(map(added, turns), n=4)
    return f"{low:.2f} to {high:.2f}"


def judge(case: str, turns: Mapping[str, Sequence[Turn]]) -> tuple[str, Optional[bool]]:
    """The target as text with the measured value, and whether it is met; None: unknown."""
    _, _, share, wants_floor = CASES[case]
    ours, upstream = median_added(turns["ours"]), median_added(turns["upstream"])
    found = f"adds {ours:.2f} us ({quartiles(turns['ours'])})"
    asked, met = [], []
    if wants_floor:
        more = over_floor(turns["ours"], turns["floor"])
        found += f", the floor {median_added(turns['floor']):.2f} ({more:+.2f} in the same round)"
        asked.append(f"{OVER_FLOOR_US} over the floor")
        met.append(more <= OVER_FLOOR_US)
    if upstream is not None:
        found += f", upstream {upstream:.2f} ({quartiles(turns['upstream'])})"
        asked.append(f"{share} of upstream")
        met.append(ours <= share * upstream)
    if asked:
        found += f": at most {' and '.join(asked)}"
    return found, all(met) if upstream is not None else None


def summarize(case: str, turns: Mapping[str, Sequence[Turn]]) -> dict[str, Any]:
    """The row of a case from the turns of each side, in the order of the rounds."""
    plain_pairs = [(turn[0], turn[2]) for side in turns.values() for turn in side]
    plain = statistics.median(one for pair in plain_pairs for one in pair)

    def column(side: str) -> Optional[float]:
        more = median_added(turns[side])
        return None if more is None else plain + more

    target, met = judge(case, turns)
    return report.row(
        CASES[case][0],
        "us per launch",
        plain=plain,
        ours=column("ours"),
        upstream=column("upstream"),
        floor=column("floor"),
        noise=statistics.median(abs(after - before) for before, after in plain_pairs) / plain,
        target=target,
        met=met,
    )


def measure(sides: Sequence[Side], rounds: int, launches: int) -> dict[str, dict[str, list[Turn]]]:
    """The turns of each side in each case. To the floor all cases are the same."""
    turns: dict[str, dict[str, list[Turn]]] = {
        case: {name: [] for name in ("floor", "ours", "upstream")} for case in CASES
    }
    for number in range(-1, rounds):  # one round to warm up
        first = number % len(sides)
        for case, (_, options, _, _) in CASES.items():
            for side in (*sides[first:], *sides[:first]):
                asked = {} if side.name == "floor" else dict(options)
                turn = side.ask({"options": asked, "launches": launches})
                if number >= 0:
                    turns[case][side.name].append(turn)
    return turns


def fake_environment(directory: str) -> None:
    """Have the sides launch with the fake libraries of tests/fake, in build directory."""
    fakes = ("fake_cupti", "fake_cuda")
    targets = [os.path.join("tests", "fake", f"lib{name}.so") for name in fakes]
    subprocess.run(["ninja", "--quiet", "-C", directory, *targets], check=True)
    for variable, target in zip(("PROTON_CUPTI_PATH", "PROTON_CUDA_PATH"), targets):
        os.environ[variable] = os.path.abspath(os.path.join(directory, target))
    os.environ["PROTON_BENCH_FAKE"] = "1"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--launches", type=int, default=2000, help="in each loop")
    parser.add_argument("--cpu", type=int, help="processor of the timed loops; default: the last")
    parser.add_argument("--fake", action="store_true", help="try it out without a GPU")
    parser.add_argument("--write", action="store_true", help="store bench/results/cuda_python.json")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build directory")
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error("--rounds must be at least 2")

    library = build(options.build, "libcupti_floor.so")
    names = ["floor", "ours", "upstream"]
    if options.fake:
        fake_environment(options.build)
        names.remove("upstream")
    cpu = max(os.sched_getaffinity(0)) if options.cpu is None else options.cpu
    os.environ["PROTON_QUIET"] = "1"
    with tempfile.TemporaryDirectory() as scratch:
        sides = [start_side(name, cpu, os.path.abspath(library), scratch) for name in names]
        for side in sides:
            side.answer("ready")
        turns = measure(sides, options.rounds, options.launches)
        for side in sides:
            side.end()
    rows = [summarize(case, turns[case]) for case in CASES]
    for row in rows:
        report.show(row)
    if options.write and not options.fake:
        of = report.versions("triton_proton", "triton", "torch")
        report.write("cuda_python", report.gpu(), of, rows)
    return 1 if any(row["met"] is False for row in rows) and not options.fake else 0


if __name__ == "__main__":
    sys.exit(main())
