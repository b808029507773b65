"""Data frames of profiles for triton_proton.viewer, built with pandas and llnl-hatchet.

These two are imported on demand. Columns that end in " (inc)" contain inclusive values.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, Optional, Union

from . import specs
from .metric import FLOPS_WIDTHS
from .state import COMPUTE_METADATA_SCOPE_NAME, COMPUTE_METADATA_SCOPE_PREFIX

__all__ = [  # of the viewer, too
    "FactorDict",
    "avg_cpu_time_factor_dict",
    "avg_time_factor_dict",
    "bytes_factor_dict",
    "cpu_time_factor_dict",
    "default_flop_factor_dict",
    "derivable_metrics",
    "derive_metrics",
    "emit_warnings",
    "filter_frames",
    "format_frames",
    "get_min_time_bytes",
    "get_min_time_flops",
    "get_raw_metrics",
    "match_available_metrics",
    "remove_frames",
    "time_factor_dict",
]

INCLUSIVE = " (inc)"
_FORMATS = ("full", "file_function_line", "function_line", "file_function")


class FactorDict(NamedTuple):
    """A recorded metric (`name`) and the divisor of each metric derived from it."""

    name: str
    factor: dict[str, float]


# Seconds per unit of time; factors of rates.
_SECONDS = {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_RATES = {"": 1, "g": 1e9, "t": 1e12}


def _times(name: str) -> FactorDict:
    return FactorDict(name, {f"{name}/{unit}": seconds for unit, seconds in _SECONDS.items()})


def _rates(unit: str) -> dict[str, float]:
    return {f"{prefix}{unit}/s": factor for prefix, factor in _RATES.items()}


time_factor_dict = _times("time")
avg_time_factor_dict = _times("avg_time")
cpu_time_factor_dict = _times("cpu_time")
avg_cpu_time_factor_dict = _times("avg_cpu_time")
bytes_factor_dict = FactorDict("bytes", _rates("byte"))
default_flop_factor_dict = _rates("flop")
# Rates: the recorded metric divided by time and by the factor.
derivable_metrics: dict[str, FactorDict] = {
    metric: source
    for source in (
        bytes_factor_dict,
        FactorDict("flops", default_flop_factor_dict),
        *(FactorDict(f"flops{width}", _rates(f"flop{width}")) for width in FLOPS_WIDTHS),
    )
    for metric in source.factor
}


def _hatchet() -> Any:
    try:
        import hatchet
        import pandas  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"cannot import {error.name}, which data frames of profiles need; "
            "pip install llnl-hatchet pandas (not 'hatchet', which is another package)"
        ) from error
    return hatchet


def remove_frames(database: list[Any]) -> list[Any]:
    """The database without frames of launch metadata and without leaves that have no metrics.

    A frame without metrics that loses all its children is removed too. Nodes are changed in place;
    elements that are not nodes (the table of devices) stay.
    """
    nodes = [node for node in database if "frame" in node]
    ordered = list(nodes)
    for node in ordered:  # parents before children
        ordered.extend(node.get("children", ()))
    kept: set[int] = set()
    for node in reversed(ordered):
        name = node["frame"]["name"]
        is_metadata = name == COMPUTE_METADATA_SCOPE_NAME or name.startswith(
            COMPUTE_METADATA_SCOPE_PREFIX
        )
        node["children"] = [one for one in node.get("children", ()) if id(one) in kept]
        if not is_metadata and (node["children"] or node.get("metrics")):
            kept.add(id(node))
    return [item for item in database if "frame" not in item or id(item) in kept]


def get_raw_metrics(database: Any) -> tuple[Any, list[str], list[str], dict[str, Any]]:
    """(GraphFrame, inclusive columns, other columns, devices) of a profile.

    database: the list that a `.hatchet` file contains, or an open file of it.
    """
    hatchet = _hatchet()
    if hasattr(database, "read"):
        database = json.load(database)
    database = remove_frames(database)
    devices = database.pop(1) if len(database) > 1 else {}
    gf = hatchet.GraphFrame.from_literal(database)
    inclusive = gf.show_metric_columns()
    exclusive = [name for name in gf.dataframe.columns if name not in inclusive]
    return gf, inclusive, exclusive, devices


def bare_names(metrics: Union[str, list[str]]) -> list[str]:
    """Metrics as `proton-viewer` names them, without "(inc)"."""
    listed = [metrics] if isinstance(metrics, str) else metrics
    return [name.removesuffix(INCLUSIVE) for name in listed]


def match_available_metrics(
    metrics: Union[str, list[str]], inclusive_metrics: list[str], exclusive_metrics: list[str]
) -> list[str]:
    """The columns of the named metrics; case and units in parentheses do not matter."""
    found = []
    wanted = [metrics] if isinstance(metrics, str) else metrics
    for metric in wanted:
        for column in [*inclusive_metrics, *exclusive_metrics]:
            bare = column.partition("(")[0].strip().lower()
            if metric.lower() in (column.lower(), bare):
                found.append(column + (INCLUSIVE if column in inclusive_metrics else ""))
                break
    if not found:
        raise RuntimeError(
            f"Metric {', '.join(wanted)} is not found. "
            "Use the --list flag to list available metrics"
        )
    return found


def _devices(df: Any, devices: dict[str, Any]) -> Any:
    """(device type, description, rows that ran on it) of each device in the table."""
    for kind, table in devices.items():
        for number, device in table.items():
            rows = df["device_id"] == number
            if "device_type" in df.columns:
                rows &= df["device_type"].isna() | (df["device_type"] == kind)
            yield kind, device, rows


def _zeros(df: Any) -> Any:
    import pandas

    return pandas.DataFrame(0.0, index=df.index, columns=["min_time"])


def get_min_time_flops(df: Any, device_info: dict[str, Any]) -> Any:
    """Minimum seconds for the flops of each row at the device's peak rate: column "min_time"."""
    minimum = _zeros(df)
    for kind, device, rows in _devices(df, device_info):
        for width in FLOPS_WIDTHS:
            if f"flops{width}" in df.columns:
                peak = specs.max_flops(
                    kind, device["arch"], width, device["num_sms"], device["clock_rate"]
                )
                minimum.loc[rows, "min_time"] += df.loc[rows, f"flops{width}"].fillna(0) / peak
    return minimum


def get_min_time_bytes(df: Any, device_info: dict[str, Any]) -> Any:
    """Minimum seconds for the bytes of each row at the device's peak rate: column "min_time"."""
    minimum = _zeros(df)
    if "bytes" in df.columns:
        for kind, device, rows in _devices(df, device_info):
            peak = specs.max_bps(
                kind, device["arch"], device["bus_width"], device["memory_clock_rate"]
            )
            minimum.loc[rows, "min_time"] += df.loc[rows, "bytes"].fillna(0) / peak
    return minimum


class _Deriver:
    """Derives columns of one GraphFrame."""

    def __init__(
        self, gf: Any, inclusive: list[str], exclusive: list[str], devices: dict[str, Any]
    ) -> None:
        self.df = gf.dataframe
        self.inclusive = inclusive
        self.exclusive = exclusive
        self.devices = devices

    def column(self, metric: str) -> str:
        return match_available_metrics(metric, self.inclusive, self.exclusive)[0]

    def seconds(self, metric: str) -> Any:
        column = self.column(metric)
        unit = re.search(r"\((\w+)\)", column)
        return self.df[column] * _SECONDS.get(unit.group(1) if unit else "ns", 1e-9)

    def util(self) -> str:
        busy = get_min_time_flops(self.df, self.devices)["min_time"]
        busy = busy.combine(get_min_time_bytes(self.df, self.devices)["min_time"], max)
        on_device = self.df["device_id"].notna()
        self.df["util"] = (busy / self.seconds("time")).where(on_device)
        return "util"

    def time(self, metric: str, source: FactorDict) -> str:
        seconds = self.seconds("cpu_time" if "cpu_time" in source.name else "time")
        if source.name.startswith("avg_"):
            seconds = seconds / self.df[self.column("count")]
        self.df[metric + INCLUSIVE] = seconds / source.factor[metric]
        return metric + INCLUSIVE

    def rate(self, metric: str) -> str:
        source = derivable_metrics[metric]
        amount = self.df[self.column(source.name)]
        self.df[metric + INCLUSIVE] = amount / self.seconds("time") / source.factor[metric]
        return metric + INCLUSIVE

    def share(self, metric: str, unit: str) -> str:
        if unit != "%":
            known = "s, ms, us, ns or %" if metric.endswith("time") else "%"
            raise ValueError(f"Unsupported unit {unit} of {metric}; expected {known}")
        column = self.column(metric)
        is_inclusive = column.endswith(INCLUSIVE)
        values = self.df[column]
        total = values.iloc[0] if is_inclusive else values.sum()
        name = f"{metric}/%" + (INCLUSIVE if is_inclusive else "")
        self.df[name] = values / total * 100.0
        return name

    def derive(self, metric: str) -> str:
        if metric == "util":
            return self.util()
        if metric in derivable_metrics:
            return self.rate(metric)
        for source in (
            time_factor_dict, avg_time_factor_dict, cpu_time_factor_dict, avg_cpu_time_factor_dict,
        ):
            if metric in source.factor:
                return self.time(metric, source)
        name, slash, unit = metric.partition("/")
        return self.share(name, unit) if slash else self.column(name)


def derive_metrics(
    gf: Any,
    metrics: list[str],
    inclusive_metrics: list[str],
    exclusive_metrics: list[str],
    device_info: dict[str, Any],
) -> list[str]:
    """Add a column for each metric to the GraphFrame of `read`; returns the columns' names.

    The formulas are those of `proton-viewer -m` (docs/guide/viewing.md).
    """
    deriver = _Deriver(gf, inclusive_metrics, exclusive_metrics, device_info)
    derived = [deriver.derive(metric) for metric in bare_names(metrics)]
    for column in derived:
        (gf.inc_metrics if column.endswith(INCLUSIVE) else gf.exc_metrics).append(column)
    return derived


_SOURCE = re.compile(r"(?P<file>.*):(?P<line>\d+)@(?P<function>.*)", re.DOTALL)


def _format_frame(name: str, format: str) -> str:
    source = _SOURCE.fullmatch(name)
    if source is None:
        return name
    file = source["file"].rpartition("/")[2]
    if format == "file_function_line":
        return f"{file}:{source['line']}@{source['function']}"
    if format == "function_line":
        return f"{source['line']}@{source['function']}"
    return f"{file}@{source['function']}"


def format_frames(gf: Any, format: Optional[str]) -> Any:
    """Shorten the names of source frames in the GraphFrame, in place; returns it.

    format: None or "full" (no change), "file_function_line", "function_line" or "file_function".
    """
    if format not in (None, *_FORMATS):
        raise ValueError(f"Unknown format: {format}; available: {', '.join(_FORMATS)}")
    if format not in (None, "full"):
        names = gf.dataframe["name"]
        gf.dataframe["name"] = names.apply(lambda name: _format_frame(name, str(format)))
    return gf


def filter_frames(
    gf: Any,
    include: Optional[str] = None,
    exclude: Optional[str] = None,
    threshold: Optional[float] = None,
    metric: Optional[str] = None,
) -> Any:
    """A GraphFrame with selected frames only; see `parse`. `metric` is the column of `threshold`.
    """
    _hatchet()
    from hatchet.query import NegationQuery, ObjectQuery

    def named(pattern: str) -> dict[str, str]:
        return {"name": f"(?s:.*)(?:{pattern})(?s:.*)"}  # hatchet matches whole names

    if include:
        gf = gf.filter(ObjectQuery(["*", named(include), "*"]), squash=True)
    if exclude:
        gf = gf.filter(NegationQuery(ObjectQuery([named(exclude), "*"])), squash=True)
    if threshold:
        gf = gf.filter(ObjectQuery(["*", {metric: f">= {threshold}"}]), squash=True)
    return gf


def emit_warnings(gf: Any, metrics: list[str]) -> None:
    """Print a warning if shown byte values are negative, which indicates an overflow."""
    if "bytes (inc)" in metrics and (gf.dataframe["bytes (inc)"] < 0).any():
        print("Warning: Negative byte values detected, probably an integer overflow\n")
