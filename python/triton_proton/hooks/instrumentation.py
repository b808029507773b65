"""Compilation, loading and launching of instrumented kernels."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

from .. import _instrument, _libproton
from .._imports import modules_of_tritons, when_triton_has
from .._message import warn
from ..flags import flags
from .hook import Hook, HookManager

_ALLOCATION = "runtime._allocation"


class InstrumentationHook(Hook):
    """The hook of sessions with the backend "instrumentation"; `start` registers it.

    While it is active, Triton compiles kernels with instrumentation as `mode` specifies, and each
    launch gets a buffer for its records. There is one hook per mode, and another for its traces,
    which need records of all executions.
    """

    priority = 0
    _by_use: dict[tuple[str, bool], "InstrumentationHook"] = {}
    _has_scopes = False  # for all kernels loaded in this process

    # In C, because they run at every launch.
    enter = staticmethod(_libproton.instrument_launching)
    exit = staticmethod(_libproton.instrument_launched)

    def __new__(cls, mode_obj: Any = None, is_trace: bool = False) -> "InstrumentationHook":
        text = "" if mode_obj is None else str(mode_obj)
        hook = cls._by_use.get((text, is_trace))
        if hook is None:
            hook = super().__new__(cls)
            hook.mode, hook.is_trace = text, is_trace
            cls._by_use[text, is_trace] = hook
        return hook

    mode: str
    is_trace: bool

    def activate(self) -> None:
        _instrument.start(self.mode, self.is_trace)
        when_triton_has(_ALLOCATION, _set_allocator)

    def deactivate(self) -> None:
        # The allocator stays: the program may launch instrumented kernels later, which need its
        # (empty) answer.
        _instrument.stop(self.is_trace)

    def reset(self) -> None:
        # The command reports this in its last line, and dumped kernels have yet to be edited.
        is_dump = any(knobs.compilation.dump_ir for knobs in modules_of_tritons("knobs"))
        if not (InstrumentationHook._has_scopes or flags.command_line or is_dump):
            warn(
                "no kernel with scopes was launched; add scopes with triton_proton.language, "
                "or use mode default:auto=all",
                repeats=True,
            )

    def init_handle(
        self, module: Any, function: Any, name: str, metadata_group: dict[str, str], hash: str
    ) -> None:
        if not self._is_first():
            return
        try:
            layout = _layout_of(metadata_group)
            if layout is None:
                _libproton.instrument_forget(function)
                return
            InstrumentationHook._has_scopes = True
            _libproton.instrument_kernel(function, name, layout)
        except Exception as error:  # a kernel without records is better than none
            warn(f"records of kernel '{name}' cannot be read: {error}")

    def destroy_handle(
        self, module: Any, function: Any, name: str, metadata_group: dict[str, str], hash: str
    ) -> None:
        _libproton.instrument_forget(function)

    def _is_first(self) -> bool:
        """False if the hook for another kind of data handles loaded kernels."""
        hooks = (hook for hook in HookManager.active_hooks if isinstance(hook, type(self)))
        return next(hooks, self) is self


def _layout_of(metadata_group: dict[str, str]) -> str | None:
    """The layout that the compiler pass stored in the kernel's metadata, and in Triton's disk
    cache.
    """
    path = next((path for name, path in metadata_group.items() if name.endswith(".json")), None)
    if path is None:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            layout = json.load(file).get("proton_layout")
    except (OSError, ValueError, AttributeError):
        return None
    return layout if isinstance(layout, str) else None


def _set_allocator(allocation: ModuleType) -> None:
    allocation.set_profile_allocator(_libproton.instrument_allocate)
