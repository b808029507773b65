"""Scopes: named regions of the program that measurements belong to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Union

from . import _libproton
from ._libproton import cpu_timed_scope, scope

MetricValueType = Union[float, int, Sequence[float], Sequence[int]]

__all__ = ["MetricValueType", "cpu_timed_scope", "enter_scope", "exit_scope", "scope"]


def enter_scope(name: str, *, metrics: Optional[dict[str, Any]] = None) -> Optional[int]:
    """Enter a scope on this thread; `exit_scope` leaves it. Returns its number.

    Returns None while nothing is being profiled. Prefer `with scope(name)` where a block will do.
    """
    return _libproton.push_scope(name, metrics)


def exit_scope(
    name: Optional[str] = None, *, metrics: Optional[dict[str, Any]] = None
) -> Optional[int]:
    """Leave the scope that `enter_scope` entered last on this thread. Returns its number.

    With a `name` that is not the scope's nothing is left and ValueError is raised. `metrics` are
    added to the scope before it is left.
    """
    return _libproton.pop_scope(name, metrics)
