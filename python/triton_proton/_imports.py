"""Import callbacks: run a function when a module is imported, now or later.

Profiling often starts before the script imports Triton, and an import of Triton by this package
would take a second or more. Changes to Triton's modules are therefore deferred with these
callbacks.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, Optional

_waiting: dict[str, list[Callable[[ModuleType], None]]] = {}


class _Searching(threading.local):
    def __init__(self) -> None:
        self.names: set[str] = set()


_searching = _Searching()


class _Watcher(importlib.abc.MetaPathFinder):
    """Finds the modules with callbacks by asking the other finders."""

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname not in _waiting or fullname in _searching.names:
            return None
        _searching.names.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            _searching.names.discard(fullname)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _arrived(fullname, module)

        try:
            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        except AttributeError:
            pass  # a loader that cannot be wrapped: its module gets no callbacks
        return spec


_watcher = _Watcher()


def _arrived(name: str, module: ModuleType) -> None:
    for callback in _waiting.pop(name, []):
        callback(module)
    if not _waiting and _watcher in sys.meta_path:
        sys.meta_path.remove(_watcher)


def when_imported(name: str, callback: Callable[[ModuleType], None]) -> None:
    """Call `callback(module)`: at once if `name` is imported already, else right after its import.
    """
    module = sys.modules.get(name)
    if module is not None and not _is_loading(module):
        callback(module)
        return
    callbacks = _waiting.setdefault(name, [])
    if callback not in callbacks:
        callbacks.append(callback)
    if _watcher not in sys.meta_path:
        sys.meta_path.insert(0, _watcher)


def forget(name: str, callback: Callable[[ModuleType], None]) -> None:
    """Remove `callback`."""
    callbacks = _waiting.get(name, [])
    if callback in callbacks:
        callbacks.remove(callback)
    if not callbacks:
        _waiting.pop(name, None)
    if not _waiting and _watcher in sys.meta_path:
        sys.meta_path.remove(_watcher)


def _is_loading(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))
