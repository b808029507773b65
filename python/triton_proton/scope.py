"""Scopes: named regions of the program that measurements are attributed to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Union

from . import _libproton
from ._libproton import cpu_timed_scope, scope

MetricValueType = Union[float, int, Sequence[float], Sequence[int]]

__all__ = ["MetricValueType", "cpu_timed_scope", "enter_scope", "exit_scope", "scope"]


def enter_scope(name: str, *, metrics: Optional[dict[str, Any]] = None) -> Optional[int]:
    """Enter a scope on this thread; `exit_scope` exits it. Returns its number.

    Returns None while nothing is being profiled. Prefer `with scope(name)` where possible.
    """
    return _libproton.push_scope(name, metrics)


def exit_scope(
    name: Optional[str] = None, *, metrics: Optional[dict[str, Any]] = None
) -> Optional[int]:
    """Exit the scope that `enter_scope` entered last on this thread. Returns its number.

    If `name` is not the name of that scope, it raises ValueError and exits nothing. `metrics` are
    added to the scope before it is exited.
    """
    return _libproton.pop_scope(name, metrics)
