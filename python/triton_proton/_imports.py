"""Changes to other packages: from their import on, until the sessions that need them have ended.

Profiling often starts before the script imports Triton, and an import of Triton by this package
would take a second or more. Changes to Triton's modules are therefore deferred with these
callbacks.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, Optional

_Callback = Callable[[ModuleType], None]
_waiting: dict[str, dict[_Callback, None]] = {}
# Callbacks for modules of every Triton, by the name without the package's: some projects have one
# under another name, such as tokenspeed_triton.
_everywhere: dict[str, dict[_Callback, None]] = {}
_tritons = ["triton"]  # and other names, once seen
_searching: set[tuple[int, str]] = set()  # threads, and the names that they look for


class _Watcher(importlib.abc.MetaPathFinder):
    """Finds the modules with callbacks by asking the other finders."""

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        search = (threading.get_ident(), fullname)
        if search in _searching:
            return None
        if fullname not in _waiting and not (_everywhere and _may_be_knobs(fullname)):
            return None
        _searching.add(search)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            _searching.discard(search)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if _everywhere and _may_be_knobs(fullname):
                _look_at(fullname, module)
            for callback in _waiting.pop(fullname, ()):
                callback(module)
            _stop_watching()

        try:
            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        except AttributeError:
            pass  # a loader that cannot be wrapped: its module gets no callbacks
        return spec


_watcher = _Watcher()


def _stop_watching() -> None:
    if not _waiting and not _everywhere and _watcher in sys.meta_path:
        sys.meta_path.remove(_watcher)


def _may_be_knobs(name: str) -> bool:
    return name.endswith(".knobs") and name.count(".") == 1


def _look_at(name: str, knobs: ModuleType) -> None:
    """If the package with this module is a Triton, its modules get their callbacks."""
    package = name.partition(".")[0]
    runtime = getattr(knobs, "runtime", None)
    if package in _tritons or not hasattr(runtime, "add_stages_inspection_hook"):
        return
    _tritons.append(package)
    for below, callbacks in _everywhere.items():
        for callback in callbacks:
            when_imported(f"{package}.{below}", callback)


def when_imported(name: str, callback: _Callback) -> None:
    """Call `callback(module)`: at once if `name` is imported already, else right after its import.
    """
    module = sys.modules.get(name)
    if module is not None and not _is_loading(module):
        callback(module)
        return
    _waiting.setdefault(name, {})[callback] = None
    if _watcher not in sys.meta_path:
        sys.meta_path.insert(0, _watcher)


def when_triton_has(name: str, callback: _Callback) -> None:
    """when_imported() for the module `name` of each Triton, whatever the package is called."""
    for other in filter(_may_be_knobs, list(sys.modules)):
        _look_at(other, sys.modules[other])
    if callback in _everywhere.setdefault(name, {}):
        return
    _everywhere[name][callback] = None
    for package in _tritons:
        when_imported(f"{package}.{name}", callback)
    if _watcher not in sys.meta_path:
        sys.meta_path.insert(0, _watcher)


def forget_triton(name: str, callback: _Callback) -> None:
    """Remove `callback`."""
    _drop(_everywhere, name, callback)
    for package in _tritons:
        forget(f"{package}.{name}", callback)


def modules_of_tritons(name: str) -> list[ModuleType]:
    """The module `name` of each Triton that has been imported."""
    names = [f"{package}.{name}" for package in _tritons]
    return [sys.modules[each] for each in names if each in sys.modules]


def triton_of(value: Any) -> str:
    """The package of the Triton that an object belongs to."""
    package = type(value).__module__.partition(".")[0]
    return package if package in _tritons else "triton"


def _drop(table: dict[str, dict[_Callback, None]], name: str, callback: _Callback) -> None:
    table.get(name, {}).pop(callback, None)
    if not table.get(name):
        table.pop(name, None)


def forget(name: str, callback: _Callback) -> None:
    """Remove `callback`."""
    _drop(_waiting, name, callback)
    _stop_watching()


def _is_loading(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


# ---------------------------------------------------------------------- sessions

_parts: list[Sessions] = []


class Sessions(set[int]):
    """The live sessions that a part of the package works for; `stop` is called after the last."""

    def __init__(self, stop: Callable[[], Any]) -> None:
        self.stop = stop
        _parts.append(self)


def end_session(session: Optional[int] = None) -> None:
    """`session`, or every session, has ended."""
    for part in _parts:
        if session is None:
            part.clear()
        else:
            part.discard(session)
        if not part:
            part.stop()


class Replacements:
    """Attributes of other packages' objects in place of the original ones."""

    def __init__(self) -> None:
        self._made: list[tuple[Any, str, Any, Any]] = []
        self._watched: list[tuple[str, Callable[[ModuleType], None]]] = []

    def __bool__(self) -> bool:
        return bool(self._made)

    def watch(self, name: str, change: Callable[[ModuleType], None]) -> None:
        """when_triton_has(), until `restore`."""
        self._watched.append((name, change))
        when_triton_has(name, change)

    def put(self, owner: Any, name: str, ours: Callable[..., Any]) -> None:
        self._made.append((owner, name, getattr(owner, name), ours))
        setattr(owner, name, ours)

    def wrap(self, owner: Any, name: str, around: Callable[..., Any]) -> None:
        """Calls go to `around`, with the original function and the arguments."""
        inner = getattr(owner, name)

        @functools.wraps(inner)
        def ours(*args: Any, **named: Any) -> Any:
            return around(inner, *args, **named)

        self.put(owner, name, ours)

    def restore(self) -> None:
        """Undo the rest. Code that wrapped a replacement may keep it: that attribute stays."""
        for watched in self._watched:
            forget_triton(*watched)
        for owner, name, original, ours in self._made:
            if getattr(owner, name, None) is ours:
                setattr(owner, name, original)
        self._watched.clear()
        self._made.clear()
