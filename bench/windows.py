"""Benchmark of windows for kernel records: a decode loop with graphs, by what records it.

    python bench/windows.py [--rounds N] [--seconds S] [--write]

In a round each side (bench/windows_side.py) has a new process, and all take turns. The turns of
`windows` are longer, because it is the mean over whole windows that counts: its steps are neither
left out nor weighted. --write stores bench/results/windows.json.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Optional

import report
from turns import (
    Compared,
    Round,
    Running,
    Side,
    parse_rounds,
    process_medians,
    spread,
)

HERE = os.path.dirname(os.path.abspath(__file__))
SIDES = {
    "windows": "windows of 50 ms every 5 s",
    "deactivated": "session deactivated",
    "full": "all kernels recorded",
    "torch": "torch.profiler, CUDA activities",
}
TURNS = 2
SECONDS, SECONDS_OF_WINDOWS = 0.5, 5.0
STEP_LIMIT, P99_LIMIT = 0.01, 0.05  # shares
STEP, P99 = "decode step", "99th percentile of a decode step"


class Turns(Running):
    """Sides with turns of different lengths."""

    def take(self) -> None:
        for name in self.order.sample(sorted(self.sides), len(self.sides)):
            seconds = SECONDS_OF_WINDOWS if name == "windows" else SECONDS
            self.each(
                [name],
                lambda side: self.found[side.name]
                .setdefault(STEP, [])
                .extend(side.ask({"seconds": seconds})),
            )
        self.turns += 1


def starter(name: str):
    command = [sys.executable, os.path.join(HERE, "windows_side.py"), name]
    return lambda directory: Side(name, command, directory)


def begin_round(scratch: str, seed: int) -> Turns:
    return Turns({name: starter(name) for name in ("plain", *SIDES)}, scratch, seed)


def measure_round(running: Turns) -> Round:
    for _ in range(TURNS):
        running.take()
    return running.end()


def row_of(rounds: Sequence[Round], side: str, figure: int) -> dict:
    compared = Compared(rounds, STEP, side, "plain", figure)
    plain = process_medians(rounds, "plain", STEP, figure)
    limit: Optional[float] = (STEP_LIMIT, P99_LIMIT)[figure] if side == "windows" else None
    name = f"{(STEP, P99)[figure]}, {SIDES[side]}"
    print(f"{name}: {compared}", flush=True)
    return report.row(
        name,
        "us",
        plain=statistics.median(plain),
        ours=statistics.median(process_medians(rounds, side, STEP, figure)),
        noise=spread(plain),
        target=f"at most {1 + limit} x plain" if limit else None,
        met=compared.within(limit) if limit else None,
    )


def main() -> int:
    arguments = parse_rounds(__doc__)
    until = time.monotonic() + arguments.seconds
    rounds: list[Round] = []
    with tempfile.TemporaryDirectory() as scratch:
        following: Optional[Turns] = begin_round(os.path.join(scratch, "0"), 0)
        following.load()
        for seed in range(arguments.rounds):
            running, following = following, None
            if running is None or time.monotonic() > until:
                break
            if seed + 1 < arguments.rounds:  # it loads its modules while this one warms up
                following = begin_round(os.path.join(scratch, str(seed + 1)), seed + 1)
            try:
                running.warm_up()
                if following:
                    following.load()
                rounds.append(measure_round(running))
            finally:
                running.kill()
        if following:
            following.kill()
    rounds = [one for one in rounds if "plain" in one and "windows" in one]
    print(f"{len(rounds)} rounds", flush=True)
    if not rounds:
        return 1
    rows = [row_of(rounds, side, figure) for side in SIDES for figure in (0, 1)]
    for one in rows:
        report.show(one)
    if arguments.write:
        report.write("windows", report.gpu(), report.versions("torch", "triton_proton"), rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
