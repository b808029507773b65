"""torch.profiler beside Proton: a warning where only one of them works.

Kineto, the library of torch.profiler, subscribes to CUPTI's first interface, which serves one tool
per process. If Proton has subscribed, Kineto's initialization fails without a message, and its
profiles have no GPU events; or it takes Proton's records.

With rocprofiler-sdk both work. If Proton has registered before PyTorch was loaded, the library
registers Kineto too when torch.profiler starts, or says that this SDK is too old for it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from ._imports import Replacements, Sessions, when_imported
from ._libproton import leave_vendor, prepare
from ._message import warn

_MODULE = "torch.autograd.profiler"
_NAME = "_prepare_profiler"  # initializes Kineto

_has_rocm = False  # Proton registers with rocprofiler-sdk in this process
_sessions = Sessions(lambda: None)
_replaced = Replacements()


def follow(session: int, backend: str) -> None:
    """Watch for torch.profiler until `session` ends, if its backend uses CUPTI."""
    if backend == "cupti":
        _sessions.add(session)
        when_imported(_MODULE, _watch)


def follow_rocm() -> None:
    """Watch for torch.profiler: Proton has registered with rocprofiler-sdk."""
    global _has_rocm
    _has_rocm = True
    when_imported(_MODULE, _watch)


def _watched(inner: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    activities = arguments[1] if len(arguments) > 1 else named.get("activities", ())
    wants_gpus = any(getattr(activity, "name", "") == "CUDA" for activity in activities)
    if _has_rocm and wants_gpus:
        prepare()
    if not _sessions:
        leave_vendor()  # CUPTI may have stayed attached after a session
    elif wants_gpus:
        warn(
            "torch.profiler starts while Proton uses CUPTI, which serves one of them: "
            "torch.profiler may have no GPU events, or Proton no kernels; end Proton's sessions "
            "before torch.profiler starts"
        )
    return inner(*arguments, **named)


def _watch(module: ModuleType) -> None:
    if hasattr(module, _NAME) and not _replaced:
        _replaced.wrap(module, _NAME, _watched)
