"""Modes of backends, as objects or as text `name[:key=value]...`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Union


class _Named(Enum):
    """An enumeration with members that are written by their value."""

    def __str__(self) -> str:
        return self.value


class MetricType(_Named):
    CYCLE = "cycle"


class BufferStrategy(_Named):
    CIRCULAR = "circular"
    FLUSH = "flush"


class BufferType(_Named):
    SHARED = "shared"
    GLOBAL = "global"


class SamplingStrategy(_Named):
    NONE = "none"
    SELECTIVE = "selective"


class Granularity(_Named):
    CTA = "cta"
    WARP = "warp"
    WARP_2 = "warp_2"
    WARP_4 = "warp_4"
    WARP_8 = "warp_8"
    WARP_GROUP = "warp_group"
    WARP_GROUP_2 = "warp_group_2"
    WARP_GROUP_4 = "warp_group_4"
    WARP_GROUP_8 = "warp_group_8"


class Optimize(_Named):
    TIMESHIFT = "time_shift"
    SCHED_STORES = "sched_stores"
    SCHED_BARRIERS = "sched_barriers"
    CLOCK32 = "clock32"


metric_types = {member.value: member for member in MetricType}
buffer_strategies = {member.value: member for member in BufferStrategy}
buffer_types = {member.value: member for member in BufferType}
sampling_strategies = {member.value: member for member in SamplingStrategy}
granularities = {member.value: member for member in Granularity}
optimizations = {member.value: member for member in Optimize}
automatic_scopes = ("loads", "dots", "stores", "waits", "loops", "partitions", "reduce", "scan",
    "convert", "local", "tmem", "atomic", "call", "asm", "math", "all")

trees = ("auto", "records", "sums")


@dataclass(frozen=True)
class BaseMode:
    """A mode that is only a name."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class PCSampling(BaseMode):
    """Sample the program counters of a GPU, about `interval` clock cycles apart."""

    name: str = field(default="pcsampling", init=False)
    interval: int = 1000

    def __post_init__(self) -> None:
        if not _is_whole(self.interval, 1):
            raise ValueError("Interval must be a positive integer.")

    def __str__(self) -> str:
        return f"{self.name}:interval={self.interval}"


@dataclass(frozen=True)
class InstrumentationMode(BaseMode):
    """Intra-kernel recording. Each field takes a member of its enumeration or its name.

    metric_type: what is recorded. sampling_strategy and sampling_options: which units record, the
    latter as a list of warps or separated by commas. granularity: what a unit is. buffer_strategy:
    what happens when the buffer is full. buffer_type and buffer_size: memory and size in bytes (0:
    chosen by the strategy). optimizations: a list, or names separated by commas. auto: kinds of
    automatic scopes, a list or separated by commas: "loads", "dots", "stores", "waits", "loops",
    "partitions", "reduce", "scan", "convert", "local", "tmem", "atomic", "call", or "all".
    budget: the limit of their cost in percent of the kernel's time, or "off";
    None: 5. cta: every n-th CTA records. launches: maximum number per kernel in a
    trace, or "all"; None: the first 8, if they are not too large. tree: "records", "sums", which
    lose nothing in long loops but keep no single executions, or "auto": records for kernels in
    which a few are certain to be all. Traces have records.
    """

    metric_type: Union[MetricType, str] = MetricType.CYCLE
    sampling_strategy: Union[SamplingStrategy, str] = SamplingStrategy.NONE
    sampling_options: Union[str, list[int]] = ""
    granularity: Union[Granularity, str] = Granularity.WARP
    buffer_strategy: Union[BufferStrategy, str] = BufferStrategy.CIRCULAR
    buffer_type: Union[BufferType, str] = BufferType.SHARED
    buffer_size: int = 0
    optimizations: Union[list[Union[Optimize, str]], str] = field(default_factory=list)
    auto: Union[list[str], str] = field(default_factory=list)
    cta: int = 1
    launches: Union[int, str, None] = None
    tree: str = "auto"
    budget: Union[int, str, None] = None

    def __post_init__(self) -> None:
        for name, members in _FIELDS.items():
            object.__setattr__(self, name, _member(name, getattr(self, name), members))
        chosen = _list(self.optimizations)
        chosen = [_member("optimization", value, optimizations) for value in chosen]
        object.__setattr__(self, "optimizations", chosen)
        kinds = _list(self.auto)
        for kind in kinds:
            if kind not in automatic_scopes:
                raise ValueError(_unknown("automatic scope", kind, automatic_scopes))
        object.__setattr__(self, "auto", kinds)
        _check_count("cta", self.cta)
        if not isinstance(self.sampling_options, str):
            object.__setattr__(self, "sampling_options", _warps(self.sampling_options))
        if self.tree not in trees:
            raise ValueError(_unknown("tree", self.tree, trees))
        if self.launches not in ("all", None):
            _check_count("launches", self.launches, ' or "all"')
        budget = self.budget
        if budget not in ("off", None) and not (_is_whole(budget, 1) and int(budget) <= 100):
            what = 'a percentage from 1 to 100 or "off"'
            raise ValueError(f"budget must be {what}, not {budget!r}")

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        parts = [self.name]
        parts += [f"{name}={getattr(self, name)}" for name in _FIELDS]
        parts.append(f"sampling_options={self.sampling_options}")
        parts.append(f"buffer_size={self.buffer_size}")
        if self.auto:
            parts.append("auto=" + ",".join(self.auto))
        parts += [f"budget={self.budget}"] if self.budget is not None else []
        parts += [f"cta={self.cta}"] if self.cta != 1 else []
        parts += [f"launches={self.launches}"] if self.launches is not None else []
        parts += [f"tree={self.tree}"] if self.tree != "auto" else []
        parts.append("optimizations=" + ",".join(str(value) for value in self.optimizations))
        return ":".join(parts)


@dataclass(frozen=True)
class Default(InstrumentationMode):
    """Instrumentation of the scopes in a kernel's source."""

    name: str = field(default="default", init=False)
    __hash__ = InstrumentationMode.__hash__


@dataclass(frozen=True)
class MMA(InstrumentationMode):
    """Instrumentation with automatic scopes around matrix operations."""

    name: str = field(default="mma", init=False)
    __hash__ = InstrumentationMode.__hash__


_FIELDS: dict[str, dict[str, Any]] = {
    "metric_type": metric_types,
    "sampling_strategy": sampling_strategies,
    "granularity": granularities,
    "buffer_strategy": buffer_strategies,
    "buffer_type": buffer_types,
}


# The names used in the tutorial of Triton's profiler.
_ALIASES = {"buffer_type": {"shared_mem": "shared"}}


def _list(chosen: Any) -> list[Any]:
    if isinstance(chosen, str):
        return [part.strip() for part in chosen.split(",") if part.strip()]
    return list(chosen) if isinstance(chosen, (list, tuple, range, set, frozenset)) else [chosen]


def _warps(chosen: Any) -> str:
    warps = _list(chosen)
    for warp in warps:
        if not _is_whole(warp, 0):
            raise ValueError(f"sampling_options must be warp numbers, not {warp!r}")
    return ",".join(map(str, warps))


def _is_whole(value: Any, minimum: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= minimum


def _check_count(field_name: str, value: Any, or_what: str = "") -> None:
    if not _is_whole(value, 1):
        raise ValueError(f"{field_name} must be a positive integer{or_what}, not {value!r}")


def _member(field_name: str, value: Any, members: dict[str, Any]) -> Any:
    if isinstance(value, Enum) and value in members.values():
        return value
    if isinstance(value, str):
        value = _ALIASES.get(field_name, {}).get(value, value)
        if value in members:
            return members[value]
    raise ValueError(_unknown(field_name, value, members))


def _unknown(what: str, value: Any, known: Iterable[str]) -> str:
    return f"Unknown {what}: {value}; available: {', '.join(known)}"
