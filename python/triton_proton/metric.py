"""Metric values that are not plain numbers: tensors, arrays, numbers of other libraries.

The extension converts int, float, str and lists of numbers by itself and comes here for the rest.
"""

from __future__ import annotations

from typing import Any

from . import _libproton

# What Triton itself puts into the launch metadata.
_TRITONS_OWN = frozenset(("name", "function", "stream"))
FLOPS_WIDTHS = (8, 16, 32, 64)
# Names that have one type whatever the caller writes.
ROOFLINE_DTYPES: dict[str, type] = {
    "flops": float,
    **{f"flops{width}": float for width in FLOPS_WIDTHS},
    "bytes": int,
}


def _plain_value(name: str, value: Any) -> Any:
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain_number(name, item) for item in value]
    # Tensors and arrays. One in device memory is waited for and copied: a GPU backend takes the
    # metrics of tensors without that where it can.
    to_list = getattr(value, "tolist", None)
    if to_list is not None:
        listed = to_list()
        if not isinstance(listed, list):
            return _plain_number(name, listed)
        flat = _flatten(listed)
        if not flat:
            raise ValueError(f"metric '{name}': the {type(value).__name__} is empty")
        return flat[0] if len(flat) == 1 else flat
    return _plain_number(name, value)


def _plain_number(name: str, value: Any) -> Any:
    if isinstance(value, (bool, int, float)):
        return value
    if hasattr(value, "item"):
        return value.item()
    for method, convert in (("__index__", int), ("__float__", float)):
        if hasattr(value, method):
            return convert(value)
    raise TypeError(
        f"metric '{name}': a {type(value).__name__} is neither a number nor a list of numbers"
    )


def _flatten(values: list[Any]) -> list[Any]:
    flat: list[Any] = []
    for value in values:
        if isinstance(value, list):
            flat.extend(_flatten(value))
        else:
            flat.append(value)
    return flat


def plain_metrics(metrics: dict[str, Any]) -> dict[str, Any]:
    """The same metrics with every value a number, a string or a list of numbers."""
    return {name: _plain_value(name, value) for name, value in metrics.items()}


def is_metric_value(value: Any) -> bool:
    """True for what can be recorded as a metric."""
    if isinstance(value, (bool, int, float)):
        return True
    if isinstance(value, (list, tuple)):
        return len(value) > 0 and all(is_metric_value(item) for item in value)
    return any(hasattr(value, name) for name in ("data_ptr", "tolist", "__index__", "__float__"))


def launch_metrics(launch: dict[str, Any]) -> dict[str, Any]:
    """What can be recorded as a metric in a kernel's launch metadata."""
    return {
        key: value
        for key, value in launch.items()
        if isinstance(key, str) and key not in _TRITONS_OWN and is_metric_value(value)
    }


def transform_tensor_metrics(
    metrics: dict[str, Any],
) -> tuple[dict[str, Any], dict[str, _libproton.TensorMetric]]:
    """Split metrics into plain values and those to be read from device memory (none so far).

    The metrics of the roofline get their type: flops, flops8 … flops64 float, bytes int.
    """
    plain = plain_metrics(metrics)
    for name, convert in ROOFLINE_DTYPES.items():
        if name in plain:
            value = plain[name]
            plain[name] = (
                [convert(item) for item in value] if isinstance(value, list) else convert(value)
            )
    return plain, {}
