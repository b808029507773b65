"""Hooks around kernel launches."""

from .hook import Hook, HookManager
from .launch import LaunchHook

__all__ = ["Hook", "HookManager", "LaunchHook"]
