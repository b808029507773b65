"""Parts of the package that do something for some sessions, and what they replace in Triton."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional


class Sessions(set[int]):
    """The live sessions that a part of the package works for."""

    def end(self, session: Optional[int]) -> bool:
        """`session`, or every session, has ended. True if none is left."""
        if session is None:
            self.clear()
        else:
            self.discard(session)
        return not self


class Replacements:
    """Attributes of other packages' objects in place of the original ones."""

    def __init__(self) -> None:
        self._made: list[tuple[Any, str, Any, Any]] = []

    def __bool__(self) -> bool:
        return bool(self._made)

    def put(self, owner: Any, name: str, ours: Callable[..., Any]) -> None:
        self._made.append((owner, name, getattr(owner, name), ours))
        setattr(owner, name, ours)

    def restore(self) -> None:
        """Undo `put`. Code that wrapped a replacement may keep it: that attribute stays."""
        for owner, name, original, ours in self._made:
            if getattr(owner, name, None) is ours:
                setattr(owner, name, original)
        self._made.clear()
