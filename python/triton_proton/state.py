"""States: a label below all open scopes, such as "warm-up"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

from . import _libproton
from ._decorate import decorate
from ._libproton import enter_state as _enter_state
from ._libproton import exit_state as _exit_state

COMPUTE_METADATA_SCOPE_NAME: str = _libproton.metadata_scope_name
COMPUTE_METADATA_SCOPE_PREFIX: str = _libproton.metadata_scope_prefix


class state:
    """Everything recorded on this thread while it is set gets `name` as its last level.

    A context manager and a decorator. States do not nest: an inner one replaces the outer one until
    it is exited.

        with proton.state("warm-up"):
            with proton.scope("layer 0"):   # layer 0 -> warm-up -> kernel
                kernel[grid](x, y)
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> "state":
        _enter_state(self.name)
        return self

    def __exit__(self, *exception: Any) -> None:
        _exit_state()

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        return decorate(self, func)


class metadata_state(state):
    """Kernels launched inside compute launch metadata; viewers omit them."""

    __slots__ = ()

    def __init__(self, kernel_name: Optional[str] = None) -> None:
        super().__init__(get_metadata_state_name(kernel_name))


def enter_state(name: str) -> None:
    """Set the state of this thread; `exit_state` ends it."""
    _enter_state(name)


def exit_state() -> None:
    """End the state that `enter_state` set last on this thread."""
    _exit_state()


def get_metadata_state_name(kernel_name: Optional[str] = None) -> str:
    """The state's name while the launch metadata of `kernel_name` is computed."""
    if kernel_name is None:
        return COMPUTE_METADATA_SCOPE_NAME
    return COMPUTE_METADATA_SCOPE_PREFIX + kernel_name
