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

_SCRATCH = re.compile(r"^\s*\.private_segment_fixed_size:\s*(\d+)", re.M)


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


class Needs(NamedTuple):
    """The needs of machine code per thread, and its CTAs of a multiprocessor at once."""

    registers: int
    stack: int  # bytes of local memory
    ctas: int


def needs_of(arch: str, made: Any, metadata: dict[str, Any]) -> Needs:
    """From a cubin, or from AMD's assembly: local memory only, as LLVM takes registers freely."""
    if isinstance(made, bytes):
        registers, stack = cubin_needs(made)
        return Needs(registers, stack, ctas_of(arch, registers, metadata))
    found = _SCRATCH.search(made)
    if found is None:
        raise ValueError("its assembly does not say how much local memory it needs")
    return Needs(0, int(found[1]), 0)


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

    assembly: Any
    of_assembly: dict[str, Any]
    made: Any
    of_made: dict[str, Any]


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
    """One kernel in Triton's stages after LLVM IR; wraps those that assemble it."""

    def __init__(self, stages: dict[str, Any], arch: str) -> None:
        self._arch, self._kernel = arch, ""
        self._text_of: Optional[Callable[[], tuple[Any, dict[str, Any]]]] = None
        self._plain: Any = None  # machine code without scopes, and its metadata
        self._assembly: Any = None
        self._tried: dict[Any, Tried] = {}  # by LLVM IR
        self._assembly_name = "ptx" if "ptx" in stages else "amdgcn"
        self._make_assembly = stages[self._assembly_name]
        self._make_cubin: Optional[Callable[..., bytes]] = None
        stages[self._assembly_name] = self._assembly_stage
        if "cubin" in stages:
            self._make_cubin, stages["cubin"] = stages["cubin"], self._cubin_stage

    def records_follow(self, plain: Callable[[], tuple[Any, dict[str, Any]]], kernel: str) -> None:
        """`plain` makes the kernel's LLVM IR and metadata without scopes."""
        self._text_of, self._kernel = plain, kernel
        self._plain = None

    def try_out(self, text: str, metadata: dict[str, Any]) -> Optional[Costs]:
        """The costs of the records in `text`; None if it cannot be assembled.

        The stages return the results for this text if they get it later.
        """
        try:
            made = self._assembled(text, metadata, self._fit)
            return self._costs(made, metadata)
        except Exception:  # the stages will fail too
            return None

    def _assembled(self, text: Any, metadata: dict[str, Any], fit: Any = None) -> Any:
        """Machine code of `text`, or on AMD its assembly."""
        after = dict(metadata)
        made = assembly = self._make_assembly(text, after)
        between = dict(after)
        if self._make_cubin is not None:
            made = self._make_cubin(assembly, after)
            made = fit(assembly, made, after) if fit is not None else made
        changes = _changes(metadata, between), _changes(between, after)
        self._tried[text] = Tried(assembly, changes[0], made, changes[1])
        return made

    def _make_plain(self) -> tuple[Any, dict[str, Any]]:
        if self._plain is None:
            assert self._text_of is not None
            text, metadata = self._text_of()
            self._plain = self._assembled(text, metadata), metadata
        return self._plain

    def _fit(self, ptx: str, made: bytes, metadata: dict[str, Any]) -> bytes:
        def assemble(ptx: str) -> bytes:
            assert self._make_cubin is not None
            return quietly(self._make_cubin, ptx, dict(metadata))

        return fit(ptx, made, lambda: self._make_plain()[0], assemble)

    def _assembly_stage(self, *args: Any, **named: Any) -> Any:
        tried = self._tried.get(args[0]) if args and isinstance(args[0], str) else None
        if tried is not None and len(args) == 2:
            args[1].update(tried.of_assembly)
            self._tried = {tried.assembly: tried}
            self._assembly = tried.assembly
        else:
            self._tried = {}
            self._assembly = self._make_assembly(*args, **named)
        if self._make_cubin is None and len(args) > 1:
            self._finish(self._assembly, args[1])
        return self._assembly

    def _cubin_stage(self, src: Any, metadata: dict[str, Any], *more: Any, **named: Any) -> Any:
        tried, self._tried = self._tried, {}
        known = tried.get(src) if src is self._assembly else None
        if known is not None:
            metadata.update(known.of_made)
            made = known.made
        else:
            assert self._make_cubin is not None
            made = self._make_cubin(src, metadata, *more, **named)
        # An override file may have replaced the known text.
        if self._text_of is None or src is not self._assembly:
            return made
        if known is None:
            try:
                made = self._fit(src, made, metadata)
            except Exception as error:
                warn(f"cannot limit the registers of an instrumented kernel: {error}")
        self._finish(made, metadata)
        return made

    def _costs(self, made: Any, metadata: dict[str, Any]) -> Costs:
        after = needs_of(self._arch, made, metadata)
        if after.registers <= FREE and not after.stack:
            return Costs(0, 0, 0)
        plain = needs_of(self._arch, *self._make_plain())
        costs = Costs(
            max(after.stack - plain.stack, 0), max(plain.ctas - after.ctas, 0), plain.ctas
        )
        if self._make_cubin is None:
            return costs
        room = self._room(plain.registers, plain.ctas, metadata)
        return costs._replace(registers=after.registers - plain.registers, room=room)

    def _room(self, registers: int, ctas: int, metadata: dict[str, Any]) -> int:
        """How many more registers cost no CTA."""
        limit = _allocated(registers)
        while limit + STEP <= THREAD_MAX and ctas_of(self._arch, limit + STEP, metadata) >= ctas:
            limit += STEP
        return max(MORE, min(limit - registers, REGISTERS_MAX))

    def _finish(self, made: Any, metadata: dict[str, Any]) -> None:
        """Warn if the records need local memory or reduce the occupancy."""
        try:
            costs = self._costs(made, metadata) if "proton_layout" in metadata else None
            if costs:
                add_warning(metadata, f"its scopes cost {costs}")
                warn(f"{self._kernel}: its scopes cost {costs}; use fewer scopes, or fewer kinds "
                    "in auto=")
        except Exception as error:
            warn(f"cannot compare an instrumented kernel with the plain one: {error}")
        self._text_of = self._plain = None
        self._tried = {}
