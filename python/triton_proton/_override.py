"""Triton's name for a kernel's source, the same with kernels being instrumented as without.

Files that override a stage lie in a directory of that name, which a dump has made. Since Triton 3.7
a hook for its stages, such as ours, puts itself among a launch's specializations, from where it
gets into the source as an attribute of a parameter that the kernel does not have: the directory of
a run that instruments was another one than that of a dump that did not.
"""

from __future__ import annotations

import copy
import functools
from types import ModuleType
from typing import Any

from ._imports import forget, when_imported

_COMPILER = "triton.compiler.compiler"
_users = 0
_wrapped: list[tuple[Any, Any, Any]] = []  # (class, its hash(), ours)


def start() -> None:
    """From now on sources have the names that they have without a hook."""
    global _users
    _users += 1
    if _users == 1:
        when_imported(_COMPILER, _wrap)


def stop() -> None:
    """Undo one `start`."""
    global _users
    _users -= 1
    if _users:
        return
    forget(_COMPILER, _wrap)
    while _wrapped:
        kind, inner, ours = _wrapped.pop()
        if kind.hash is ours:
            kind.hash = inner


def _wrap(compiler: ModuleType) -> None:
    kind = compiler.ASTSource
    inner = kind.hash

    @functools.wraps(inner)
    def named(source: Any) -> Any:
        parameters = len(source.signature)
        attrs = {path: value for path, value in source.attrs.items() if path[0] < parameters}
        if len(attrs) != len(source.attrs):
            source = copy.copy(source)
            source.attrs = attrs
        return inner(source)

    kind.hash = named
    _wrapped.append((kind, inner, named))
