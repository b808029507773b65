"""Keeps what records cost in registers small: ptxas is told how many the kernel has without them.

ptxas chooses how many registers a kernel gets by what it guesses that it needs, in steps, and then
uses what it has given itself: a record more can make it 30 registers more. So the kernel is also
assembled as it was, and where records made it larger than that, they are assembled once more with
its number as the limit, if nothing is put into local memory for it.
"""

from __future__ import annotations

import re
import struct
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from ._note import note

# With so many registers as many threads run on a multiprocessor as it can have.
FREE = 32
# Registers are given to a warp in steps of this.
STEP = 8
# That records may cost where they do not fit into what the kernel had.
MORE = 6

_STACK, _REGISTERS = 0x11, 0x2F  # of .nv.info: EIATTR_FRAME_SIZE, EIATTR_REGCOUNT


class Needs(NamedTuple):
    """What machine code needs: registers of a thread, bytes of local memory in its stack."""

    registers: int
    stack: int


def needs_of(cubin: bytes) -> Needs:
    """Read from its section .nv.info: the most registers and all stack of the functions in it.

    ValueError for what is not understood.
    """
    try:
        return _read(cubin)
    except (struct.error, IndexError, OverflowError) as error:
        raise ValueError(f"not understood as machine code: {error}") from None


def _read(cubin: bytes) -> Needs:
    if cubin[:5] != b"\x7fELF\x02":
        raise ValueError("no ELF file of 64 bits")
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
            if form != 4:  # else `value` bytes follow: a function and a number
                continue
            if kind in (_STACK, _REGISTERS):
                number = struct.unpack_from("<I", cubin, at + 4)[0]
                if kind == _STACK:
                    stack += number
                else:
                    registers = max(registers, number)
            at += value
    if not registers:
        raise ValueError("no count of registers")
    return Needs(registers, stack)


def limited(ptx: str, registers: int) -> str:
    """The same with a limit of registers; ValueError if there is one or no place for it."""
    if ".maxnreg" in ptx or ".minnctapersm" in ptx:
        raise ValueError("the kernel has a limit of its own")
    made, count = re.subn(r"(?m)^(\.reqntid [^\n]*)$", rf"\1\n.maxnreg {registers}", ptx)
    if count != 1:
        raise ValueError("not understood as PTX")
    return made


def fit(
    ptx: str, cubin: bytes, plain: Callable[[], bytes], assemble: Callable[[str], bytes]
) -> bytes:
    """Machine code of `ptx`, of which `cubin` is one, that needs about as much as `plain`'s.

    `cubin` itself where it does, or where nothing better is found.
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
        except Exception:  # Triton's, if ptxas cannot do with so few
            continue
        if needs_of(tried).stack <= wanted.stack:
            return tried
    return cubin


# ---------------------------------------------------------------------- in Triton's pipeline

_lock = threading.Lock()


def quietly(stage: Callable[..., bytes], *args: Any) -> bytes:
    """The stage, which prints the whole kernel where ptxas finds the limit too low."""
    names = getattr(stage, "__globals__", {})
    with _lock:
        names["print"] = lambda *args, **kwargs: None
        try:
            return stage(*args)
        finally:
            names.pop("print", None)


class Fitting:
    """One kernel on its way through Triton's stages behind LLVM IR; wraps those."""

    def __init__(self, stages: dict[str, Any]) -> None:
        self._plain: tuple[Any, dict[str, Any]] = (None, {})
        self._ptx: Any = None
        self._make_ptx, self._make_cubin = stages["ptx"], stages["cubin"]
        stages["ptx"], stages["cubin"] = self._ptx_stage, self._cubin_stage

    def records_follow(self, text: Any, metadata: dict[str, Any]) -> None:
        """`text` is the kernel's LLVM IR before records are put into it."""
        self._plain = text, dict(metadata)

    def _ptx_stage(self, src: Any, metadata: dict[str, Any]) -> Any:
        self._ptx = self._make_ptx(src, metadata)
        return self._ptx

    def _cubin_stage(self, src: Any, metadata: dict[str, Any]) -> Any:
        made = self._make_cubin(src, metadata)
        text, plain_metadata = self._plain
        # A file may have taken the place of what we know.
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
            note(f"a kernel may use more registers than without records: {error}", once=True)
            return made
