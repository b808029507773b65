"""Line tables of src/symbol for AMD code objects, compared with LLVM's own answers."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from nvidia_tools import code_object_tool
from support import run_command

triton = pytest.importorskip("triton")

from test_line_table import KERNELS  # noqa: E402
from triton._C import libtriton  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

ARCHS = ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"]
CALLS = "2"
Chain = tuple[tuple[str, int], ...]

C_KERNEL = """
typedef float f;
#define INLINE static inline __attribute__((always_inline))
INLINE f leaf(f x) { return x * x + __builtin_sqrtf(x); }
INLINE f middle(f x, int n) {
  f s = 0;
  for (int i = 0; i < n; i++)
    s += leaf(x + i);
  return s + leaf(x * 3);
}
__attribute__((noinline)) f apart(f x) { return middle(x, 7); }
void kernel_in_c(__attribute__((address_space(1))) f *p, int n) {
  p[0] = middle(p[1], n);
  p[2] = apart(p[3]) + leaf(p[4]);
}
"""


def compile_kernel(kernel, arch: str):
    signature = {"a": "*fp32", "b": "*fp32", "c": "*fp32", "n": "i32", "B": "constexpr"}
    source = ASTSource(fn=kernel, signature=signature, constexprs={"B": 256})
    lanes = 64 if arch.startswith("gfx9") else 32
    return triton.compile(source, target=GPUTarget("hip", arch, lanes)).asm


def runs(path: Path) -> dict[str, list[tuple[int, int, str, Chain]]]:
    """For each function the runs of its instructions: begin, end, what is known, the lines."""
    found: dict[str, list[tuple[int, int, str, Chain]]] = {}
    for kind, name, *rest in code_object_tool(path):
        if kind == "run":
            begin, end, info, _, *frames = rest
            lines = tuple((f, int(n)) for f, n, *_ in (frame.rsplit(":", 3) for frame in frames))
            found.setdefault(name, []).append((int(begin), int(end), info, lines))
    return found


def in_assembly(text: str) -> dict[str, list[Chain]]:
    """The lines of each function's instructions in order, from the comments of their .loc."""
    found: dict[str, list[Chain]] = {}
    chains: list[Chain] = []
    functions = set(re.findall(r"^\s+\.type\s+(\S+),@function", text, re.M))
    chain: Chain = ()
    for line in text.splitlines():
        code = line.split(";")[0].strip()
        if label := re.match(r"(\S+):$", code):
            if label[1] in functions:
                chains, chain = found.setdefault(label[1], []), ()
        elif ".loc" in line:
            chain = tuple((f, int(n)) for f, n in re.findall(r"([^\s:]*):(\d+)(?::\d+)?", line))
        elif code and not code.startswith((".", "#")) and (not chains or chains[-1] != chain):
            chains.append(chain)
    return found


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_lines_are_those_of_the_assembly(tmp_path, kernel, arch):
    asm = compile_kernel(kernel, arch)
    path = tmp_path / "k.hsaco"
    path.write_bytes(asm["hsaco"])
    expected = in_assembly(asm["amdgcn"])
    for name, rows in runs(path).items():
        mine: list[Chain] = []
        for _, _, info, lines in rows:
            assert info == CALLS
            chain = tuple((Path(file).name, number) for file, number in lines)
            if not mine or mine[-1] != chain:
                mine.append(chain)
        # A line without a file is that of the unit's file.
        theirs = [tuple((f or "test_line_table.py", n) for f, n in c) for c in expected[name]]
        assert mine[: len(theirs)] == theirs, name
    depth = max(len(chain) for chain in expected[kernel.__name__])
    assert depth == {"sums": 5, "matmul": 1, "calls": 1}[kernel.__name__]
    assert set(runs(path)) == set(expected) and kernel.__name__ in expected


def check_with_llvm(path: Path) -> int:
    """Compares each instruction with llvm-addr2line; returns the depth of the deepest one."""
    symbolizer = shutil.which("llvm-addr2line")
    if symbolizer is None:
        pytest.skip("no llvm-addr2line")
    symbols = run_command(["readelf", "-sW", path])
    starts = {
        found[2]: int(found[1], 16)
        for found in re.finditer(r"^\s+\d+: ([0-9a-f]+)\s.* FUNC .* (\S+)$", symbols.stdout, re.M)
    }
    expected: list[tuple[int, Chain]] = []
    for name, rows in runs(path).items():
        for begin, end, _, lines in rows:
            expected += [(starts[name] + pc, lines) for pc in range(begin, end, 4)]
    done = run_command(
        [symbolizer, "-a", "-i", "-e", path, *(hex(address) for address, _ in expected)]
    )
    blocks = re.split(r"^0x[0-9a-f]+\n", done.stdout, flags=re.M)[1:]
    assert len(blocks) == len(expected) > 20
    for block, (address, lines) in zip(blocks, expected):
        theirs = [line.rsplit(":", 1) for line in block.split("\n") if line]
        chain = tuple((file, int(n) if n.isdigit() else 0) for file, n in theirs)
        assert lines == chain, hex(address)
    return max(len(lines) for _, lines in expected)


@pytest.mark.parametrize("arch", ["gfx90a", "gfx1201"])
def test_lines_are_those_of_llvm(tmp_path, arch):
    path = tmp_path / "k.hsaco"
    path.write_bytes(compile_kernel(KERNELS[0], arch)["hsaco"])
    assert check_with_llvm(path) == 5


@pytest.mark.parametrize("option", ["-g", "-gline-tables-only"])
def test_names_and_ranges_of_dwarf_5_are_read(tmp_path, option):
    """Clang's DWARF 5 has indexes of strings, addresses and lists of ranges."""
    compiler = shutil.which("clang")
    if compiler is None:
        pytest.skip("no clang")
    source, relocatable, path = (tmp_path / name for name in ("k.c", "k.o", "k.hsaco"))
    source.write_text(C_KERNEL)
    target = ["-target", "amdgcn-amd-amdhsa", "-mcpu=gfx90a", "-nogpulib", "-O2"]
    done = subprocess.run(
        [compiler, *target, option, "-gdwarf-5", "-c", source, "-o", relocatable],
        capture_output=True, timeout=300,
    )
    if done.returncode:
        pytest.skip("this clang has no AMD target")
    libtriton.amd.link_hsaco(str(relocatable), str(path))
    assert check_with_llvm(path) == 3
    functions = {
        frame.rsplit(":", 1)[1]
        for kind, name, *rest in code_object_tool(path)
        if kind == "run"
        for frame in rest[4:]
    }
    assert functions == {"", "leaf", "middle"}
