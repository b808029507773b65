"""Hooks around loads and launches of kernels, and their sessions."""

from __future__ import annotations

import threading
from collections import defaultdict
from types import ModuleType
from typing import Any, Optional

from .. import _libproton
from .._imports import forget_triton, modules_of_tritons, when_triton_has


class Hook:
    """Base class of hooks. The hook with the highest `priority` is entered first."""

    priority: int = 0

    def init_handle(
        self, module: Any, function: Any, name: str, metadata_group: dict[str, str], hash: str
    ) -> None:
        """A kernel was loaded onto a device."""

    def destroy_handle(
        self, module: Any, function: Any, name: str, metadata_group: dict[str, str], hash: str
    ) -> None:
        """A kernel is unloaded."""

    def enter(self, metadata: Any) -> None:
        """A kernel is about to be launched; `metadata.get()` gives its launch metadata."""

    def exit(self, metadata: Any) -> None:
        """The kernel was launched."""

    def activate(self) -> None:
        """The first session that uses the hook becomes active."""

    def deactivate(self) -> None:
        """The last session that uses the hook stops being active."""

    def reset(self) -> None:
        """The last session that uses the hook has ended: forget what was set up for it."""


class HookManager:
    """Registered hooks per session. A hook is active while any of its sessions is."""

    active_hooks: list[Hook] = []  # by priority, highest first
    session_hooks: dict[int, dict[Hook, bool]] = defaultdict(dict)  # hook -> active
    _lock = threading.RLock()  # of both; launches read `active_hooks` without the lock

    # ---- called by Triton, of which later versions may pass more arguments

    @staticmethod
    def init_handle(
        module: Any, function: Any, name: str, metadata_group: dict[str, str], hash: str,
        *_: Any, **__: Any
    ) -> None:
        for hook in HookManager.active_hooks:
            hook.init_handle(module, function, name, metadata_group, hash)

    @staticmethod
    def destroy_handle(
        module: Any, function: Any, name: str, metadata_group: dict[str, str], hash: str,
        *_: Any, **__: Any
    ) -> None:
        for hook in reversed(HookManager.active_hooks):
            hook.destroy_handle(module, function, name, metadata_group, hash)

    # C functions that replace enter() and exit(), which run at every launch.
    enter = staticmethod(_libproton.hooks_enter)
    exit = staticmethod(_libproton.hooks_exit)

    # ---- called by sessions

    @staticmethod
    def register(hook: Hook, session: int) -> None:
        """Add `hook` to the active `session`."""
        with HookManager._lock:
            HookManager.session_hooks[session][hook] = True
            HookManager._activate_hook(hook)

    @staticmethod
    def unregister(session: Optional[int] = None) -> None:
        """`session`, or every session, uses no hooks any more."""
        with HookManager._lock:
            for one in HookManager._sessions(session):
                HookManager.deactivate(one)
                for hook in HookManager.session_hooks.pop(one):
                    if not any(hook in others for others in HookManager.session_hooks.values()):
                        hook.reset()

    @staticmethod
    def activate(session: Optional[int] = None) -> None:
        """`session`, or every session, is active."""
        with HookManager._lock:
            for one in HookManager._sessions(session):
                for hook in HookManager.session_hooks[one]:
                    HookManager.session_hooks[one][hook] = True
                    HookManager._activate_hook(hook)

    @staticmethod
    def deactivate(session: Optional[int] = None) -> None:
        """`session`, or every session, is paused."""
        with HookManager._lock:
            for one in HookManager._sessions(session):
                hooks = HookManager.session_hooks[one]
                for hook in hooks:
                    hooks[hook] = False
                    if not any(used.get(hook) for used in HookManager.session_hooks.values()):
                        HookManager._deactivate_hook(hook)

    # ---- implementation

    @staticmethod
    def _sessions(session: Optional[int]) -> list[int]:
        if session is None:
            return list(HookManager.session_hooks)
        return [session] if session in HookManager.session_hooks else []

    @staticmethod
    def _activate_hook(hook: Hook) -> None:
        if hook in HookManager.active_hooks:
            return
        hook.activate()
        # A new list: another thread may be iterating over the old one.
        HookManager._set_active(
            sorted([*HookManager.active_hooks, hook], key=lambda one: one.priority, reverse=True)
        )
        when_triton_has("knobs", _register_in_triton)

    @staticmethod
    def _deactivate_hook(hook: Hook) -> None:
        if hook not in HookManager.active_hooks:
            return
        HookManager._set_active([one for one in HookManager.active_hooks if one is not hook])
        if not HookManager.active_hooks:
            forget_triton("knobs", _register_in_triton)
            for knobs in modules_of_tritons("knobs"):
                _unregister_in_triton(knobs)
        hook.deactivate()

    @staticmethod
    def _set_active(hooks: list[Hook]) -> None:
        HookManager.active_hooks = hooks
        _libproton.hooks_set(hooks)

    @staticmethod
    def _reset_in_child() -> None:
        """After a fork: no session exists in the child."""
        for hook in HookManager.active_hooks:
            HookManager._deactivate_hook(hook)
        HookManager.session_hooks.clear()


_IN_TRITON = {
    "kernel_load_end_hook": HookManager.init_handle,
    "kernel_unload_hook": HookManager.destroy_handle,
    "launch_enter_hook": HookManager.enter,
    "launch_exit_hook": HookManager.exit,
}


_hidden: set[str] = set()  # files of Triton's hook chains


def _register_in_triton(knobs: ModuleType) -> None:
    # Metadata of a launch is computed below a chain's __call__, which is not part of its path.
    file = getattr(knobs, "__file__", None)
    if file and file not in _hidden:
        _hidden.add(file)
        _libproton.hide_frames([file])
    for name, function in _IN_TRITON.items():
        chain = getattr(knobs.runtime, name, None)
        if chain is None:
            setattr(knobs.runtime, name, function)
        elif hasattr(chain, "add"):
            chain.add(function)


def _unregister_in_triton(knobs: ModuleType) -> None:
    for name, function in _IN_TRITON.items():
        chain = getattr(knobs.runtime, name, None)
        if chain is function:
            setattr(knobs.runtime, name, None)
        elif chain is not None and hasattr(chain, "remove"):
            chain.remove(function)
