"""Limits the register use of instrumented kernels to the count without records.

ptxas estimates the number of registers that a kernel needs, rounds it up, and then uses all of
them: one more record can add 30 registers. Therefore the original kernel is assembled too. If the
instrumented one is larger, it is assembled again with the original count as the limit, and used if
nothing is spilled to local memory for it.
"""

from __future__ import annotations

import re
import struct
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from ._message import note

# With this many registers, a multiprocessor runs its maximum number of threads.
FREE = 32
# Registers are allocated to a warp in units of this.
STEP = 8
# Additional registers allowed for records that do not fit the original count.
MORE = 6

_STACK, _REGISTERS = 0x11, 0x2F  # of .nv.info: EIATTR_FRAME_SIZE, EIATTR_REGCOUNT


class Needs(NamedTuple):
    """Resource use of machine code: registers per thread, bytes of stack in local memory."""

    registers: int
    stack: int


def needs_of(cubin: bytes) -> Needs:
    """Read from section .nv.info: the maximum register count and the total stack of its functions.

    Raises ValueError if it cannot be parsed.
    """
    try:
        return _read(cubin)
    except (struct.error, IndexError, OverflowError) as error:
        raise ValueError(f"cannot parse the machine code: {error}") from None


def _read(cubin: bytes) -> Needs:
    if cubin[:5] != b"\x7fELF\x02":
        raise ValueError("not a 64-bit ELF file")
    table, size, count, names = struct.unpack_from("<Q10xHHH", cubin, 40)
    sections = [struct.unpack_from("<II16xQQ", cubin, table + i * size) for i in range(count)]
    registers, stack = 0, 0
    for name, _, at, length in sections:
        start = sections[names][2] + name
        if cubin[start : cubin.index(b"\0", start)] != b".nv.info":
            continue
        end = at + length
        while at + 4 <= end:
            form, kind, value = struct.unpack_from("<BBH", cubin, at)
            at += 4
            if form != 4:  # else followed by `value` bytes: a function and a number
                continue
            if kind in (_STACK, _REGISTERS):
                number = struct.unpack_from("<I", cubin, at + 4)[0]
                if kind == _STACK:
                    stack += number
                else:
                    registers = max(registers, number)
            at += value
    if not registers:
        raise ValueError("register count not found")
    return Needs(registers, stack)


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
    made = needs_of(cubin)
    if made.registers <= FREE and not made.stack:
        return cubin
    wanted = needs_of(plain())
    room = (max(wanted.registers, FREE) + STEP - 1) // STEP * STEP
    if made.registers <= room and made.stack <= wanted.stack:
        return cubin
    for limit in (room, wanted.registers + MORE):
        try:
            tried = assemble(limited(ptx, limit))
        except Exception:  # raised by Triton if ptxas cannot meet the limit
            continue
        if needs_of(tried).stack <= wanted.stack:
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
            note(f"cannot limit the registers of an instrumented kernel: {error}", once=True)
            return made
