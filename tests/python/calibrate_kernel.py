"""The kernel that measures what a record costs: src/backend/intra/calibrate_kernel.h.

    python tests/python/calibrate_kernel.py     writes the file anew

It is made by Triton and our pass, so that its records are those of any kernel. Needs Triton and
tests/tools/instrument of the build that PROTON_BUILD names. Triton's compiler is asked for sm_80;
the driver compiles the text for the GPU that there is.
"""

from __future__ import annotations

import re
from pathlib import Path

import triton
import triton.language as tl
from intra_shapes import Case, mark
from intra_support import compile_to_llvm, instrument
from triton import knobs

HEADER = (
    Path(__file__).resolve().parents[2] / "src" / "backend" / "intra" / "calibrate_kernel.h"
)
NAME = "proton_calibrate"
ARCH = "sm_80"
FEW, MANY = 8, 40
RING_BYTES = 512

# The oldest that knows ARCH: CUDA 11.0.
VERSION = "7.0"


@triton.jit
def keep_apart():
    """Scopes with this between them do not touch: each has two readings of the clock.

    The pass sees an instruction; the assembler finds that nobody needs its result.
    """
    tl.inline_asm_elementwise(
        "mov.u32 $0, 0;", "=r", [], dtype=tl.int32, is_pure=False, pack=1
    )


@triton.jit
def proton_calibrate(FEW: tl.constexpr, MANY: tl.constexpr):
    mark("// proton.record start few")
    keep_apart()
    for _ in tl.static_range(FEW):
        mark("// proton.record start empty")
        mark("// proton.record end empty")
        keep_apart()
    mark("// proton.record end few")
    keep_apart()
    mark("// proton.record start many")
    keep_apart()
    for _ in tl.static_range(MANY):
        mark("// proton.record start empty")
        mark("// proton.record end empty")
        keep_apart()
    mark("// proton.record end many")


def generate() -> tuple[str, str, int]:
    """The kernel as PTX, the layout of its records, its bytes of shared memory."""
    constants = {"FEW": FEW, "MANY": MANY}
    signature = {name: "constexpr" for name in constants}
    case = Case(NAME, proton_calibrate, signature, constants, {"num_warps": 1})
    with knobs.compilation.scope():
        knobs.compilation.disable_line_info = True
        compiled = compile_to_llvm(case, ARCH)
        result = instrument(compiled, bytes=RING_BYTES)
        assert result.buffer == "shared" and result.records == FEW + MANY + 2
        ptx = compiled.stages["ptx"](
            result.text, {**compiled.metadata, "shared": result.shared}
        )
    layout = "".join(
        f"{key} {value}\n"
        for key, values in result.layout.items()
        for value in values
        if not key.startswith("#")
    )
    return tidy(ptx), layout, result.shared


def tidy(ptx: str) -> str:
    """Without comments and empty lines, and for the oldest driver that can compile it."""
    ptx = re.sub(r"^\.version .*", f".version {VERSION}", ptx, flags=re.M)
    ptx = re.sub(r"//.*", "", ptx).replace("; ", ";\n")
    lines = [re.sub(r"\s+", " ", line).strip() for line in ptx.splitlines()]
    return "".join(f"{line}\n" for line in lines if line)


def pattern(ptx: str) -> list[str]:
    """What the kernel executes for its records, but for names of registers and the ring's place."""
    body = ptx[ptx.index("%clock;") : ptx.rindex("st.shared.v2.b32")]
    first = int(re.search(r"st\.shared\.v2\.b32 \[%r\w+\+(\d+)\]", body)[1])

    def place(found: re.Match[str]) -> str:
        return f"[%r+{int(found[1]) - first}]"

    return [
        re.sub(r"%r\w+", "%r", re.sub(r"\[%r\w+\+(\d+)\]", place, line))
        for line in body.splitlines()
    ]


def read_header() -> dict[str, str]:
    """The constants of the committed file by name, their escapes resolved."""
    text = HEADER.read_text(encoding="utf-8")
    found = {}
    for name, value in re.findall(r"^static const char (\w+)\[\] =\n((?:\t\".*\n)+)", text, re.M):
        lines = re.findall(r"^\t\"(.*)\";?$", value, re.M)
        found[name] = "".join(lines).replace("\\n", "\n")
    found["triton"] = re.search(r"by Triton (\S+) ", text)[1]
    found.update(re.findall(r"^#define CALIBRATE_(\w+) (?:\"?)(\w+?)u?(?:\"?)$", text, re.M))
    return found


def literal(text: str) -> str:
    return "\n".join(f'\t"{line}\\n"' for line in text.splitlines()) + ";"


def write_header() -> None:
    ptx, layout, shared = generate()
    HEADER.write_text(
        f"""\
/*
 * The kernel that measures what a record costs, as PTX for every GPU from compute capability 8.0
 * on, and the layout of its records. Scopes with nothing in them, {FEW} in one and {MANY} in
 * another, none touching the next. Made by Triton {triton.__version__} and the pass, which
 * tests/python/calibrate_kernel.py asks for it; test_calibrate_kernel.py sees to it that these are
 * the records of any kernel. Not to be edited.
 */
#ifndef BACKEND_INTRA_CALIBRATE_KERNEL_H
#define BACKEND_INTRA_CALIBRATE_KERNEL_H

#define CALIBRATE_NAME "{NAME}"
#define CALIBRATE_FEW {FEW}u
#define CALIBRATE_MANY {MANY}u
#define CALIBRATE_SHARED_BYTES {shared}u

/* clang-format off */
static const char calibrate_layout[] =
{literal(layout)}

static const char calibrate_kernel[] =
{literal(ptx)}
/* clang-format on */

#endif
""",
        encoding="utf-8",
    )


if __name__ == "__main__":
    write_header()
