"""Scopes of collectives: `scope(name, group=...)`."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import Any, Optional

from . import _libproton


def _members(ranks: list[int]) -> str:
    """Ranks with a constant distance as "0-6/2"."""
    if len(ranks) < 2:
        return ",".join(map(str, ranks))
    step = ranks[1] - ranks[0]
    if step > 0 and ranks == list(range(ranks[0], ranks[-1] + 1, step)):
        return f"{ranks[0]}-{ranks[-1]}" + (f"/{step}" if step > 1 else "")
    return ",".join(map(str, ranks))


def _describe(group: Any) -> tuple[str, Optional[str]]:
    """The name of a communicator, equal on all ranks of its kind, and its members if known."""
    if isinstance(group, str):
        return group, None
    try:
        import torch.distributed as distributed

        ranks = list(distributed.get_process_group_ranks(group))
    except (ImportError, RuntimeError, TypeError, ValueError, KeyError) as error:
        raise TypeError(
            f"group must be a str or a process group of torch, not {type(group).__name__}"
        ) from error
    name = getattr(group, "group_desc", "")
    if not name or name in ("undefined", "default_pg"):
        name = f"{len(ranks)} ranks"
    return name, _members(ranks)


class GroupScope:
    """A scope that counts as one occurrence of a collective of `group`."""

    def __init__(self, name: str, metrics: Optional[dict[str, Any]], group: Any) -> None:
        label, members = _describe(group)
        if members is not None:
            metrics = {**(metrics or {}), "group": members}
        self.name = f"{name} [{label}]"
        self.metrics = metrics
        self._scope = _libproton.scope(self.name, metrics)
        self._open = threading.local()

    def __enter__(self) -> GroupScope:
        self._scope.__enter__()
        self._open.starts = [*getattr(self._open, "starts", ()), time.perf_counter_ns()]
        return self

    def __exit__(self, *error: Any) -> Any:
        end = time.perf_counter_ns()
        _libproton.collective(end - self._open.starts.pop())
        return self._scope.__exit__(*error)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return wrapper
