"""A small kernel with a scope that checks the whole chain, from its source to the cached metadata.

A later Triton may change what the passes rely on. If this kernel does not get its records, the
kernels of the program are compiled unchanged. The result is in Triton's cache like any kernel.
"""

from __future__ import annotations

from typing import Any, Optional

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from . import language as pl

_SCOPE = "canary"


@triton.jit
def proton_canary(x):
    with pl.scope("canary"):
        tl.store(x, tl.load(x) + 1)


def failure(target: Any, notes: list[str]) -> Optional[str]:
    """Why kernels for `target` cannot be instrumented with this Triton; None if they can.

    `notes` is where the passes report problems with the kernel.
    """
    if not isinstance(target, GPUTarget):
        return None  # another compiler's backend
    try:
        made = triton.compile(ASTSource(proton_canary, {"x": "*i32"}, {}), target=target)
    except Exception as error:
        return f"a kernel with a scope cannot be compiled: {error!r}"
    metadata = made.metadata
    layout = getattr(metadata, "proton_layout", None) or ""
    if f"\nscope {_SCOPE}\n" not in layout:
        return notes[0] if notes else "the compiler removes scopes"
    if not getattr(metadata, "profile_scratch_size", 0):
        return "they get no buffer for records"
    for stage in ("llir", "ptx", "amdgcn"):
        if "// proton." in str(made.asm.get(stage, "")):
            return f"scopes are still in the stage {stage}"
    return None
