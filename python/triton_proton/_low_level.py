"""`triton._C.libproton.proton` under the alias: the extension, plus upstream functions that it
lacks.

Without it, a program that calls upstream's extension directly would record with a second profiler,
which CUPTI does not allow.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Any, Optional

from . import _libproton
from ._libproton import *  # noqa: F403
from .metric import (  # noqa: F401
    ELEMENTS,
    TensorMetric,
    current_stream,
    metric_type_double_index,
    metric_type_int64_index,
    metric_type_vector_double_index,
    metric_type_vector_int64_index,
)

_stream: Optional[int] = None  # from set_metric_kernels()
activate_all = functools.partial(_libproton.activate, None)
deactivate_all = functools.partial(_libproton.deactivate, None)
finalize_all = functools.partial(_libproton.finalize, None)


def get_data(session: int, phase: int = 0) -> str:
    """The profile of one phase as hatchet JSON."""
    return _libproton.get_data(session, phase, "hatchet").decode("utf-8", "replace")


def get_data_msgpack(session: int, phase: int = 0) -> bytes:
    """The profile of one phase as hatchet_msgpack."""
    return _libproton.get_data(session, phase, "hatchet_msgpack")


def select_profiler_from_triton_backend(target: str) -> str:
    """The backend for a Triton target, 'cuda' or 'hip'."""
    backends = {"cuda": "cupti", "hip": "rocprofiler"}
    if target not in backends:
        raise ValueError(f"No profiler registered for triton backend {target}")
    return backends[target]


def set_metric_kernels(tensor_fn: int, scalar_fn: int, stream: int, *more: int) -> None:
    """The stream that tensor metrics given to add_metrics() are read on. The kernels are not
    needed: libproton has its own."""
    global _stream
    _stream = stream


def _tuple_of(name: Any, metric: Any) -> tuple[Any, ...]:
    """As of split_metrics()."""
    if not isinstance(name, str) or not isinstance(metric, TensorMetric):
        raise TypeError("tensor_metrics must map names to TensorMetric")
    is_vector = metric.index in (metric_type_vector_int64_index, metric_type_vector_double_index)
    is_double = metric.index in (metric_type_double_index, metric_type_vector_double_index)
    if not is_vector and not is_double and metric.index != metric_type_int64_index:
        raise ValueError(f"TensorMetric: {metric.index} is not the index of a type")
    if metric.size >= 2**32:
        raise ValueError("TensorMetric: too many elements")
    element = ELEMENTS["float64" if is_double else "int64"]
    stream = current_stream() if _stream is None else _stream
    has_many = is_vector or metric.size > 1
    return name, element, is_double, has_many, metric.size, metric.ptr, stream, metric


def add_metrics(
    id: int, metrics: dict[str, Any], tensor_metrics: dict[str, TensorMetric] = {}
) -> None:
    """Add metrics to a scope or op that is open on this thread."""
    tensors = tensor_metrics.items() if is_profiling() else ()  # noqa: F405
    _libproton.add_metrics(id, metrics, [_tuple_of(*one) for one in tensors])


def init_function_metadata(
    function: int,
    name: str,
    scope_names: Sequence[tuple[int, str]],
    scope_parents: Sequence[tuple[int, int]],
    metadata_path: str,
) -> None:
    """Upstream's hook passes the metadata of a kernel that upstream's compiler pass instrumented.

    Nothing is recorded: kernels instrumented by this package are described by their layout.
    """


def destroy_function_metadata(function: int) -> None:
    """The kernel is unloaded: see init_function_metadata."""


def enter_instrumented_op(stream: int, function: int, buffer: int, size: int) -> None:
    """Upstream's hook, before a launch of such a kernel: see init_function_metadata."""


def exit_instrumented_op(stream: int, function: int, buffer: int, size: int) -> None:
    """After the launch."""


proton = sys.modules[__name__]  # `from triton._C.libproton import proton`
