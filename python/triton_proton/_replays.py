"""Counts replays of PyTorch's CUDA graphs, whose rate corrects estimates from windows."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from ._imports import when_imported
from ._libproton import note_step


def follow(mode: str) -> None:
    """Count from now on, if the mode has windows."""
    if "windows=" in mode:
        when_imported("torch.cuda.graphs", _wrap)


def _wrap(module: ModuleType) -> None:
    graph = getattr(module, "CUDAGraph", None)
    replay = getattr(graph, "replay", None)
    if replay is None or getattr(replay, "counts_steps", False):
        return

    @functools.wraps(replay)
    def counted(self: Any) -> None:
        note_step()
        replay(self)

    counted.counts_steps = True  # type: ignore[attr-defined]
    graph.replay = counted  # type: ignore[union-attr]
