"""Attribution of backward launches to the forward operators of PyTorch's autograd.

The extension does the work (python/ext/autograd.c). Before that it learns from four small results
on the CPU how the nodes of this version of PyTorch are laid out. No backward pass is run for that:
the engine's threads would break a later fork.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any

from . import _libproton
from ._imports import Sessions, when_imported
from ._message import warn

# Called when this module has been executed, which `import torch` does near its end.
_MODULE = "torch"

_operator_sessions = Sessions(lambda: _libproton.follow_operators(False))
# Sessions with context "shadow" that asked for it.
_sessions = Sessions(lambda: _libproton.follow_scopes(False))


def follow_scopes(session: int) -> None:
    """Attribute backward launches to scopes too, until `session` ends."""
    _sessions.add(session)
    follow()
    _libproton.follow_scopes(True)


def follow_operators(session: int) -> None:
    """Attribute launches below the operators of PyTorch, until `session` ends."""
    _operator_sessions.add(session)
    when_imported(_MODULE, _watch_operators)


def _watch_operators(torch: ModuleType) -> None:
    if _operator_sessions and not _libproton.follow_operators(True):
        warn(
            f"operators of PyTorch {_version_of(torch)} cannot be recorded on this machine; "
            "they do not appear"
        )


def _version_of(torch: ModuleType) -> str:
    return getattr(torch, "__version__", "")


def follow() -> None:
    """From the import of PyTorch on, unless PROTON_BACKWARD=0."""
    if os.environ.get("PROTON_BACKWARD", "1") != "0":
        when_imported(_MODULE, _learn)


def _learn(torch: ModuleType) -> None:
    try:
        is_known = _follow(torch)
    except Exception:
        is_known = False
    if not is_known:
        warn(
            f"PyTorch {_version_of(torch)} is not supported by the attribution of backward "
            "kernels; they are not attributed to forward operators"
        )
    _libproton.follow_scopes(bool(_sessions))


def _follow(torch: Any) -> bool:
    with torch.inference_mode(False), torch.enable_grad():
        x = torch.zeros(1, device="cpu", requires_grad=True)
        a, b = x + 1, x + 1
        tensors = [a, b, b + 1, a + 1]
    autograd = sys.modules["torch.autograd"]
    callers = (
        getattr(sys.modules.get("torch.autograd.graph"), "_engine_run_backward", None),
        autograd.backward,
        autograd.grad,
    )
    engines = tuple(caller.__code__ for caller in callers if hasattr(caller, "__code__"))
    function = getattr(autograd.Function.apply, "__code__", None)
    is_known = _libproton.follow_autograd(tensors, engines, function)
    if is_known:
        _learn_function(torch, x)
    return is_known


def _learn_function(torch: Any, x: Any) -> None:
    """Without it, a checkpoint's node is not found if hooks make nodes inside it."""

    class Probe(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            _libproton.learn_function(torch._C._FunctionBase)
            return x + 1

    try:
        with torch.inference_mode(False), torch.enable_grad():
            Probe.apply(x)
    except Exception:
        pass
