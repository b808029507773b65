"""`triton._C.libproton.proton` under the alias: the extension, plus upstream functions that it
lacks.

Without it, a program that calls upstream's extension directly would record with a second profiler,
which CUPTI does not allow.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ._libproton import *  # noqa: F403


def init_function_metadata(
    function: int,
    name: str,
    scope_names: Sequence[tuple[int, str]],
    scope_parents: Sequence[tuple[int, int]],
    metadata_path: str,
) -> None:
    """Upstream's hook passes the metadata of a kernel that upstream's compiler pass instrumented.

    Nothing is recorded: kernels instrumented by this package are described by their layout.
    """


def destroy_function_metadata(function: int) -> None:
    """The kernel is unloaded: see init_function_metadata."""


def enter_instrumented_op(stream: int, function: int, buffer: int, size: int) -> None:
    """Upstream's hook, before a launch of such a kernel: see init_function_metadata."""


def exit_instrumented_op(stream: int, function: int, buffer: int, size: int) -> None:
    """After the launch."""


proton = sys.modules[__name__]  # `from triton._C.libproton import proton`
