"""Parts of the package that do something for some sessions, and what they replace in Triton."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Optional

from ._imports import forget_triton, when_triton_has

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

    def restore(self) -> None:
        """Undo the rest. Code that wrapped a replacement may keep it: that attribute stays."""
        for watched in self._watched:
            forget_triton(*watched)
        for owner, name, original, ours in self._made:
            if getattr(owner, name, None) is ours:
                setattr(owner, name, original)
        self._watched.clear()
        self._made.clear()
