"""Kernel times of functions, measured in turns: `triton_proton.bench`.

    found = proton.bench({"old": lambda: f(x), "new": lambda: g(x)})
    print(found["new"], found["new"].against(found["old"]), sep="\\n")

Each call has its scope. A call's time is the sum of its kernels' times, without gaps
between them and without the CPU's work. Kernels of Triton have flops, bytes and utilization, too.
"""

from __future__ import annotations

import math
import os
import random
import re
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Optional, Union

from . import _libproton, data
from .profile import deactivate, finalize, start
from .reader import Profile, load
from .scope import scope

_CALL = "proton.bench"
_Z = 1.959964  # quantile of the normal distribution, for 95 %


class Change(NamedTuple):
    """How much longer calls take than others: shares, 0.02 is 2 %."""

    change: float
    low: float  # the interval of 95 %
    high: float

    def __str__(self) -> str:
        text = f"{self.change:+.2%} ({self.low:+.2%} to {self.high:+.2%})"
        return text + (" within noise" if self.low <= 0 <= self.high else "")


class Work(NamedTuple):
    """The work of a kernel in a call, as its launch metadata says."""

    flops: float
    bytes: float
    util: Optional[float]  # a share

    def rates(self, ms: float) -> str:
        """Text about the rates in `ms` milliseconds."""
        flops, size = self.flops / ms / 1e9, self.bytes / ms / 1e6
        texts = [f"{flops:.4g} tflop/s"] * (flops > 0) + [f"{size:.4g} gbyte/s"] * (size > 0)
        texts += [f"util {self.util:.1%}"] if self.util else []
        return f" ({', '.join(texts)})" if texts else ""


class Timing:
    """Times of the calls of one function, in milliseconds and in their order."""

    def __init__(
        self,
        name: str,
        times_ms: list[float],
        kernels: dict[str, list[float]],
        work: Optional[dict[str, Work]] = None,
    ) -> None:
        self.name = name
        self.times_ms = times_ms
        self.kernels = kernels  # times of all launches in a call, by kernel: a list per kernel
        self.work = work or {}  # by kernel, where it is known

    @property
    def median_ms(self) -> float:
        return statistics.median(self.times_ms)

    @property
    def interval_ms(self) -> tuple[float, float]:
        """The median's, 95 %: order statistics (Conover, Practical Nonparametric Statistics)."""
        ordered = sorted(self.times_ms)
        half = _Z * math.sqrt(len(ordered)) / 2
        first = max(0, math.floor(len(ordered) / 2 - half) - 1)
        return ordered[first], ordered[-1 - first]

    def against(self, base: Timing) -> Change:
        """The change to `base`, of calls in the same turn: Hodges and Lehmann's estimate of the
        logarithms of their ratios, with the interval of the signed-rank test (its normal
        approximation). ValueError: other numbers of calls, or fewer than 10."""
        count = len(self.times_ms)
        if count != len(base.times_ms) or count < 10:
            raise ValueError(
                f"'{self.name}' has {count} calls and '{base.name}' {len(base.times_ms)}; a "
                "comparison needs the same number, and at least 10"
            )
        ratios = [math.log(a / b) for a, b in zip(self.times_ms, base.times_ms)]
        means = sorted((a + b) / 2 for i, a in enumerate(ratios) for b in ratios[i:])
        deviation = math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
        cut = max(0, math.floor(count * (count + 1) / 4 - _Z * deviation))
        middle = statistics.median(means)
        return Change(*(math.expm1(one) for one in (middle, means[cut], means[-1 - cut])))

    def __str__(self) -> str:
        low, high = self.interval_ms
        lines = [f"{self.name}: {self.median_ms:.4f} ms ({low:.4f} to {high:.4f})"]
        medians = {name: statistics.median(times) for name, times in self.kernels.items()}
        for kernel, ms in sorted(medians.items(), key=lambda item: -item[1]):
            work = self.work.get(kernel)
            lines.append(f"  {ms:.4f} ms {kernel}{work.rates(ms) if work and ms else ''}")
        return "\n".join(lines)


def _add_kernels(node: dict[str, Any], found: dict[str, float]) -> None:
    for child in node["children"]:
        metrics = child["metrics"]
        if "device_id" in metrics:
            name = child["frame"]["name"]
            found[name] = found.get(name, 0.0) + metrics.get("time (ns)", 0) / 1e6
        _add_kernels(child, found)


def work_of(profile: Profile, calls: int) -> dict[str, Work]:
    """By kernel, as the viewer has it for all calls together."""
    names = [one for one in profile.metric_names if re.fullmatch("flops[0-9]*|bytes|util", one)]
    flops = [one for one in names if one.startswith("flops")]
    found = {}
    for row in profile.metrics(*names).top() if names else ():
        work = sum(row[one] or 0.0 for one in flops), row.get("bytes") or 0.0
        found[row["frame"]] = Work(*(one / calls for one in work), row.get("util"))
    return found


def timing_of(
    name: str, calls: list[dict[str, float]], work: Optional[dict[str, Work]] = None
) -> Timing:
    """From the times of the kernels of each call, in ms. ProtonError: a call has none."""
    names = {kernel: None for call in calls for kernel in call}
    kernels = {kernel: [call.get(kernel, 0.0) for call in calls] for kernel in names}
    times = [sum(call.values()) for call in calls]
    if not all(times):
        raise _libproton.ProtonError(
            f"{times.count(0)} of {len(times)} calls of '{name}' had no kernels with a time"
        )
    return Timing(name, times, kernels, work)


def _record(
    functions: Mapping[str, Callable[[], Any]], reps: int, setup: Optional[Callable[[], Any]]
) -> None:
    order = random.Random(0)
    names = list(functions)
    for turn in range(reps):
        for name in order.sample(names, len(names)):
            if setup is not None:
                setup()
            with scope(f"{_CALL}/{turn}/{name}"):
                functions[name]()


def _work_by_function(session: int, names: Iterable[str], reps: int) -> dict[str, Any]:
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        profile = load(session)
        for name in names:
            calls = f"^{_CALL}/[0-9]+/{re.escape(name)}$"
            try:
                found[name] = work_of(profile.select(include=calls, names="raw"), reps)
            except _libproton.ProtonError:  # no call launched a kernel
                continue
    return found


def bench(
    functions: Union[Callable[[], Any], Mapping[str, Callable[[], Any]]],
    *,
    reps: int = 100,
    warmup: int = 10,
    setup: Optional[Callable[[], Any]] = None,
    backend: Optional[str] = None,
) -> Any:
    """Times of `reps` calls of a function (Timing), or of several by name (dict of Timing).

    Several are called in turns, in random order, because a GPU gets warmer. `warmup` calls of each
    come before. `setup` is called before each call, and its kernels do not count: it may clear the
    L2 cache. The work of a call has to be launched when it returns. Raises ProtonError if there is
    no GPU to record, or a call launched no kernel.
    """
    named = {"function": functions} if callable(functions) else dict(functions)
    if reps < 1 or not named:
        raise ValueError("bench needs a function, and at least one repetition")
    for function in named.values():
        for _ in range(warmup):
            function()
    with tempfile.TemporaryDirectory(prefix="proton-bench-") as directory:
        hook = "triton" if "triton" in sys.modules else None
        session = start(os.path.join(directory, "bench"), backend=backend, hook=hook)
        if session is None:
            raise _libproton.ProtonError("bench records nothing: profiling is turned off")
        try:
            _record(named, reps, setup)
            deactivate(session, flushing=True)
            root = (data.get(session) or [{"children": []}])[0]
            work = _work_by_function(session, named, reps) if hook else {}
        finally:
            finalize(session, "none")
    calls: dict[str, list[dict[str, float]]] = {name: [{} for _ in range(reps)] for name in named}
    for node in root["children"]:
        label, _, rest = node["frame"]["name"].partition("/")
        turn, _, name = rest.partition("/")
        if label == _CALL and name in calls:
            _add_kernels(node, calls[name][int(turn)])
    timings = {name: timing_of(name, calls[name], work.get(name)) for name in named}
    return timings["function"] if callable(functions) else timings
