"""Kernel hashes for Triton's override directory, identical with and without instrumentation.

Override files are in a directory named after the hash of a kernel's source, which a dump created.
Since Triton 3.7 a compiler stage hook adds itself to the specialization of a launch, and thereby to
the source as an attribute of a nonexistent parameter. The directory of an instrumented run would
therefore differ from that of a dump without a hook.
"""

from __future__ import annotations

import copy
import functools
from types import ModuleType
from typing import Any

from ._followers import Replacements
from ._imports import forget_triton, when_triton_has

_COMPILER = "compiler.compiler"
_users = 0
_replaced = Replacements()


def start() -> None:
    """From now on, sources have the hashes that they have without a hook."""
    global _users
    _users += 1
    if _users == 1:
        when_triton_has(_COMPILER, _wrap)


def stop() -> None:
    """Undo one `start`."""
    global _users
    _users -= 1
    if not _users:
        forget_triton(_COMPILER, _wrap)
        _replaced.restore()


def _wrap(compiler: ModuleType) -> None:
    inner = compiler.ASTSource.hash

    @functools.wraps(inner)
    def named(source: Any, *more: Any, **rest: Any) -> Any:
        return inner(_without_hook(source), *more, **rest)

    _replaced.put(compiler.ASTSource, "hash", named)


def _without_hook(source: Any) -> Any:
    """The source without attributes of parameters that it does not have."""
    try:
        parameters = len(source.signature)
        attrs = {path: value for path, value in source.attrs.items() if path[0] < parameters}
    except (AttributeError, TypeError):  # attributes of a later version
        return source
    if len(attrs) == len(source.attrs):
        return source
    source = copy.copy(source)
    source.attrs = attrs
    return source
