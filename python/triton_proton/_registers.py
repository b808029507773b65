"""Limits the register use of instrumented kernels to the count without records.

ptxas estimates the number of registers that a kernel needs, rounds it up, and then uses all of
them: one more record can add 30 registers. Therefore the original kernel is assembled too. If the
instrumented one is larger, or ptxas gave it few registers and much local memory, it is assembled
again with the original count as the limit. The result with the smallest local memory is used.
"""

from __future__ import annotations

import functools
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
# Maximum of a thread; all of a multiprocessor.
THREAD_MAX, ALL = 255, 65536

# Shared memory in KiB per CTA, and per multiprocessor. NVIDIA: CUDA C++ Programming Guide,
# "Technical Specifications per Compute Capability". AMD: the LDS of a CU, from the instruction set
# manuals. Values depend on the architecture alone, like the kernels in Triton's cache. For other
# architectures the passes use the minimum of all devices.
SHARED_KIB = {
    "sm_80": (163, 164),
    "sm_86": (99, 100),
    "sm_87": (163, 164),
    "sm_89": (99, 100),
    "sm_90": (227, 228),
    "sm_100": (227, 228),
    "sm_103": (227, 228),
    "sm_120": (99, 100),
    "sm_121": (99, 100),
    "gfx90a": (64, 64),
    "gfx942": (64, 64),
    "gfx950": (160, 160),
    "gfx1200": (64, 128),
    "gfx1201": (64, 128),
    "gfx1250": (320, 320),
}
# Architectures with 48 warps per multiprocessor instead of 64.
_FEWER_WARPS = {"sm_86", "sm_87", "sm_89", "sm_120", "sm_121"}


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
    budget = _allocated(max(wanted, FREE))
    if registers <= budget and stack <= wanted_stack:
        return cubin
    for limit in dict.fromkeys((min(budget, THREAD_MAX), min(wanted + MORE, THREAD_MAX))):
        try:
            tried = assemble(limited(ptx, limit))
        except Exception:  # raised by Triton if ptxas cannot meet the limit
            continue
        tried_stack = cubin_needs(tried)[1]
        if tried_stack <= wanted_stack:
            return tried
        if tried_stack < stack:
            cubin, stack = tried, tried_stack
    return cubin


def _allocated(registers: int) -> int:
    return (registers + STEP - 1) // STEP * STEP


def ctas_of(arch: str, registers: int, metadata: dict[str, Any]) -> int:
    """The CTAs of a kernel that run on a multiprocessor of this NVIDIA architecture at once."""
    warps = int(metadata.get("num_warps") or 4)
    # Registers are allocated to warps, which four schedulers share.
    of_registers = ALL // (_allocated(registers) * 32) // 4 * 4 // warps
    of_warps = (48 if arch in _FEWER_WARPS else 64) // warps
    counts = [of_registers, of_warps, 32]
    if arch in SHARED_KIB:  # 1 KiB of each CTA is reserved
        counts.append(SHARED_KIB[arch][1] * 1024 // (int(metadata.get("shared") or 0) + 1024))
    return max(1, min(counts))


def add_warning(metadata: dict[str, Any], text: str) -> None:
    """Add a warning to an instrumented kernel, for the profile: the last line of its layout."""
    layout = metadata.get("proton_layout")
    if layout is not None:
        before, separator, warning = layout.partition("\nwarning ")
        text = f"{warning.strip()}; {text}" if separator else text
        metadata["proton_layout"] = f"{before.strip()}\nwarning {text}\n"


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

    def __init__(self, stages: dict[str, Any], arch: str) -> None:
        self._arch, self._kernel = arch, ""
        self._plain: tuple[Any, dict[str, Any]] = (None, {})
        self._ptx: Any = None
        self._make_ptx, self._make_cubin = stages["ptx"], stages["cubin"]
        stages["ptx"], stages["cubin"] = self._ptx_stage, self._cubin_stage

    def records_follow(self, text: Any, metadata: dict[str, Any], kernel: str) -> None:
        """`text` and `metadata` are the kernel's before instrumentation."""
        self._plain, self._kernel = (text, dict(metadata)), kernel

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

        @functools.cache
        def plain() -> bytes:
            return self._make_cubin(self._make_ptx(text, plain_metadata), plain_metadata)

        def assemble(ptx: str) -> bytes:
            return quietly(self._make_cubin, ptx, dict(metadata))

        try:
            made = fit(src, made, plain, assemble)
            registers, stack = cubin_needs(made)
            if registers > FREE or stack:
                self._report(made, metadata, plain(), plain_metadata)
        except Exception as error:
            warn(f"cannot limit the registers of an instrumented kernel: {error}", once=True)
        return made

    def _report(
        self, made: bytes, metadata: dict[str, Any], plain: bytes, plain_metadata: dict[str, Any]
    ) -> None:
        """Warn if the records need local memory or reduce the occupancy."""
        registers, stack = cubin_needs(made)
        plain_registers, plain_stack = cubin_needs(plain)
        before = ctas_of(self._arch, plain_registers, plain_metadata)
        lost = before - ctas_of(self._arch, registers, metadata)
        costs = []
        if stack > plain_stack:
            costs.append(f"{stack - plain_stack} bytes of local memory per thread")
        if lost > 0:
            costs.append(f"{lost} of {before} CTAs per multiprocessor")
        if costs:
            cost = " and ".join(costs)
            add_warning(metadata, f"its scopes cost {cost}")
            warn(f"{self._kernel}: its scopes cost {cost}; use fewer scopes, or fewer kinds in "
                "auto=", once=True)
