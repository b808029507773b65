"""Chunks of measured work between chunks of reference work, in one thread.

The speed of a shared machine changes by a factor of two within a second, and CPU time with it. So
reference work is done before and after each chunk of measured work. It is the same in all processes
and launches nothing, so no profiler sees it: Python bytecode, a walk through 64 KiB of memory and,
with torch, operations on tiny tensors on the CPU, which use the same code of torch as a training
step.

The CPU time of a chunk is divided by the mean of both, relative to its median over all processes,
to the power of an exponent. The exponent is fitted once over the chunks of all sides: 1 if the work
becomes slower just as the reference does, less if it is less sensitive or the reference is noisy
itself. The result is a time again: that at the median speed.

This leaves out what a profiler's own threads cost the launching thread by sharing its caches.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Optional

ITERATIONS = 1500  # in a chunk: some milliseconds
# Figures of a chunk, in seconds. A process measures those after the first.
ADJUSTED, CPU, WALL, REFERENCE = range(4)


class Point:
    def __init__(self, x: int, y: int) -> None:
        self.x = x
        self.y = y

    def moved(self, by: int) -> tuple[int, int]:
        return self.x + by, self.y - by


def make_reference(torch: Optional[Any] = None) -> Callable[[], None]:
    """A function that does a chunk of reference work."""
    memory = bytearray(1 << 16)
    names = [f"name{i}" for i in range(64)]
    scores = dict.fromkeys(names, 0)
    small = None if torch is None else torch.ones(1)

    def reference() -> None:
        at = 0
        for i in range(ITERATIONS):
            point = Point(i, at)
            x, y = point.moved(i & 7)
            scores[names[x & 63]] += y & 3
            for _ in range(4):
                at = (at + 64) & 0xFFFF
                memory[at] = x & 255
            if small is not None:
                (small + small).view(1, 1)

    return reference


def take_chunks(
    work: Callable[[int], None],
    count: int,
    chunks: int,
    wait: Callable[[], None],
    reference: Callable[[], None],
    *,
    cpu: Callable[[], float] = time.thread_time,
    wall: Callable[[], float] = time.perf_counter,
) -> list[list[float]]:
    """
    [CPU, WALL, REFERENCE] of each chunk of `count` calls: the CPU time of a call until it has
    returned, its wall time with the end of the work on the GPU, and the mean CPU time of the two
    chunks of reference work.
    """

    def timed_reference() -> float:
        begin = cpu()
        reference()
        return cpu() - begin

    found = []
    wait()
    before = timed_reference()
    for _ in range(chunks):
        wall_begin, cpu_begin = wall(), cpu()
        work(count)
        cpu_took = (cpu() - cpu_begin) / count
        wait()
        wall_took = (wall() - wall_begin) / count
        after = timed_reference()
        found.append([cpu_took, wall_took, (before + after) / 2])
        before = after
    return found


def exponent(processes: Sequence[Sequence[Sequence[float]]]) -> float:
    """
    The slope of the regression of the work's time on the reference's, from 0 to 1: both are
    logarithms, as deviations from their medians in the process. 1 if the speed never changes.
    """
    above = below = 0.0
    for chunks in processes:
        works = deviations([chunk[-3] for chunk in chunks])
        references = deviations([chunk[-1] for chunk in chunks])
        above += sum(x * y for x, y in zip(references, works))
        below += sum(x * x for x in references)
    return min(max(above / below, 0.0), 1.0) if below else 1.0


def deviations(times: Sequence[float]) -> list[float]:
    """Logarithms minus their median; outliers count as a factor of 2."""
    logarithms = [math.log(one) for one in times]
    middle = statistics.median(logarithms)
    limit = math.log(2)
    return [min(max(one - middle, -limit), limit) for one in logarithms]


def adjust(processes: Sequence[list[list[float]]]) -> float:
    """Put ADJUSTED before the figures of all chunks of all processes; the exponent."""
    if not processes:
        return 1.0
    power = exponent(processes)
    speed = statistics.median(chunk[-1] for chunks in processes for chunk in chunks)
    for chunks in processes:
        for chunk in chunks:
            chunk[:-3] = [chunk[-3] / (chunk[-1] / speed) ** power]
    return power
