"""State of the profiler in this process."""

from __future__ import annotations

import os
import sys
from typing import Any

from . import _libproton


class ProfilerFlags:
    """`profiling_on` and `instrumentation_on` are read-only; `proton` sets `command_line`."""

    __slots__ = ("instrumentation_on", "command_line")

    def __init__(self) -> None:
        self.instrumentation_on = False  # kernels are compiled with instrumentation
        self.command_line = False  # the `proton` command owns the session

    @property
    def profiling_on(self) -> bool:
        """True while a session is live. Read from the recorder, so it is correct after a fork."""
        return _libproton.is_profiling()

    def __repr__(self) -> str:
        return (
            f"ProfilerFlags(profiling_on={self.profiling_on}, "
            f"instrumentation_on={self.instrumentation_on}, command_line={self.command_line})"
        )


flags = ProfilerFlags()


def is_true(variable: str) -> bool:
    """Whether the environment variable is set to a word for true."""
    return os.environ.get(variable, "").lower() in ("1", "true", "on", "y", "yes")


def knob(group: str, name: str) -> Any:
    """A knob of Triton; None before Triton is imported, or if it has no such knob."""
    return getattr(getattr(sys.modules.get("triton.knobs"), group, None), name, None)


def is_disabled() -> bool:
    """TRITON_PROTON_DISABLE, or Triton's knob once Triton is imported."""
    disable = knob("proton", "disable")
    return is_true("TRITON_PROTON_DISABLE") if disable is None else bool(disable)
