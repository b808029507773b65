"""The calibration kernel, which measures the record overhead: calibrate_kernel.ptx.

    python tests/python/calibrate_kernel.py     writes src/backend/intra/calibrate_kernel.ptx

Triton and the instrumentation pass make it, so its records are those of any kernel. Needs Triton
and tests/tools/run_pass of the build that PROTON_TEST_BUILD names. Triton compiles for sm_80; the
driver compiles the PTX for the GPU at run time.
"""

import re
import runpy
from pathlib import Path

import triton
import triton.language as tl
from intra_shapes import Case, mark
from intra_support import compile_to_llvm, instrument
from triton import knobs

PTX = Path(__file__).resolve().parents[2] / "src/backend/intra/calibrate_kernel.ptx"
expand = runpy.run_path(str(PTX.with_name("embed_ptx.py")))["expand"]
NAME = "proton_calibrate"
ARCH = "sm_80"
FEW, MANY = 8, 40
RING_BYTES = 512
RECORD_LINES = 7  # of an empty scope and what keeps it apart

# The oldest that supports ARCH: CUDA 11.0.
VERSION = "7.0"


@triton.jit
def keep_apart():
    """Keeps scopes apart: each has two clock reads.

    The pass sees an instruction; the assembler removes it, because its result is unused.
    """
    tl.inline_asm_elementwise("mov.u32 $0, 0;", "=r", [], dtype=tl.int32, is_pure=False, pack=1)


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
        ptx = compiled.stages["ptx"](result.text, {**compiled.metadata, "shared": result.shared})
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
    """The instructions of the records, without register names and the ring buffer's offset."""
    body = ptx[ptx.index("%clock;") : ptx.rindex("st.shared.v2.b32")]
    first = int(re.search(r"st\.shared\.v2\.b32 \[%r\w+\+(\d+)\]", body)[1])

    def place(found: re.Match[str]) -> str:
        return f"[%r+{int(found[1]) - first}]"

    return [
        re.sub(r"%r\w+", "%r", re.sub(r"\[%r\w+\+(\d+)\]", place, line))
        for line in body.splitlines()
    ]


def read_kernel() -> tuple[str, str, int, str]:
    """The committed kernel: PTX, layout, bytes of shared memory, the version of Triton."""
    text = PTX.read_text(encoding="utf-8")
    layout = "".join(f"{line}\n" for line in re.findall(r"^// layout (.*)", text, re.M))
    shared = re.search(r"^// shared (\d+)$", text, re.M)[1]
    version = re.search(r"^// triton (\S+)$", text, re.M)[1]
    return expand(text), layout, int(shared), version


def numbers(block: list[str]) -> list[int]:
    return [int(number) for line in block for number in re.findall(r"\d+", line)]


def repeated(lines: list[str], length: int) -> int:
    """How often the first lines follow each other with numbers that grow by equal steps."""
    blocks = [lines[at : at + length] for at in range(0, len(lines), length)]
    texts = [re.sub(r"\d+", "", "\n".join(block)) for block in blocks]
    steps = [b - a for a, b in zip(numbers(blocks[0]), numbers((blocks + [[]])[1]))]
    times = 1
    while times < len(blocks) and texts[times] == texts[0]:
        grown = [a + times * step for a, step in zip(numbers(blocks[0]), steps)]
        if numbers(blocks[times]) != grown:
            break
        times += 1
    return times


def fold(ptx: str) -> str:
    """With the records of empty scopes as repetitions, which embed_ptx.py expands."""
    lines = ptx.splitlines()
    folded: list[str] = []
    while lines:
        times = repeated(lines, RECORD_LINES)
        if times < FEW:
            folded.append(lines.pop(0))
            continue
        block, second = lines[:RECORD_LINES], lines[RECORD_LINES : 2 * RECORD_LINES]
        steps = iter(zip(numbers(block), numbers(second)))

        def grow(found: re.Match[str]) -> str:
            first, after = next(steps)
            return f"{{{first}+{after - first}}}" if after != first else found[0]

        folded += [f"// repeat {times}", re.sub(r"\d+", grow, "\n".join(block)), "// end"]
        del lines[: times * RECORD_LINES]
    return "".join(f"{line}\n" for line in folded)


def write_kernel() -> None:
    ptx, layout, shared = generate()
    PTX.write_text(
        f"""\
// Calibration kernel for the record overhead, for every GPU from compute capability 8.0 on: empty
// scopes, {FEW} inside one scope and {MANY} inside another, none adjacent to the next.
// Made by Triton and the instrumentation pass; do not edit, run tests/python/calibrate_kernel.py.
// triton {triton.__version__}
// shared {shared}
"""
        + "".join(f"// layout {line}\n" for line in layout.splitlines())
        + fold(ptx),
        encoding="utf-8",
    )


if __name__ == "__main__":
    write_kernel()
