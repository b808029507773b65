"""Launch metadata: the hook "triton"."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any, Optional

from .. import _libproton
from .._note import note
from ..metric import is_metric_value
from .hook import Hook

# What Triton itself puts into the launch metadata.
_RESERVED = frozenset(("name", "function", "stream"))
_NUMBERS = (float, int)  # most metrics are


class _Launch(threading.local):
    """What the calling thread is doing; ops and states are per thread too."""

    op: Optional[tuple[int, str]] = None  # the number and name of the op that `enter` entered
    is_in_hook: bool = False  # kernels launched by a metadata function have none of their own


_launch = _Launch()


class LaunchHook(Hook):
    """Calls the kernel's `launch_metadata` function and records what it returns.

    The kernel is shown under the metadata's "name"; every number, list of numbers or tensor in it
    becomes a metric of the kernel. There is one LaunchHook per process.
    """

    priority = 100
    _instance: Optional["LaunchHook"] = None

    def __new__(cls) -> "LaunchHook":
        if cls._instance is None:
            cls._instance = super().__new__(cls)
            cls._instance._include = None
            cls._instance._exclude = None
        return cls._instance

    _include: Optional[re.Pattern[str]]
    _exclude: Optional[re.Pattern[str]]

    def configure(self, *, include: Optional[str] = None, exclude: Optional[str] = None) -> None:
        """Record metadata only of kernels whose name matches `include` and not `exclude`.

        Both are regular expressions matched at the beginning of the compiled kernel's name and of
        the name that its metadata gives; either match counts. Other kernels are timed all the
        same, under their own name. The filter lasts until the next call or until the last session
        with this hook has ended.
        """
        include_pattern = re.compile(include) if include is not None else None
        exclude_pattern = re.compile(exclude) if exclude is not None else None
        self._include = include_pattern
        self._exclude = exclude_pattern

    def _matches(self, *names: str) -> bool:
        if self._include and not any(self._include.match(name) for name in names):
            return False
        return not (self._exclude and any(self._exclude.match(name) for name in names))

    def reset(self) -> None:
        self.configure()

    def enter(self, metadata: Any) -> None:
        if _launch.is_in_hook:
            return
        _leave_op()  # of a launch that failed between enter and exit
        raw_name = _raw_name(metadata)
        # With an include pattern the metadata's name may still match, so it has to be computed.
        if self._exclude and self._exclude.match(raw_name):
            return
        launch = _evaluate(metadata, raw_name)
        if launch is None:
            return
        name = launch.get("name", raw_name)
        name = name if isinstance(name, str) else raw_name
        if (self._include or self._exclude) and not self._matches(raw_name, name):
            return
        op_id = _libproton.record_scope()
        _libproton.enter_op(op_id, name)
        _launch.op = (op_id, name)
        metrics = {
            key: value
            for key, value in launch.items()
            if key not in _RESERVED
            and (type(value) in _NUMBERS or is_metric_value(value))
            and isinstance(key, str)
        }
        if not metrics:
            return
        try:
            _in_hook(raw_name, _libproton.add_metrics, op_id, metrics)
        except Exception as error:
            _say(raw_name, error)

    def exit(self, metadata: Any) -> None:
        if not _launch.is_in_hook:
            _leave_op()


def _in_hook(raw_name: str, work: Callable[..., Any], *args: Any) -> Any:
    """Call `work` while metadata is computed: its kernels belong to the metadata state."""
    launch = _launch
    launch.is_in_hook = True
    _libproton.enter_state(_libproton.metadata_scope_prefix + raw_name)
    try:
        return work(*args)
    finally:
        _libproton.exit_state()
        launch.is_in_hook = False


def _leave_op() -> None:
    op = _launch.op
    if op is not None:
        _launch.op = None
        _libproton.exit_op(*op)


def _raw_name(metadata: Any) -> str:
    """The compiled kernel's name, without computing the rest."""
    name = metadata.data.get("name")
    return name if isinstance(name, str) else ""


def _evaluate(metadata: Any, raw_name: str) -> Optional[dict[str, Any]]:
    """The launch metadata, or None (and a line that says so) when its function fails.

    The program would have run without a profiler, so it goes on here too.
    """
    if getattr(metadata, "extras", None) == []:
        return metadata.data  # a kernel of Triton's without a metadata function
    try:
        return _in_hook(raw_name, metadata.get)
    except Exception as error:
        _say(raw_name, error)
        return None


def _say(kernel: str, error: Exception) -> None:
    note(
        f"the launch metadata of kernel '{kernel}' is not recorded: "
        f"{type(error).__name__}: {error}",
        once=True,
    )
