"""Launch metadata: the hook "triton"."""

from __future__ import annotations

import re
import sys
from types import ModuleType
from typing import Optional

from .. import _libproton, _work
from .._imports import forget, when_imported
from .._message import warn
from ..metric import FLOPS_WIDTHS
from ..state import COMPUTE_METADATA_SCOPE_NAME
from .hook import Hook, HookManager

__all__ = ["COMPUTE_METADATA_SCOPE_NAME", "LaunchHook", "id"]


class _LaunchId:
    """`id.get()`: the id of the last launch on this thread that the hook recorded, or None.

    Ids are unique in the process; those of one thread increase.
    """

    get = staticmethod(_libproton.launch_id)


id = _LaunchId()


class LaunchHook(Hook):
    """Calls the kernel's `launch_metadata` function and records what it returns.

    The kernel is shown under the metadata's "name"; every number, list of numbers or tensor in it
    becomes a metric of the kernel. There is one LaunchHook per process.
    """

    priority = 100
    # Metric names with a special meaning in Triton 3.6; every name is recorded.
    flops_width = list(FLOPS_WIDTHS)
    metrics = [*(f"flops{width}" for width in FLOPS_WIDTHS), "bytes", "flops"]
    work = "compiler"
    _instance: Optional["LaunchHook"] = None

    # In C, because they run at every launch.
    enter = staticmethod(_libproton.launch_enter)
    exit = staticmethod(_libproton.launch_exit)

    def __new__(cls) -> "LaunchHook":
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def configure(
        self,
        *,
        include: Optional[str] = None,
        exclude: Optional[str] = None,
        work: str = "compiler",
    ) -> None:
        """Record metadata only for kernels with a name that matches `include` and not `exclude`.

        Both are regular expressions that are matched at the beginning of a name. The compiled
        kernel's name and the name in its metadata must both pass. The metadata function of a kernel
        is not called if the compiled name does not pass. Other kernels are timed under their own
        name. The filter applies until the next call or until the last session with this hook has
        ended.

        `work`: "compiler" counts flops and bytes of kernels without a metadata function from their
        TTIR; "none" does not.
        """
        if work not in ("compiler", "none"):
            raise ValueError(f"work is 'compiler' or 'none', not {work!r}")
        include_pattern = re.compile(include) if include is not None else None
        exclude_pattern = re.compile(exclude) if exclude is not None else None
        _libproton.launch_filter(include_pattern, exclude_pattern)
        self.work = work
        if work == "none":
            _work.stop()
        elif self in HookManager.active_hooks:
            _work.follow()

    def activate(self) -> None:
        when_imported("triton.knobs", _follow_version)
        if self.work == "compiler":
            _work.follow()

    def deactivate(self) -> None:
        forget("triton.knobs", _follow_version)
        _work.stop()

    def reset(self) -> None:
        self.configure()


def _follow_version(knobs: ModuleType) -> None:
    """Before Triton 3.8, kernels of metadata functions were directly below the metadata state."""
    version = getattr(sys.modules.get("triton"), "__version__", "")
    found = re.match(r"(\d+)\.(\d+)", version)
    is_older = found is not None and (int(found[1]), int(found[2])) < (3, 8)
    _libproton.launch_metadata_levels(1 if is_older else 2)


def _warn_of_failure(kernel: str, error: Exception) -> None:
    """Called by the extension if the metadata of a launch is not available."""
    warn(
        f"the launch metadata of kernel '{kernel}' is not recorded: "
        f"{type(error).__name__}: {error}"
    )
