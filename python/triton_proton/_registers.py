"""Limits the register use of instrumented kernels to the count without records.

ptxas estimates the number of registers that a kernel needs, rounds it up, and then uses all of
them: one more record can add 30 registers. Therefore the original kernel is assembled too. If the
instrumented one is larger, or ptxas gave it few registers and much local memory, it is assembled
again with the original count as the limit. The result with the smallest local memory is used.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, Optional

from ._libproton import cubin_needs
from ._message import warn

# With this many registers, a multiprocessor runs its maximum number of threads.
FREE = 32
# Registers are allocated to a warp in units of this.
STEP = 8
# Additional registers allowed for records that do not fit the original count.
MORE = 6
# Additional registers allowed for automatic scopes with a budget.
REGISTERS_MAX = 32
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
        metadata["proton_layout"] = with_warning(layout, text)


def with_warning(layout: str, text: str) -> str:
    before, separator, warning = layout.partition("\nwarning ")
    text = f"{warning.strip()}; {text}" if separator else text
    return f"{before.strip()}\nwarning {text}\n"


class Costs(NamedTuple):
    """How much worse machine code is with records than without."""

    stack: int  # bytes of local memory per thread
    lost: int  # CTAs per multiprocessor
    ctas: int  # without records
    registers: int = 0  # per thread
    room: int = MORE  # registers that cost nothing

    def __str__(self) -> str:
        costs = []
        if not self and self.is_too_much():
            costs.append(f"{self.registers} more registers per thread")
        if self.stack:
            costs.append(f"{self.stack} bytes of local memory per thread")
        if self.lost:
            costs.append(f"{self.lost} of {self.ctas} CTAs per multiprocessor")
        return " and ".join(costs)

    def __bool__(self) -> bool:
        return bool(self.stack or self.lost)

    def is_too_much(self) -> bool:
        """True if a kernel with a budget should have fewer scopes."""
        return bool(self) or self.registers > REGISTERS_MAX

    def is_less_than(self, other: Costs) -> bool:
        mine, others = (self.stack, self.lost), (other.stack, other.lost)
        return mine != others and mine[0] <= others[0] and mine[1] <= others[1]

    def less(self) -> int:
        """The percentage of these registers that must be saved to cost nothing."""
        more = self.registers + self.stack // 4
        return min(100, 100 - 100 * self.room // more) if more > self.room else 50

    def is_half_of(self, other: Costs) -> bool:
        above = max(self.registers - REGISTERS_MAX, 0)
        other_above = max(other.registers - REGISTERS_MAX, 0)
        return (
            2 * self.stack <= other.stack
            and 2 * self.lost <= other.lost
            and 2 * above <= other_above
        )


class Tried(NamedTuple):
    """The results of the stages for a text, and what each changed in the metadata."""

    ptx: Any
    of_ptx: dict[str, Any]
    cubin: bytes
    of_cubin: dict[str, Any]


def _changes(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {key: after[key] for key in after if key not in before or before[key] != after[key]}


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
        self._plain_cubin: Optional[bytes] = None
        self._ptx: Any = None
        self._tried: dict[Any, Tried] = {}  # by LLVM IR
        self._make_ptx, self._make_cubin = stages["ptx"], stages["cubin"]
        stages["ptx"], stages["cubin"] = self._ptx_stage, self._cubin_stage

    def records_follow(self, text: Any, metadata: dict[str, Any], kernel: str) -> None:
        """`text` and `metadata` are the kernel's before instrumentation."""
        self._plain, self._kernel = (text, dict(metadata)), kernel
        self._plain_cubin = None

    def try_out(self, text: str, metadata: dict[str, Any]) -> Optional[Costs]:
        """The costs of the records in `text`; None if it cannot be assembled.

        The stages return the results for this text if they get it later.
        """
        after = dict(metadata)
        try:
            ptx = self._make_ptx(text, after)
            between = dict(after)
            made = self._fit(ptx, self._make_cubin(ptx, after), after)
            costs = self._costs(made, metadata)
        except Exception:  # the stages will fail too
            return None
        changes = _changes(metadata, between), _changes(between, after)
        self._tried[text] = Tried(ptx, changes[0], made, changes[1])
        return costs

    def _make_plain(self) -> bytes:
        if self._plain_cubin is None:
            text, metadata = self._plain
            metadata = dict(metadata)
            self._plain_cubin = self._make_cubin(self._make_ptx(text, metadata), metadata)
        return self._plain_cubin

    def _fit(self, ptx: str, made: bytes, metadata: dict[str, Any]) -> bytes:
        def assemble(ptx: str) -> bytes:
            return quietly(self._make_cubin, ptx, dict(metadata))

        return fit(ptx, made, self._make_plain, assemble)

    def _ptx_stage(self, *args: Any, **named: Any) -> Any:
        tried = self._tried.get(args[0]) if args and isinstance(args[0], str) else None
        if tried is not None and len(args) == 2:
            args[1].update(tried.of_ptx)
            self._tried = {tried.ptx: tried}
            self._ptx = tried.ptx
            return tried.ptx
        self._tried = {}
        self._ptx = self._make_ptx(*args, **named)
        return self._ptx

    def _cubin_stage(self, src: Any, metadata: dict[str, Any], *more: Any, **named: Any) -> Any:
        tried, self._tried = self._tried, {}
        known = tried.get(src) if src is self._ptx else None
        if known is not None:
            metadata.update(known.of_cubin)
            made = known.cubin
        else:
            made = self._make_cubin(src, metadata, *more, **named)
        # An override file may have replaced the known text.
        if self._plain[0] is None or src is not self._ptx:
            return made
        try:
            if known is None:
                made = self._fit(src, made, metadata)
            self._report(made, metadata)
        except Exception as error:
            warn(f"cannot limit the registers of an instrumented kernel: {error}", once=True)
        self._plain, self._plain_cubin = (None, {}), None
        return made

    def _costs(self, made: bytes, metadata: dict[str, Any]) -> Costs:
        registers, stack = cubin_needs(made)
        if registers <= FREE and not stack:
            return Costs(0, 0, 0)
        plain_registers, plain_stack = cubin_needs(self._make_plain())
        before = ctas_of(self._arch, plain_registers, self._plain[1])
        lost = before - ctas_of(self._arch, registers, metadata)
        return Costs(
            max(stack - plain_stack, 0), max(lost, 0), before, registers - plain_registers,
            self._room(plain_registers, before, metadata),
        )

    def _room(self, registers: int, ctas: int, metadata: dict[str, Any]) -> int:
        """How many more registers cost no CTA."""
        limit = _allocated(registers)
        while limit + STEP <= THREAD_MAX and ctas_of(self._arch, limit + STEP, metadata) >= ctas:
            limit += STEP
        return max(MORE, min(limit - registers, REGISTERS_MAX))

    def _report(self, made: bytes, metadata: dict[str, Any]) -> None:
        """Warn if the records need local memory or reduce the occupancy."""
        costs = self._costs(made, metadata)
        if costs:
            add_warning(metadata, f"its scopes cost {costs}")
            warn(f"{self._kernel}: its scopes cost {costs}; use fewer scopes, or fewer kinds in "
                "auto=", once=True)
