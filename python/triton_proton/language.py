"""Marks inside kernels: `import triton_proton.language as pl`.

The marks take effect in sessions that instrument kernels, which this version does not have yet:
`start(backend="instrumentation")` says so. In all others they are compiled to nothing, so a kernel
may keep them. They can be called in kernels that Triton compiles and in its interpreter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional, TypeVar

_SEMANTICS = ("triton", "gluon")
_F = TypeVar("_F", bound=Callable[..., Any])


def _builtin(function: _F) -> _F:
    """What Triton's compiler calls while it compiles a kernel, instead of compiling it."""
    function.__triton_builtin__ = True  # type: ignore[attr-defined]
    return function


def enable_semantic(semantic_name: str) -> None:
    """Let kernels written in "triton" or "gluon" use marks."""
    _check_semantic(semantic_name)


def disable_semantic(semantic_name: str) -> None:
    """Do not let kernels written in "triton" or "gluon" use marks."""
    _check_semantic(semantic_name)


def _check_semantic(semantic_name: str) -> None:
    if semantic_name not in _SEMANTICS:
        raise ValueError(f"Unknown semantic: {semantic_name}; there are {', '.join(_SEMANTICS)}.")


@_builtin
def enter_scope(name: Any, _semantic: Any = None) -> None:
    """Begin the region `name` of the kernel."""


@_builtin
def exit_scope(name: Any, _semantic: Any = None) -> None:
    """End the region `name` of the kernel."""


@_builtin
class scope:
    """A region of the kernel as a block: `with pl.scope("load"): ...`."""

    def __init__(self, name: Any, _semantic: Any = None) -> None:
        self.name = name

    def __enter__(self) -> Optional["scope"]:
        return None

    def __exit__(self, *exception: Any) -> None:
        return None
