"""Metric values that are not plain numbers: tensors, arrays, numbers of other libraries.

The extension converts int, float, str and lists of numbers itself and calls this module for others.
"""

from __future__ import annotations

import sys
from collections import namedtuple
from typing import Any, Optional

from . import _libproton

# Entries that Triton itself puts into the launch metadata.
_TRITONS_OWN = frozenset(("name", "function", "stream"))
FLOPS_WIDTHS = (8, 16, 32, 64)
# Names with a fixed type, whatever the caller passes.
FLOPS_DTYPES: dict[str, type] = {
    name: float for name in ("flops", *(f"flops{width}" for width in FLOPS_WIDTHS))
}
ROOFLINE_DTYPES: dict[str, type] = {**FLOPS_DTYPES, "bytes": int}


def _plain_value(name: str, value: Any) -> Any:
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain_number(name, item) for item in value]
    # Tensors and arrays. Device memory that gets here is waited for and copied.
    to_list = getattr(value, "tolist", None)
    if to_list is not None:
        listed = to_list()
        if not isinstance(listed, list):
            return _plain_number(name, listed)
        flat = _flatten(listed)
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
        f"metric {name!r}: a {type(value).__name__} is neither a number nor a list of numbers"
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
    """The same metrics with all values converted to numbers, strings or lists of numbers."""
    return {name: _plain_value(name, value) for name, value in metrics.items()}


def is_metric_value(value: Any) -> bool:
    """True for values that can be recorded as a metric."""
    if isinstance(value, (bool, int, float)):
        return True
    if isinstance(value, (list, tuple)):
        return len(value) > 0 and all(is_metric_value(item) for item in value)
    return any(hasattr(value, name) for name in ("data_ptr", "tolist", "__index__", "__float__"))


def launch_metrics(launch: dict[str, Any]) -> dict[str, Any]:
    """The entries of a kernel's launch metadata that can be recorded as metrics."""
    return {
        key: value
        for key, value in launch.items()
        if isinstance(key, str) and key not in _TRITONS_OWN and is_metric_value(value)
    }


# ---------------------------------------------------------------------- device memory

# enum proton_element of libproton by the last part of a dtype's name: torch.float32 -> float32.
ELEMENTS = {
    name: number
    for number, name in enumerate(
        "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 "
        "float16 bfloat16 float32 float64".split(),
        start=1,
    )
}
_elements_of_dtypes: dict[Any, int] = {}


def _element_of(dtype: Any) -> int:
    """The element type of a tensor; 0 if libproton does not know it."""
    element = _elements_of_dtypes.get(dtype)
    if element is None:
        element = ELEMENTS.get(str(dtype).rpartition(".")[2], 0)
        _elements_of_dtypes[dtype] = element
    return element


def _initialized_cuda() -> Any:
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None


def current_stream(device: Any = None) -> int:
    """The handle of torch's current stream; 0, the default stream, without torch."""
    cuda = _initialized_cuda()
    return cuda.current_stream(device).cuda_stream if cuda else 0


def _is_on_device(value: Any) -> bool:
    return getattr(value, "is_cuda", False) is True and hasattr(value, "data_ptr")


def _on_device(name: str, tensor: Any) -> Optional[tuple[int, int, Any]]:
    """(element type, elements, the tensor to read); None if its value must be waited for."""
    element = _element_of(tensor.dtype)
    if not element or not tensor.is_contiguous():
        tensor = (tensor if element else tensor.double()).contiguous()
        element = _element_of(tensor.dtype)
    count = tensor.numel()
    if count * tensor.element_size() > _libproton.device_metric_max_bytes:
        cuda = _initialized_cuda()
        if cuda and cuda.is_current_stream_capturing():
            raise ValueError(
                f"metric {name!r}: a tensor of more than {_libproton.device_metric_max_bytes} "
                "bytes cannot be a metric in a CUDA graph"
            )
        return None
    return element, count, tensor


def split_metrics(
    metrics: dict[str, Any],
) -> tuple[dict[str, Any], list[tuple[str, int, bool, bool, int, int, int, Any]]]:
    """Plain metrics, and those that are read on the device.

    For the latter: name, element type, whether it is converted to double, whether it is a vector,
    elements, address, stream and the tensor, which must stay alive until it has been read.
    """
    plain: dict[str, Any] = {}
    device = []
    for name, value in metrics.items():
        if _is_on_device(value) and value.numel() == 0:
            plain[name] = []
            continue
        described = _on_device(name, value) if _is_on_device(value) else None
        if described is None:
            plain[name] = _plain_value(name, value)
            continue
        element, count, tensor = described
        forced = ROOFLINE_DTYPES.get(name)
        # The name decides, else the type of the elements.
        is_double = element >= ELEMENTS["float16"] if forced is None else forced is float
        stream = current_stream(tensor.device)
        device.append(
            (name, element, is_double, count != 1, count, tensor.data_ptr(), stream, tensor)
        )
    return plain, device


# Upstream's numbers for the types of a TensorMetric.
metric_type_int64_index, metric_type_double_index = 1, 2
metric_type_vector_int64_index, metric_type_vector_double_index = 5, 6


class TensorMetric(namedtuple("TensorMetric", ("ptr", "index", "size"))):
    """A metric in device memory: its address, the type of the value and the number of elements."""

    def __new__(cls, ptr: int, index: int, size: int = 1) -> TensorMetric:
        if index < 0 or size < 1:
            raise ValueError("TensorMetric: index or size out of range")
        return super().__new__(cls, ptr, index, size)


class _HeldTensorMetric(TensorMetric):
    """A TensorMetric that keeps its tensor alive."""

    tensor: Any


def transform_tensor_metrics(
    metrics: dict[str, Any],
) -> tuple[dict[str, Any], dict[str, TensorMetric]]:
    """Split metrics into plain values and those to be read from device memory.

    The metrics of the roofline get their type: flops, flops8 … flops64 float, bytes int. Tensors
    on a device are converted to int64 or float64.
    """
    tensors: dict[str, TensorMetric] = {}
    others = {}
    for name, value in metrics.items():
        if not _is_on_device(value):
            others[name] = value
            continue
        forced = ROOFLINE_DTYPES.get(name)
        is_double = value.is_floating_point() if forced is None else forced is float
        value = (value.double() if is_double else value.long()).contiguous()
        count = value.numel()
        kind = ("vector_" if count > 1 else "") + ("double" if is_double else "int64")
        index = globals()[f"metric_type_{kind}_index"]
        tensors[name] = _HeldTensorMetric(value.data_ptr(), index, count)
        tensors[name].tensor = value
    plain = plain_metrics(others)
    for name, convert in ROOFLINE_DTYPES.items():
        if name in plain:
            value = plain[name]
            plain[name] = (
                [convert(item) for item in value] if isinstance(value, list) else convert(value)
            )
    return plain, tensors
