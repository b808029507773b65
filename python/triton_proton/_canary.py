"""A small kernel with a scope that checks the whole chain, from its source to the cached metadata.

A later Triton may change what the passes rely on. If this kernel does not get its records, the
kernels of the program are compiled unchanged. The result is in Triton's cache like any kernel.
"""

from __future__ import annotations

import importlib
from typing import Any, Optional

from . import language as pl
from ._message import warn

_SCOPE = "canary"

# _instrument.py runs this file once for each Triton, and sets the name of its package before.
package: str = globals().get("package", "triton")
triton = importlib.import_module(package)
tl = importlib.import_module(f"{package}.language")
GPUTarget = importlib.import_module(f"{package}.backends.compiler").GPUTarget
ASTSource = importlib.import_module(f"{package}.compiler").ASTSource


@triton.jit
def proton_canary(x):
    at = x + tl.arange(0, 32)
    with pl.scope("canary"):
        tl.store(at, tl.load(at) + 1)


def failure(target: Any, notes: list[str], has_autos: bool = False) -> Optional[str]:
    """Why kernels for `target` cannot be instrumented with this Triton; None if they can.

    `notes` is where the passes report problems with the kernel. With `has_autos` a warning says if
    it has no automatic scopes.
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
    if has_autos and not all(f"\nscope {kind}@" in layout for kind in ("load", "store")):
        warn("automatic scopes are missing in kernels: this Triton has other names for loads and "
            "stores; report it, with Triton's version")
    return None
