"""Line tables of src/symbol for Triton kernels: each instruction compared with nvdisasm."""

import re
import sys
from pathlib import Path

import pytest
from nvidia_tools import assemble, code_object_tool, run
from support import run_command

triton = pytest.importorskip("triton")

import triton.language as tl  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

ARCHS = ["sm_80", "sm_90", "sm_100"]
INNERMOST, CALLS = "1", "2"
Chain = tuple[tuple[str, int], ...]


@triton.jit
def leaf(x, y):
    return tl.exp(x) * y + tl.sum(x, 0)


@triton.jit
def middle(x, y):
    first = leaf(x, y)
    second = leaf(y, x)
    return first - second


@triton.jit(noinline=True)
def apart(p, x):
    tl.store(p, tl.sin(x) + 1)


@triton.jit
def sums(a, b, c, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(a + o, mask=o < n)
    y = tl.load(b + o, mask=o < n)
    total = middle(x, y)
    for _ in range(0, n):
        total += middle(total, y)
    tl.store(c + o, total, mask=o < n)


@triton.jit
def matmul(a, b, c, n, B: tl.constexpr):
    m = tl.program_id(0) * 64 + tl.arange(0, 64)
    k = tl.arange(0, 32)
    total = tl.zeros((64, 64), tl.float32)
    for start in range(0, n, 32):
        x = tl.load(a + m[:, None] * n + (k + start)[None, :]).to(tl.float16)
        y = tl.load(b + (k + start)[:, None] * 64 + m[None, :]).to(tl.float16)
        total = tl.dot(x, y, total)
    tl.store(c + m[:, None] * 64 + m[None, :], total)


@triton.jit
def calls(a, b, c, n, B: tl.constexpr):
    x = tl.load(a + tl.program_id(0))
    for i in range(0, n):
        apart(c + i, x)
        apart(b + i, x * 2)


KERNELS = [sums, matmul, calls]


def compile_kernel(kernel, arch: str):
    signature = {"a": "*fp32", "b": "*fp32", "c": "*fp32", "n": "i32", "B": "constexpr"}
    source = ASTSource(fn=kernel, signature=signature, constexprs={"B": 256})
    return triton.compile(source, target=GPUTarget("cuda", int(arch[3:]), 32)).asm


def annotated(path: Path, option: str) -> dict[str, dict[int, Chain]]:
    """nvdisasm's source lines of each instruction, innermost first, by section and offset.

    It prints nothing if the innermost line is that of the instruction before: then only that is
    returned, because the calls may be others.
    """
    sections: dict[str, dict[int, Chain]] = {}
    block: list[tuple[str, int]] = []
    chain: Chain = ()
    for line in run("nvdisasm", option, "-c", path).splitlines():
        if found := re.match(r"\s*\.section\s+\.text\.([^,]+),", line):
            section = sections.setdefault(found[1], {})
            chain = ()
        elif found := re.match(r'\s*//## File "([^"]*)", line (\d+)', line):
            block.append((found[1], int(found[2])))
        elif found := re.match(r"\s+/\*([0-9a-f]{4,})\*/ ", line):
            section[int(found[1], 16)] = chain = tuple(block) or chain[:1]
            block = []
    return sections


def check(found: dict[str, dict[int, Chain]], expected: dict[str, dict[int, Chain]]) -> None:
    for name, lines in expected.items():
        assert list(found[name]) == list(lines)
        for pc, chain in lines.items():
            mine = found[name][pc]
            assert mine == chain or (len(chain) == 1 and mine[:1] == chain), (name, hex(pc))
    assert set(found) == set(expected)


def chains(*paths: Path) -> tuple[dict[str, dict[int, Chain]], dict[str, dict[int, str]]]:
    """The same from the line table, and how much it knows about each instruction."""
    found: dict[str, dict[int, Chain]] = {}
    known: dict[str, dict[int, str]] = {}
    for kind, name, *rest in code_object_tool(*paths):
        if kind != "run" or name.startswith("$"):
            continue
        begin, end, info, _, *frames = rest
        lines = tuple((f, int(n)) for f, n, *_ in (frame.rsplit(":", 3) for frame in frames))
        for pc in range(int(begin), int(end), 16):
            found.setdefault(name, {})[pc] = lines
            known.setdefault(name, {})[pc] = info
    return found, known


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_lines_are_those_of_nvdisasm(tmp_path, kernel, arch):
    path = tmp_path / "k.cubin"
    path.write_bytes(compile_kernel(kernel, arch)["cubin"])
    found, known = chains(path)
    check(found, annotated(path, "-gi"))
    depths = {len(chain) for chain in found[kernel.__name__].values()}
    assert max(depths) == {"sums": 5, "matmul": 1, "calls": 1}[kernel.__name__]
    assert set(known[kernel.__name__].values()) == {CALLS if max(depths) > 1 else INNERMOST}


def as_old_triton(ptx: str) -> str:
    """PTX as Triton 3.6 writes it: inlined calls are in comments, not in attributes."""
    names = {n: Path(p).name for n, p in re.findall(r'^\s*\.file\s+(\d+) "([^"]+)"', ptx, re.M)}
    comments: dict[tuple[str, ...], str] = {}

    def rewrite(found: re.Match[str]) -> str:
        place, call = found[1].split()[:3], found[2]
        where = f"{names[place[0]]}:{place[1]}:{place[2]}"
        if call:
            where += f" @[ {comments[tuple(call.split()[-3:])]} ]"
        comments[tuple(place)] = where
        return f".loc {found[1]} // {where}"

    call = r"(, function_name \S+ inlined_at \d+ \d+ \d+)?"
    return re.sub(rf"\.loc\s+(\d+ \d+ \d+){call}.*", rewrite, ptx)


def locations(ptx: str) -> list[Chain]:
    """For each line of PTX, and line 0, the file names and lines of the .loc before it."""
    found: list[Chain] = [()]
    for line in ptx.splitlines():
        chain = found[-1]
        if ".loc" in line:
            chain = tuple((f, int(n)) for f, n in re.findall(r"(\S+):(\d+):\d+", line))
        found.append(chain)
    return found


@pytest.mark.parametrize("arch", ARCHS)
def test_calls_of_old_cubins_come_from_the_ptx(tmp_path, arch):
    asm = compile_kernel(sums, arch)
    new, old = tmp_path / "new.cubin", tmp_path / "old.cubin"
    new.write_bytes(asm["cubin"])
    text = re.sub(r"\.version \S+", ".version 8.6", as_old_triton(asm["ptx"]))
    assert "inlined_at" not in text and text.count(" @[ ") > 50
    assemble(text, re.search(r"\.target (\w+)", text)[1], old)
    found, known = chains(old)
    check(found, annotated(old, "-g"))
    assert set(known["sums"].values()) == {INNERMOST}

    found, known = chains(old, old.with_suffix(".ptx"))
    check({"sums": {pc: chain[:1] for pc, chain in found["sums"].items()}}, annotated(old, "-g"))
    lines = locations(text)
    exact = 0
    for pc, [(_, line), *_] in annotated(old, "-gp")["sums"].items():
        chain = tuple((Path(file).name, number) for file, number in found["sums"][pc])
        if lines[line][:1] == chain[:1]:
            assert (chain, known["sums"][pc]) == (lines[line], CALLS), hex(pc)
            exact += 1
        elif known["sums"][pc] == CALLS:  # the only calls of this line
            assert {other for other in lines if other[:1] == chain[:1]} == {chain}
    assert exact > len(found["sums"]) * 0.8


CUPTI_LINES = """
import ctypes, sys

class Params(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("cubin", ctypes.c_void_p),
        ("function", ctypes.c_char_p),
        ("cubin_size", ctypes.c_size_t),
        ("line", ctypes.c_uint32),
        ("pc", ctypes.c_uint64),
        ("file", ctypes.c_char_p),
        ("directory", ctypes.c_char_p),
    ]

library, path, function, end = sys.argv[1:]
correlate = ctypes.CDLL(library).cuptiGetSassToSourceCorrelation
code = open(path, "rb").read()
held = ctypes.create_string_buffer(code, len(code))
for pc in range(0, int(end), 16):
    params = Params(ctypes.sizeof(Params), ctypes.addressof(held), function.encode(), len(code))
    params.pc = pc
    status = correlate(ctypes.byref(params))
    print(status, f"{params.directory.decode()}/{params.file.decode()}", params.line, sep="\\t")
"""


def libcupti() -> Path | None:
    places = ["lib", "lib64", "extras/CUPTI/lib64"]
    found = [
        *(path for place in places for path in Path("/usr/local").glob(f"cuda*/{place}/libcupti*")),
        *Path(triton.__file__).parents[1].glob("nvidia/*/lib/libcupti.so.*"),
    ]
    return found[0] if found else None


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_lines_are_those_of_cupti(tmp_path, kernel):
    library = libcupti()
    if library is None:
        pytest.skip("no libcupti")
    path, name = tmp_path / "k.cubin", kernel.__name__
    path.write_bytes(compile_kernel(kernel, "sm_90")["cubin"])
    mine = chains(path)[0][name]
    done = run_command(
        [sys.executable, "-c", CUPTI_LINES, library, path, name, str(len(mine) * 16)]
    )
    expected = [line.split("\t") for line in done.stdout.splitlines()]
    assert [["0", file, str(line)] for (file, line), *_ in mine.values()] == expected
