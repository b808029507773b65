"""Sides that take turns: processes that measure on request, and statistics of their turns.

A side is a process. In a round each side has a new process; while all of them run, they take short
turns one at a time, in an order that changes. Two sides are compared within a turn of all sides,
because a machine that changes its speed changes both, and over the rounds, because this averages
out random effects in a process (addresses, pages).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import select
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

MIN_ROUNDS = 8  # with fewer no target is met

Turns = dict[str, list[list[float]]]  # by work: the figures of a side's process, chunk by chunk
Round = dict[str, Turns]  # by side


class SideError(Exception):
    """A side has ended or does not answer."""


class Side:
    """A process that answers lines on its standard input with lines `WORD JSON`."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        directory: str,
        environment: Optional[Mapping[str, str]] = None,
    ) -> None:
        os.mkdir(directory)
        self.name = name
        self.directory = directory
        self.pending = b""
        with open(os.path.join(directory, "stderr"), "wb") as stderr:
            self.process = subprocess.Popen(
                command,
                cwd=directory,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )

    def fail(self, what: str) -> SideError:
        """The error, with the end of what the process wrote on standard error."""
        with open(os.path.join(self.directory, "stderr"), "rb") as file:
            text = file.read()[-2000:].decode(errors="replace").strip()
        return SideError(f"the side '{self.name}' {what}{': ' if text else ''}{text}")

    def answer(self, word: str, seconds: float = 120.0) -> Any:
        """The value of the next line that begins with `word`; profilers print lines too."""
        until = time.monotonic() + seconds
        stdout = self.process.stdout
        assert stdout is not None
        while True:
            line, newline, rest = self.pending.partition(b"\n")
            if newline:
                self.pending = rest
                if line.startswith(word.encode()):
                    return json.loads(line[len(word) :] or b"null")
                continue
            left = until - time.monotonic()
            if left <= 0 or not select.select([stdout], [], [], left)[0]:
                raise self.fail(f"has not answered for {seconds:.0f} s")
            read = os.read(stdout.fileno(), 65536)
            if not read:
                raise self.fail("has ended")
            self.pending += read

    def send(self, request: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise self.fail("has ended") from None

    def ask(self, request: Mapping[str, Any], seconds: float = 120.0) -> Any:
        """The answer `turn VALUE` to a request."""
        self.send(request)
        return self.answer("turn ", seconds)

    def close_input(self) -> None:
        """Tell the process to end."""
        if self.process.stdin is not None and not self.process.stdin.closed:
            try:
                self.process.stdin.close()
            except OSError:
                pass

    def end(self, seconds: float = 60.0) -> None:
        """Wait for the end of a process that must end well."""
        self.close_input()
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise self.fail("does not end") from None
        if status != 0:
            raise self.fail(f"has ended with status {status}")

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.close_input()
        if self.process.stdout is not None:
            self.process.stdout.close()


class Running:
    """
    The processes of a round. A side that fails in one of the steps is named, and leaves the round.
    """

    def __init__(
        self, start: Mapping[str, Callable[[str], Side]], scratch: str, seed: int = 0
    ) -> None:
        os.mkdir(scratch)
        self.order = random.Random(seed)
        self.sides = {name: make(os.path.join(scratch, name)) for name, make in start.items()}
        self.found: Round = {name: {} for name in start}
        self.turns = 0
        self.calls: dict[str, int] = {}  # by work, of each side in its turns

    def each(self, names: Sequence[str], action: Callable[[Side], Any]) -> None:
        for name in names:
            try:
                if name in self.sides:
                    action(self.sides[name])
            except SideError as error:
                print(error, flush=True)
                self.sides.pop(name).kill()

    def load(self) -> None:
        """Wait until all have loaded their modules; none has used the GPU so far."""
        self.each(list(self.sides), lambda side: side.answer("loaded"))

    def warm_up(self) -> None:
        self.each(list(self.sides), lambda side: side.send({}))
        self.each(list(self.sides), lambda side: side.answer("ready"))

    def take_turns(self, requests: Mapping[str, Mapping[str, Any]]) -> None:
        """One turn of each side in each work; `requests` has a request for each work."""

        def take_turn(side: Side) -> None:
            self.found[side.name].setdefault(work, []).extend(side.ask(requests[work]))

        for work, request in requests.items():
            calls = request.get("count", 0) * request.get("chunks", 1)
            self.calls[work] = self.calls.get(work, 0) + calls
            self.each(self.order.sample(sorted(self.sides), len(self.sides)), take_turn)
        self.turns += 1

    def close_input(self) -> None:
        """Tell all to end."""
        for side in self.sides.values():
            side.close_input()

    def end(self, check: Callable[[Side], None] = lambda side: None) -> Round:
        """
        What the sides answered that ended well. `check` examines the files that a side has written.
        """
        self.close_input()
        self.each(list(self.sides), lambda side: (side.end(), check(side)))
        self.kill()
        return {name: self.found[name] for name in self.sides}

    def kill(self) -> None:
        for side in self.sides.values():  # at once: a process with a GPU takes its time to end
            side.process.kill()
        for side in self.sides.values():
            side.kill()


def parse_rounds(description: Optional[str]) -> argparse.Namespace:
    """The command line of a benchmark in rounds: rounds, seconds, write."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS)
    parser.add_argument("--seconds", type=float, default=500, help="no round begins after that")
    parser.add_argument("--write", action="store_true")
    return parser.parse_args()


def difference(one: Turns, other: Turns, work: str, figure: int) -> float:
    """
    Extra time of a process over another of its round, as a share: the median of the means of all
    pairs of differences between chunks of the same turn, which outliers hardly move.
    """
    pairs = zip(one[work], other[work])
    return math.expm1(median_interval([math.log(a[figure] / b[figure]) for a, b in pairs])[0])


def signed_rank_cut(count: int) -> int:
    """How many of the extreme means of pairs the signed-rank test of 95 % leaves out on a side,
    and one; 0: `count` values are too few for an interval."""
    ways = [1]  # by the sum of the ranks of the positive ones
    for rank in range(1, count + 1):
        longer = ways + [0] * rank
        for total, number in enumerate(ways):
            longer[total + rank] += number
        ways = longer
    below, cut = 0, 0
    while cut < len(ways) and (below + ways[cut]) / 2**count <= 0.025:
        below += ways[cut]
        cut += 1
    return cut


def median_interval(values: Sequence[float]) -> tuple[float, Optional[tuple[float, float]]]:
    """
    The median of the means of all pairs of `values` (Hodges and Lehmann) and its interval of 95 %,
    that of the signed-rank test; None with fewer than six values.
    """
    means = sorted((a + b) / 2 for i, a in enumerate(values) for b in values[i:])
    cut = signed_rank_cut(len(values))
    return statistics.median(means), (means[cut - 1], means[-cut]) if cut else None


class Compared:
    """One side compared with another over the rounds that have both."""

    def __init__(
        self, rounds: Sequence[Round], work: str, one: str, other: str, figure: int = 0
    ) -> None:
        both = [a for a in rounds if one in a and other in a]
        values = [difference(a[one], a[other], work, figure) for a in both]
        self.rounds = len(values)
        self.more, self.interval = median_interval(values) if values else (None, None)

    def within(self, limit: float) -> bool:
        """Is the whole interval at most `limit`?"""
        return (
            self.rounds >= MIN_ROUNDS and self.interval is not None and self.interval[1] <= limit
        )

    def __str__(self) -> str:
        if self.more is None:
            return "not measured"
        text = f"{100 * self.more:+.1f} %"
        if self.interval:
            text += f" ({100 * self.interval[0]:+.1f} to {100 * self.interval[1]:+.1f})"
        return text


def process_medians(
    rounds: Sequence[Round], side: str, work: str, figure: int = 0
) -> list[float]:
    """The median chunk of each process of a side."""
    return [
        statistics.median(chunk[figure] for chunk in one[side][work])
        for one in rounds
        if side in one
    ]


def spread(values: Sequence[float]) -> Optional[float]:
    """The noise: the distance of the quartiles as a share of the median."""
    if len(values) < 2:
        return None
    low, median, high = statistics.quantiles(values, n=4)
    return (high - low) / median
