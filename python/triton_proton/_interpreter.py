"""Recording of kernels in Triton's interpreter (TRITON_INTERPRET=1), for sessions of the host
backend.

The interpreter has no launch hooks, so two of its methods are wrapped while such a session is live:
InterpretedFunction.run, which has the kernel and its launch metadata, and GridExecutor.__call__,
which takes the kernel's time. If a later Triton lacks one of them, a message is printed and kernels
are not recorded; Triton works as usual.
"""

from __future__ import annotations

import inspect
import threading
from collections import namedtuple
from collections.abc import Callable
from types import ModuleType
from typing import Any, Optional

from . import _libproton
from ._imports import Replacements, Sessions, forget, when_imported
from ._message import warn

_MODULE = "triton.runtime.interpreter"

_replaced = Replacements()


class _Launch(threading.local):
    function: Any = None  # the InterpretedFunction whose run() is on the stack
    is_running: bool = False  # true while a kernel is recorded on this thread


_launch = _Launch()

# The second argument of a metadata function, as far as it exists without a compiler.
KernelMetadata = namedtuple(
    "KernelMetadata",
    ("name", "num_warps", "num_ctas", "num_stages", "shared", "warp_size", "target", "hash"),
)


class LaunchMetadata:
    """The argument of Triton's launch hooks: a dict that is computed on demand."""

    def __init__(self, name: str, compute: Optional[Callable[[], dict[str, Any]]]) -> None:
        self.data: dict[str, Any] = {"name": name, "function": None, "stream": None}
        self._compute = compute

    def get(self) -> dict[str, Any]:
        compute, self._compute = self._compute, None
        if compute is not None:
            self.data = self.data | compute()
        return self.data


def _stop() -> None:
    forget(_MODULE, _wrap)
    _replaced.restore()


_sessions = Sessions(_stop)


def install(session: int) -> None:
    """Start recording interpreted kernels for `session`."""
    _sessions.add(session)
    if not _replaced:
        when_imported(_MODULE, _wrap)


def _wrap(module: ModuleType) -> None:
    function_type = getattr(module, "InterpretedFunction", None)
    executor_type = getattr(module, "GridExecutor", None)
    run = getattr(function_type, "__dict__", {}).get("run")
    call = getattr(executor_type, "__dict__", {}).get("__call__")
    if not inspect.isfunction(run) or not inspect.isfunction(call):
        warn(
            "this version of Triton's interpreter is not supported; "
            "interpreted kernels are not recorded"
        )
        return
    _replaced.wrap(function_type, "run", _run)
    _replaced.wrap(executor_type, "__call__", _call)


def _run(original: Callable[..., Any], function: Any, *args: Any, **kwargs: Any) -> Any:
    before = _launch.function
    _launch.function = function
    try:
        return original(function, *args, **kwargs)
    finally:
        _launch.function = before


def _call(original: Callable[..., Any], executor: Any, *args: Any, **kwargs: Any) -> Any:
    from .hooks import HookManager

    if not _sessions or _launch.is_running:
        return original(executor, *args, **kwargs)
    # A metadata function may launch kernels too, so is_running is set after the hooks.
    function, _launch.function = _launch.function, None
    name = _kernel_name(executor, function)
    metadata = None
    if HookManager.active_hooks:
        metadata = LaunchMetadata(name, _metadata_of(executor, function, name, args, kwargs))
        HookManager.enter(metadata)
    try:
        _libproton.kernel_begin(name)
        _launch.is_running = True
        try:
            return original(executor, *args, **kwargs)
        finally:
            _launch.is_running = False
            _libproton.kernel_end()
    finally:
        if metadata is not None:
            HookManager.exit(metadata)


def _kernel_name(executor: Any, function: Any) -> str:
    for owner in (function, executor):
        name = getattr(getattr(owner, "fn", None), "__name__", None)
        if isinstance(name, str):
            return name
    return "kernel"


def _metadata_of(
    executor: Any, function: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Optional[Callable[[], dict[str, Any]]]:
    """Call the kernel's launch_metadata function; None if it has none."""
    user_function = getattr(function, "kwargs", {}).get("launch_metadata")
    if user_function is None:
        return None

    def compute() -> dict[str, Any]:
        bound = _bind(executor.fn, args, kwargs)
        grid = executor.grid(bound) if callable(executor.grid) else executor.grid
        metadata = KernelMetadata(
            name=name, num_warps=kwargs.get("num_warps", 4), num_ctas=kwargs.get("num_ctas", 1),
            num_stages=kwargs.get("num_stages", 3), shared=0, warp_size=1, target=None, hash="",
        )
        return user_function(tuple(grid), metadata, bound) or {}

    return compute


def _bind(
    kernel: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The kernel's arguments by name with defaults, without options such as num_warps."""
    signature = inspect.signature(kernel)
    wanted = {key: value for key, value in kwargs.items() if key in signature.parameters}
    bound = signature.bind(*args, **wanted)
    bound.apply_defaults()
    return dict(bound.arguments)
