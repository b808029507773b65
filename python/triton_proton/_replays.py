"""Counts replays of PyTorch's CUDA graphs, whose rate corrects estimates from windows."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from ._imports import Replacements, when_imported
from ._libproton import note_step


_replaced = Replacements()


def follow(mode: str) -> None:
    """Count from now on, if the mode has windows."""
    if "windows=" in mode:
        when_imported("torch.cuda.graphs", _wrap)


def _wrap(module: ModuleType) -> None:
    graph = getattr(module, "CUDAGraph", None)
    replay = getattr(graph, "replay", None)
    if replay is None or _replaced:
        return

    @functools.wraps(replay)
    def counted(self: Any) -> None:
        note_step()
        replay(self)

    _replaced.put(graph, "replay", counted)
