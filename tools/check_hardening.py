#!/usr/bin/env python3
"""Check that programs and libraries are hardened.

Each file must be position independent, with all relocations read-only after start (RELRO, BIND_NOW)
and no segment both writable and executable, the stack included. It must call the stack protector
and checked functions of libc (_FORTIFY_SOURCE), and mark the targets of indirect jumps for the
processor (x86-64: endbr64; aarch64: paciasp or bti).
Usage: check_hardening.py FILE...
"""

import re
import subprocess
import sys
from pathlib import Path

# Files of the C runtime contain a few such instructions whatever our flags are.
MIN_MARKERS = 20
# Smaller code has too few to be told from those.
MIN_TEXT_BYTES = 8192
MARKERS = {
    "X86-64": [b"\xf3\x0f\x1e\xfa"],
    "AArch64": [b"\x3f\x23\x03\xd5", b"\x5f\x24\x03\xd5"],
}


def readelf(file, *options):
    """readelf's answer."""
    command = ["readelf", "-W", *options, str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def jump_markers(file, machine):
    """How many instructions in .text mark a target of indirect jumps; None: not known here."""
    patterns = next((MARKERS[name] for name in MARKERS if name in machine), None)
    text = re.search(r"\s\.text\s+PROGBITS\s+\w+\s+(\w+)\s+(\w+)", readelf(file, "-S"))
    if patterns is None or text is None:
        return None
    start, size = (int(number, 16) for number in text.groups())
    if size < MIN_TEXT_BYTES:
        return None
    code = file.read_bytes()[start : start + size]
    return sum(code.count(pattern) for pattern in patterns)


def check(file):
    """All problems of a file, as lines to print."""
    header = readelf(file, "-h")
    if "Type:" not in header or "DYN (" not in header:
        yield "is not position independent (-fPIE, -pie)"
    segments = readelf(file, "-l")
    if "GNU_RELRO" not in segments:
        yield "has no GNU_RELRO segment (-Wl,-z,relro)"
    if "GNU_STACK" not in segments:
        yield "does not say that its stack is not executable (-Wl,-z,noexecstack)"
    for kind, flags in re.findall(r"^  (\w+)(?: +0x\w+){5} ([RWE ]{3})", segments, re.M):
        if "W" in flags and "E" in flags:
            yield f"has a {kind} segment that is writable and executable"
    if not re.search(r"BIND_NOW|\bNOW\b", readelf(file, "-d")):
        yield "binds functions lazily (-Wl,-z,now)"
    symbols = readelf(file, "--dyn-syms")
    if not re.search(r"\b__stack_chk_(fail|guard)\b", symbols):
        yield "has no stack protector (-fstack-protector-strong)"
    if not re.search(r"\b__\w+_chk\b", symbols):
        yield "calls no checked function of libc (_FORTIFY_SOURCE)"
    markers = jump_markers(file, header)
    if markers is not None and markers < MIN_MARKERS:
        yield f"has {markers} marked jump targets (-fcf-protection, -mbranch-protection)"


def main():
    """Print the problems; the exit status is their presence."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    problems = [f"{name} {text}" for name in sys.argv[1:] for text in check(Path(name))]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
