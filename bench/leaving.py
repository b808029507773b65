"""Benchmark of the states that a session leaves a program in: launches, replays of graphs and a
decode loop, before the first session, within it, while it is deactivated, and after its end.

    python bench/leaving.py [--rounds N] [--seconds S] [--write]

In a round both sides have a new process and take turns in each state (bench/turns.py). `plain` is
without Proton, `ours` with a session in that state. The rows of CPU are the launching thread's. The
last row is how long the end of a session holds a thread that replays a graph all the time: the
median of the longest steps. --write stores bench/results/leaving.json.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence

import report
from turns import (
    MIN_ROUNDS,
    Compared,
    Round,
    Running,
    Side,
    median_interval,
    parse_rounds,
    process_medians,
    spread,
)

HERE = os.path.dirname(os.path.abspath(__file__))
STATES = ("before", "active", "deactivated", "after")
WORKS = ("launch", "replay of 100 nodes", "replay of 400 nodes", "decode step")
AFTER_LIMIT = 0.01  # a share
HOLD_LIMIT_MS = 20.0
HOLD = "hold"


def starter(name: str):
    command = [sys.executable, os.path.join(HERE, "leaving_side.py"), name]
    return lambda directory: Side(name, command, directory)


def run_round(scratch: str, seed: int) -> Round:
    running = Running({name: starter(name) for name in ("plain", "ours")}, scratch, seed)
    try:
        running.load()
        running.warm_up()
        for state in STATES:
            for _ in range(2):
                running.take_turns(
                    {f"{work}, {state}": {"state": state, "work": work} for work in WORKS}
                )
        running.take_turns({HOLD: {"hold": True}})
        return running.end()
    finally:
        running.kill()


def row_of(rounds: Sequence[Round], work: str, state: str, figure: int) -> dict:
    name = f"{work}, {state}"
    compared = Compared(rounds, name, "ours", "plain", figure)
    plain = process_medians(rounds, "plain", name, figure)
    has_target = state == "after" and figure == 0
    print(f"{name}{', CPU' if figure else ''}: {compared}", flush=True)
    return report.row(
        f"{work}, {'CPU of the thread, ' if figure else ''}{state} a session"
        if state in ("before", "after")
        else f"{work}, {'CPU of the thread, ' if figure else ''}session {state}",
        "us per iteration",
        plain=statistics.median(plain),
        ours=statistics.median(process_medians(rounds, "ours", name, figure)),
        noise=spread(plain),
        target=f"at most {1 + AFTER_LIMIT} x plain" if has_target else None,
        met=compared.within(AFTER_LIMIT) if has_target else None,
    )


def hold_row(rounds: Sequence[Round]) -> dict:
    ours = process_medians(rounds, "ours", HOLD)
    median, interval = median_interval(ours)
    print(f"hold: {median:.1f} ms, interval {interval}", flush=True)
    return report.row(
        "longest step of a thread that replays, at the end of a session",
        "ms",
        plain=statistics.median(process_medians(rounds, "plain", HOLD)),
        ours=median,
        noise=spread(ours),
        target=f"at most {HOLD_LIMIT_MS:.0f} ms",
        met=len(ours) >= MIN_ROUNDS and interval is not None and interval[1] <= HOLD_LIMIT_MS,
    )


def main() -> int:
    arguments = parse_rounds(__doc__)
    until = time.monotonic() + arguments.seconds
    rounds: list[Round] = []
    with tempfile.TemporaryDirectory() as scratch:
        for seed in range(arguments.rounds):
            if time.monotonic() > until:
                break
            rounds.append(run_round(os.path.join(scratch, str(seed)), seed))
    rounds = [one for one in rounds if len(one) == 2]
    print(f"{len(rounds)} rounds", flush=True)
    if not rounds:
        return 1
    rows = [
        row_of(rounds, work, state, figure)
        for work in WORKS
        for state in STATES
        for figure in (0, 1)
    ]
    rows.append(hold_row(rounds))
    for one in rows:
        report.show(one)
    if arguments.write:
        report.write("leaving", report.gpu(), report.versions("torch", "triton_proton"), rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
