"""Benchmark of the `proton` command on an NVIDIA GPU: its overhead next to proton.start().

    python bench/cuda_command.py [--seconds S] [--rounds N] [--write] [--build DIR]

Works: a training step of a Llama-shaped model, and the launch of an empty Triton kernel in a loop.
Targets apply to the CPU time of the launching thread, adjusted to the machine's speed: fixed
reference work in the same thread, before and after each chunk of about 10 ms of the work, tells how
fast the processor is at the moment (bench/reference.py). The differences of raw CPU time and of
wall time are printed next to it. The sides: no profiler (`plain`); an empty library in
CUDA_INJECTION64_PATH; bare CUPTI (`floor`: kernel records and one store in the launch callback),
started after a warm-up and before CUDA is initialized; sessions of triton_proton started at these
times; the same program below `proton`, with and without its options; Triton's profiler.

In each round each side has a new process (bench/program_side.py), and these take short turns
(bench/turns.py, bench/program_turns.py): two sides are compared chunk by chunk within a turn of all
sides. Sides that no target depends on take part in every third round. A figure is the median of the
differences between two sides in the same round, with its interval of 95 %. A target is met if the
whole interval meets it, in 8 rounds or more. `noise` is the distance of the quartiles of the plain
processes, as a share.

--seconds bounds the measurement: no round begins that would end later, and rounds have as many
turns as fit. When time is up or the script is stopped (SIGINT, SIGTERM), the rounds that are
complete count. --keep FILE stores the figures of all chunks as JSON. --fake tries the script out
with tests/fake and no GPU. --write stores bench/results/cuda_command.json. Needs what
cuda_python.py needs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import report
from cuda_python import fake_environment
from program_turns import WORKS, Case, Programs, make_row
from run import ROOT
from turns import Round

SELDOM = 3
CASES = {
    "plain": Case(),
    "empty": Case(injection=True, every=SELDOM),
    "floor": Case("floor"),
    "early floor": Case("floor", "early", every=SELDOM),
    "early": Case("ours", "early"),
    "late": Case("ours"),
    "proton": Case(command=[]),
    "no children": Case(command=["--no-children"], every=SELDOM),
    "no nvtx": Case(command=["--no-nvtx"], every=SELDOM),
    "upstream": Case("upstream", every=SELDOM),
}
LIMIT = 0.01
API = {"early": ("the API", LIMIT)}
FLOOR = {"floor": ("bare CUPTI", LIMIT)}
NEXT_TO_FLOOR = {"floor": ("bare CUPTI", None)}
NEXT_TO_PROTON = {"proton": ("proton", None)}
# Side, its name, the column of its figure, what it is compared with.
ROWS = [
    ("empty", "an empty injection library", "floor", {}),
    ("early floor", "bare CUPTI started before CUDA", "floor", NEXT_TO_FLOOR),
    ("early", "API started before CUDA", "ours", FLOOR),
    ("late", "API started after a warm-up", "ours", FLOOR),
    ("proton", "proton", "ours", {**API, **FLOOR}),
    ("no children", "proton --no-children", "ours", NEXT_TO_PROTON),
    ("no nvtx", "proton --no-nvtx", "ours", NEXT_TO_PROTON),
]


def make_rows(rounds: Sequence[Round]) -> list[dict[str, Any]]:
    """The rows of all works; without rounds their figures are missing and no target is met."""
    rows = []
    for work in WORKS:
        for side, title, column, limits in ROWS:
            columns = {"floor": "floor", "upstream": "upstream", column: side}
            if column == "floor":
                del columns["upstream"]
            rows.append(make_row(rounds, work, title, columns, side, limits))
    return rows


def main() -> int:
    begin = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12, help="at most so many")
    parser.add_argument("--seconds", type=float, help="the measurement takes at most so long")
    parser.add_argument("--turns", type=int, default=3, help="turns per process and work")
    parser.add_argument("--steps", type=int, help="training steps in a chunk")
    parser.add_argument("--launches", type=int, help="launches in a chunk")
    parser.add_argument("--cpu", type=int, help="processor of the timed loops; default: the last")
    parser.add_argument("--fake", action="store_true", help="try it out without a GPU")
    parser.add_argument(
        "--write", action="store_true", help="store bench/results/cuda_command.json"
    )
    parser.add_argument("--keep", metavar="FILE", help="store the figures of all chunks")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build directory")
    options = parser.parse_args()
    if options.turns < 1 or options.rounds < 1:
        parser.error("--rounds and --turns must be at least 1")

    cases = dict(CASES)
    if options.fake:
        fake_environment(options.build)
        del cases["upstream"]
    else:
        machine = report.gpu()
        of = report.versions("triton_proton", "triton", "torch")
    programs = Programs(
        cases,
        list(WORKS),
        directory=options.build,
        cpu=options.cpu,
        counts={"step": options.steps, "launch": options.launches},
    )
    if not options.fake:
        programs.use_one_cupti()
    left = None
    if options.seconds is not None:
        left = max(options.seconds - (time.monotonic() - begin), 1.0)
    rounds = programs.measure(options.rounds, options.turns, left)
    if options.keep:
        with open(options.keep, "w", encoding="utf-8") as file:
            json.dump(rounds, file)
    rows = make_rows(rounds)
    for row in rows:
        report.show(row)
    if options.write and not options.fake:
        report.write("cuda_command", machine, of, rows)
    return 1 if any(row["met"] is False for row in rows) and not options.fake else 0


if __name__ == "__main__":
    sys.exit(main())
