"""Limits the register use of instrumented kernels to the count without records.

ptxas estimates the number of registers that a kernel needs, rounds it up, and then uses all of
them: one more record can add 30 registers. Therefore the original kernel is assembled too. If the
instrumented one is larger, it is assembled again with the original count as the limit, and used if
nothing is spilled to local memory for it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

from ._libproton import cubin_needs
from ._message import warn

# With this many registers, a multiprocessor runs its maximum number of threads.
FREE = 32
# Registers are allocated to a warp in units of this.
STEP = 8
# Additional registers allowed for records that do not fit the original count.
MORE = 6


def limited(ptx: str, registers: int) -> str:
    """The PTX with a register limit; ValueError if it has one or no place for it."""
    if ".maxnreg" in ptx or ".minnctapersm" in ptx:
        raise ValueError("the kernel already sets a register limit")
    made, count = re.subn(r"(?m)^(\.reqntid [^\n]*)$", rf"\1\n.maxnreg {registers}", ptx)
    if count != 1:
        raise ValueError("cannot parse the PTX")
    return made


def fit(
    ptx: str, cubin: bytes, plain: Callable[[], bytes], assemble: Callable[[str], bytes]
) -> bytes:
    """Machine code of `ptx` (`cubin` is one) that needs about as many registers as `plain`.

    Returns `cubin` itself if it does, or if nothing better is found.
    """
    registers, stack = cubin_needs(cubin)
    if registers <= FREE and not stack:
        return cubin
    wanted, wanted_stack = cubin_needs(plain())
    budget = (max(wanted, FREE) + STEP - 1) // STEP * STEP
    if registers <= budget and stack <= wanted_stack:
        return cubin
    for limit in (budget, wanted + MORE):
        try:
            tried = assemble(limited(ptx, limit))
        except Exception:  # raised by Triton if ptxas cannot meet the limit
            continue
        if cubin_needs(tried)[1] <= wanted_stack:
            return tried
    return cubin


# ---------------------------------------------------------------------- in Triton's pipeline

_lock = threading.Lock()


def quietly(stage: Callable[..., bytes], *args: Any) -> bytes:
    """The stage; it prints the whole kernel if ptxas finds the limit too low."""
    names = getattr(stage, "__globals__", {})
    with _lock:
        names["print"] = lambda *args, **kwargs: None
        try:
            return stage(*args)
        finally:
            names.pop("print", None)


class Fitting:
    """One kernel in Triton's stages after LLVM IR; wraps those."""

    def __init__(self, stages: dict[str, Any]) -> None:
        self._plain: tuple[Any, dict[str, Any]] = (None, {})
        self._ptx: Any = None
        self._make_ptx, self._make_cubin = stages["ptx"], stages["cubin"]
        stages["ptx"], stages["cubin"] = self._ptx_stage, self._cubin_stage

    def records_follow(self, text: Any, metadata: dict[str, Any]) -> None:
        """`text` is the kernel's LLVM IR before instrumentation."""
        self._plain = text, dict(metadata)

    def _ptx_stage(self, *args: Any, **named: Any) -> Any:
        self._ptx = self._make_ptx(*args, **named)
        return self._ptx

    def _cubin_stage(self, src: Any, metadata: dict[str, Any], *more: Any, **named: Any) -> Any:
        made = self._make_cubin(src, metadata, *more, **named)
        text, plain_metadata = self._plain
        # An override file may have replaced the known text.
        if text is None or src is not self._ptx:
            return made
        self._plain = None, {}

        def plain() -> bytes:
            return self._make_cubin(self._make_ptx(text, plain_metadata), plain_metadata)

        def assemble(ptx: str) -> bytes:
            return quietly(self._make_cubin, ptx, dict(metadata))

        try:
            return fit(src, made, plain, assemble)
        except Exception as error:
            warn(f"cannot limit the registers of an instrumented kernel: {error}", once=True)
            return made
