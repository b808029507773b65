"""Benchmark of PC sampling on an NVIDIA GPU: its overhead, next to kernel records and upstream.

    python bench/pcsampling.py [--seconds S] [--rounds N] [--write]

Works: a training step of a Llama-shaped model that is bound by its 2,900 launches, one with 32
times the tokens that is bound by the GPU, kernels of about 20 us one after the other, and the
launch of an empty Triton kernel in a loop. The sides: no profiler (`plain`); a session of
triton_proton with kernel records alone; one with PC samples and kernel records (`ours`, mode
"pcsampling"); bare CUPTI with both, which counts records and samples (`floor`: the same interval,
bench/cupti_floor_samples.c); Triton's profiler with its PC sampling (`upstream`), which serializes
kernels. One process can sample a GPU at a time: floor takes part in one round of four and upstream
in the first, which ours omits. The processes of a round end before those of the next one begin to
record.

In each round each side has a new process (bench/program_side.py), and these take short turns
(bench/turns.py, bench/program_turns.py). The steps and the kernels are judged by wall time, which
includes the GPU, the loop by the CPU time of the launching thread, adjusted to the machine's speed
(bench/reference.py). A figure is the median of the differences between two sides in the same round,
with its interval of 95 %. A target is met if the whole interval meets it, in 8 rounds or more.
tests/gpu/test_pc_sampling.py has the other targets: samples on the lines of a hot loop,
of graphs, and of serialized kernels.

The first two seconds of a session, in which it launches the works, are not measured: sampling then
asks CUPTI for the code of older modules, which costs time in each launch.

--seconds bounds the measurement. --fake tries the script out with tests/fake and no GPU. --write
stores bench/results/pcsampling.json. Needs what cuda_python.py needs.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import report
from cuda_python import fake_environment
from program_turns import WORKS, Case, Programs
from reference import ADJUSTED, WALL
from run import ROOT
from turns import Compared, Round, process_medians, spread

WORKS["step"] = (*WORKS["step"][:4], 6, WORKS["step"][5])
WORKS["busy"] = ("training step that keeps the GPU busy", "ms per step", 1e3, 4, 2, 100)
WORKS["kernel"] = ("kernels of 20 us, one after the other", "us per kernel", 1e6, 800, 6, 1)

ROUNDS = 16  # `samples` is in 12 of them
CASES = {
    "plain": Case(),
    "records": Case("ours"),
    "samples": Case("ours", options={"mode": "pcsampling"}, counter="PC samples"),
    "floor": Case("floor", options={"samples": [14, 10, 20]}, every=4, excludes=["samples"]),
    "upstream": Case(
        "upstream",
        options={"mode": "pcsampling"},
        every=ROUNDS,
        excludes=["samples", "floor"],
        is_slow=True,
    ),
}
# Work, the figure that is judged, its unit, the limit over plain.
TARGETS = [
    ("step", WALL, "ms per step", 0.05),
    ("busy", WALL, "ms per step", 0.05),
    ("kernel", WALL, "us per kernel", 0.03),
    ("launch", ADJUSTED, "us of CPU per launch", 0.5),
]


def make_row(
    rounds: Sequence[Round], work: str, figure: int, unit: str, limit: float
) -> dict[str, Any]:
    name, _, scale = WORKS[work][:3]
    plains = process_medians(rounds, "plain", work, figure)
    plain = statistics.median(plains) * scale if plains else None
    compared = {
        side: Compared(rounds, work, side, "plain", figure) for side in CASES if side != "plain"
    }

    def column(side: str) -> Any:
        more = compared[side].more
        return None if plain is None or more is None else plain * (1 + more)

    added = Compared(rounds, work, "samples", "records", figure)
    text = (
        f"{compared['samples']} over plain, kernel records alone {compared['records']}, samples "
        f"{added} over these, bare CUPTI's {compared['floor']} over plain: at most "
        f"{100 * limit:g} % over plain; {compared['samples'].rounds} rounds"
    )
    return report.row(
        f"PC sampling: {name}",
        unit,
        plain=plain,
        ours=column("samples"),
        upstream=column("upstream"),
        floor=column("floor"),
        noise=spread(plains),
        target=text,
        met=compared["samples"].within(limit),
    )


def main() -> int:
    begin = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="at most so many")
    parser.add_argument("--seconds", type=float, help="the measurement takes at most so long")
    parser.add_argument("--turns", type=int, default=2, help="turns per process and work")
    parser.add_argument("--cpu", type=int, help="processor of the timed loops; default: the last")
    parser.add_argument("--fake", action="store_true", help="try it out without a GPU")
    parser.add_argument("--write", action="store_true", help="store bench/results/pcsampling.json")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build directory")
    options = parser.parse_args()

    cases = dict(CASES)
    if options.fake:
        fake_environment(options.build)
        del cases["upstream"]
        cases["samples"] = dataclasses.replace(cases["samples"], counter="")
    else:
        machine = report.gpu()
        of = report.versions("triton_proton", "triton", "torch")
    works = [work for work, *_ in TARGETS]
    programs = Programs(
        cases, works, directory=options.build, cpu=options.cpu, goal=ROUNDS, is_exclusive=True
    )
    if not options.fake:
        programs.use_one_cupti()
    left = None
    if options.seconds is not None:
        left = max(options.seconds - (time.monotonic() - begin), 1.0)
    rounds = programs.measure(options.rounds, options.turns, left)
    rows = [make_row(rounds, *target) for target in TARGETS]
    for row in rows:
        report.show(row)
    if options.write and not options.fake:
        report.write("pcsampling", machine, of, rows)
    return 1 if any(row["met"] is False for row in rows) and not options.fake else 0


if __name__ == "__main__":
    sys.exit(main())
