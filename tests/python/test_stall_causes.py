"""Causes of stalls: samples planted where a warp of a Triton kernel waits, by the fake libcupti.

The kernels are compiled for sm_90, and their causes are found in what Triton's nvdisasm prints.
"""

import csv
import io
import json
import re
import sys
from pathlib import Path

import pytest
from fake_driver import CC, LAUNCH_STRUCT, PC_STRUCT, fake_environment
from nvidia_tools import CODE_OBJECT_TOOL, code_object_tool, find, run
from support import run_command

triton = pytest.importorskip("triton")
pytestmark = [
    pytest.mark.skipif(CC is None, reason="needs a C compiler"),
    pytest.mark.skipif(find("nvdisasm") is None, reason="no nvdisasm"),
]

KERNELS = """
import json, sys
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def dependent(i, x, y, n: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, n)
    j = tl.load(i + at)
    v = tl.load(x + j)
    tl.store(y + at, v * 2 + 1)


@triton.jit
def special(x, y, m, n: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, n)
    v = tl.load(x + at)
    for _ in range(m):
        v = tl.exp2(v)
        v = v * 0.5 + 1
    tl.store(y + at, v)


@triton.jit
def atomic(x, y, m, n: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, n)
    s = tl.zeros((n,), tl.float32)
    for _ in range(m):
        o = tl.atomic_add(x + at, 1.0)
        s = s + o * 3
    tl.store(y + at, s)


@triton.jit
def reduction(x, y, m, n: tl.constexpr):
    v = tl.load(x + tl.arange(0, n))
    for _ in range(m):
        v = v * v + 1
    tl.store(y, tl.sum(v))


@triton.jit
def matmul(a, b, c, k, m: tl.constexpr, n: tl.constexpr, step: tl.constexpr):
    rows, columns, inner = tl.arange(0, m), tl.arange(0, n), tl.arange(0, step)
    left = a + rows[:, None] * k + inner[None, :]
    right = b + inner[:, None] * n + columns[None, :]
    total = tl.zeros((m, n), tl.float32)
    for _ in range(0, k, step):
        x = tl.load(left)
        y = tl.load(right)
        total = tl.dot(x, y, total)
        left += step
        right += step * n
    tl.store(c + rows[:, None] * n + columns[None, :], total)


@triton.jit
def descriptors(a, b, c, k, m: tl.constexpr, n: tl.constexpr, step: tl.constexpr):
    total = tl.zeros((m, n), tl.float32)
    for i in range(0, k, step):
        x = a.load([0, i])
        y = b.load([i, 0])
        total = tl.dot(x, y, total)
    rows, columns = tl.arange(0, m), tl.arange(0, n)
    tl.store(c + rows[:, None] * n + columns[None, :], total)


F, H, I, C = "*fp32", "*fp16", "i32", "constexpr"
TILES = {"m": 128, "n": 128, "step": 64}
SIGNATURES = {
    dependent: ({"i": "*i32", "x": F, "y": F, "n": C}, {"n": 1024}),
    special: ({"x": F, "y": F, "m": I, "n": C}, {"n": 1024}),
    atomic: ({"x": F, "y": F, "m": I, "n": C}, {"n": 1024}),
    reduction: ({"x": F, "y": F, "m": I, "n": C}, {"n": 1024}),
    matmul: ({"a": H, "b": H, "c": F, "k": I} | dict.fromkeys(TILES, C), TILES),
    descriptors: (
        {"a": "tensordesc<fp16[128,64]>", "b": "tensordesc<fp16[64,128]>", "c": F, "k": I}
        | dict.fromkeys(TILES, C),
        TILES,
    ),
}


def compile_all():
    for function, (signature, values) in SIGNATURES.items():
        # Addresses that are multiples of 16 let the compiler copy asynchronously.
        whole = {(i,): [["tt.divisibility", 16]] for i in range(4)} if function is matmul else None
        source = ASTSource(fn=function, signature=signature, constexprs=values, attrs=whole)
        options = {"num_stages": 3, "num_warps": 4}
        compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
        with open(function.__name__ + ".cubin", "wb") as file:
            file.write(compiled.asm["cubin"])
"""

# Runs each kernel, with the samples of samples.json: offset, reason and number by kernel.
PROGRAM = """
import ctypes, json, os, sys, time
import triton_proton as proton
"""
PROGRAM += LAUNCH_STRUCT + PC_STRUCT
PROGRAM += """
os.environ["FAKE_CUDA_NO_CONTEXT"] = "1"
fake = ctypes.CDLL(os.environ["PROTON_CUPTI_PATH"])
ctypes.CDLL(os.environ["PROTON_CUDA_PATH"]).cuInit(0)
fake.fake_module_load.restype = fake.fake_module_function.restype = ctypes.c_void_p
fake.fake_module_load.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
fake.fake_module_function.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
fake.fake_module_crc.restype = ctypes.c_uint64
fake.fake_module_crc.argtypes = [ctypes.c_void_p]
kept = []  # texts of which the fake keeps the address
session = proton.start("test", backend="cupti", mode="pcsampling")
for name, samples in json.load(open("samples.json")).items():
    cubin = open(name + ".cubin", "rb").read()
    module = fake.fake_module_load(cubin, len(cubin))
    name_bytes = name.encode()
    kept.append(name_bytes)
    now = time.monotonic_ns()
    config = (ctypes.c_uint32 * 9)(1, 1, 1, 128, 1, 1)
    function = fake.fake_module_function(module, name_bytes)
    work = Launch(307, name_bytes, 1, 0, 7, 1, now, now + 1000, config=config, function=function)
    fake.fake_launch(ctypes.byref(work))
    for offset, reason, count in samples:
        kept.append(reason.encode())
        pc = Pc(fake.fake_module_crc(module), name_bytes, kept[-1], offset, count)
        fake.fake_pcs_take(ctypes.c_void_p(1), ctypes.byref(pc))
proton.finalize(session, "proton")
"""


class Kernels:
    """The kernels in a directory, and their instructions by offset."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "kernels.py").write_text(KERNELS)
        (directory / "program.py").write_text(PROGRAM)
        code = "import kernels; kernels.compile_all()"
        # A cubin of another run names the source file of that run.
        variables = fake_environment(TRITON_CACHE_DIR=str(directory / "cache"))
        run_command([sys.executable, "-c", code], env=variables, cwd=directory)
        self.sass = {path.stem: self.read(path) for path in directory.glob("*.cubin")}

    @staticmethod
    def read(path: Path) -> list[tuple[int, str]]:
        found = re.findall(r"/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", run("nvdisasm", "-c", path))
        return [(int(offset, 16), text) for offset, text in found]

    def offsets(self, name: str, pattern: str) -> list[int]:
        found = [offset for offset, text in self.sass[name] if re.match(pattern, text)]
        assert found, (name, pattern)
        return found

    def lines(self, name: str, offsets: list[int]) -> set[int]:
        """Those of the compiler: the text around inline assembly may have other ones."""
        path = self.directory / f"{name}.cubin"
        runs = [row for row in code_object_tool(path) if row[0] == "run" and len(row) > 6]
        return {
            int(row[6].split(":")[1])
            for row in runs
            if any(int(row[2]) <= offset < int(row[3]) for offset in offsets)
        }

    def share(self, name: str, samples: list, reason: str, lines: set[int]) -> float:
        """Percent of the samples with a reason that these lines cause."""
        found = self.causes(name, samples)[reason]
        return sum(percent for line, percent in found.items() if line in lines)

    def view(self, samples: dict[str, list], *options: str) -> str:
        (self.directory / "samples.json").write_text(json.dumps(samples))
        variables = fake_environment(PROTON_BACKEND="cupti")
        run_command([sys.executable, "program.py"], env=variables, cwd=self.directory)
        viewer = [sys.executable, "-m", "triton_proton.viewer", "--source", *options]
        nvdisasm = {"PROTON_NVDISASM_PATH": find("nvdisasm")}
        return run_command(
            [*viewer, "test.proton"], env=fake_environment(**nvdisasm), cwd=self.directory
        ).stdout

    def causes(self, name: str, samples: list) -> dict[str, dict[int, float]]:
        """Percent by line, of each reason."""
        (kernel,) = json.loads(self.view({name: samples}, "--json"))["kernels"]
        found = {}
        for wait in kernel["waits"]:
            causes = wait["causes"]
            assert {Path(cause["file"]).name for cause in causes} <= {"kernels.py", "standard.py"}
            assert sum(cause["percent"] for cause in causes) == pytest.approx(100)
            found[wait["reason"]] = {cause["line"]: cause["percent"] for cause in causes}
        return found


@pytest.fixture(scope="module")
def kernels(tmp_path_factory) -> Kernels:
    return Kernels(tmp_path_factory.mktemp("kernels"))


def test_a_use_waits_for_the_load_that_depends_on_another(kernels):
    loads = kernels.offsets("dependent", r"LDG\.E ")
    addresses = kernels.offsets("dependent", r"LEA R\d+, P\d, ")
    indexes = kernels.lines("dependent", [at for at in loads if at < addresses[0]])
    gathers = kernels.lines("dependent", [at for at in loads if at > addresses[0]])
    assert indexes != gathers
    uses = [[at, "long_scoreboard", 10] for at in kernels.offsets("dependent", r"FFMA ")]
    assert kernels.share("dependent", uses, "long_scoreboard", gathers) >= 90
    waits = [[at, "long_scoreboard", 10] for at in addresses]
    assert kernels.share("dependent", waits, "long_scoreboard", indexes) >= 90


@pytest.mark.parametrize(
    "name, wait, reason, producer",
    [
        ("special", r"FFMA ", "short_scoreboard", r"MUFU\.EX2"),
        ("atomic", r"CCTL\.IVALL", "long_scoreboard", r"ATOMG"),
        ("matmul", r"WARPGROUP\.DEPBAR", "wait", r"HGMMA"),
    ],
)
def test_a_stall_is_caused_by_the_planted_producer(kernels, name, wait, reason, producer):
    samples = [[at, reason, 10] for at in kernels.offsets(name, wait)]
    lines = kernels.lines(name, kernels.offsets(name, producer))
    assert kernels.share(name, samples, reason, lines) >= 90


def test_warps_at_a_barrier_wait_for_what_is_done_before_it(kernels):
    barrier = kernels.offsets("reduction", r"BAR\.SYNC")[0]
    squares = kernels.offsets("reduction", r"FFMA ")
    work = [[at, "selected", 10] for at in squares]
    lines = kernels.lines("reduction", squares)
    samples = [[barrier, "barrier", 1000]]
    assert kernels.share("reduction", samples + work, "barrier", lines) >= 90
    # Without any other sample, nothing is known.
    assert kernels.share("reduction", samples, "barrier", lines) == 0


@pytest.mark.parametrize(
    "name, wait, load",
    [("matmul", r"DEPBAR\.LE SB0", r"LDGSTS"), ("descriptors", r"SYNCS\.PH", r"(@\w+ )?UTMALDG")],
)
def test_a_pipelined_product_waits_for_its_loads(kernels, name, wait, load):
    at = kernels.offsets(name, wait)[0]
    if name == "descriptors":  # the branch that uses its result
        at = next(pc for pc in kernels.offsets(name, r"@!P\d+ BRA") if pc > at)
    lines = kernels.lines(name, kernels.offsets(name, load))
    samples = [[at, "long_scoreboard", 1000]]
    found = kernels.causes(name, samples)["long_scoreboard"]
    loads = [found.get(line, 0) for line in lines]
    assert len(lines) > 1 and sum(loads) >= 90
    assert max(loads) <= 70  # shared out
    # Warps at the next barrier wait for others that wait for that.
    barrier = next(pc for pc in kernels.offsets(name, r"BAR\.SYNC") if pc > at)
    assert kernels.share(name, samples + [[barrier, "barrier", 500]], "barrier", lines) >= 90


def test_the_text_says_where_a_kernel_waits_and_for_what(kernels):
    at = kernels.offsets("matmul", r"DEPBAR\.LE SB0")[0]
    text = kernels.view({"matmul": [[at, "long_scoreboard", 1000]]})
    lines = kernels.lines("matmul", kernels.offsets("matmul", r"LDGSTS"))
    cause = rf"kernels\.py:({'|'.join(map(str, lines))}) \(\d+ %\)"
    assert re.search(
        r"^long_scoreboard 100 %: global loads at kernels\.py:\d+, caused by "
        rf"{cause}, {cause}(, {cause})?, shared out$",
        text,
        re.MULTILINE,
    )
    assert re.search(r"^ +samples +% +caused % +stall reasons +line$", text, re.MULTILINE)
    # A line that causes it need not have samples.
    caused = re.findall(r"^(?: +\d+ +[\d.]+)? +([\d.]+) .* (\d+)  ", text, re.MULTILINE)
    assert sum(float(share) for share, line in caused if int(line) in lines) >= 90


def test_programs_get_the_lines_that_only_cause_stalls(kernels):
    at = kernels.offsets("matmul", r"DEPBAR\.LE SB0")[0]
    loads = kernels.lines("matmul", kernels.offsets("matmul", r"LDGSTS"))
    samples = {"matmul": [[at, "long_scoreboard", 1000]]}
    rows = list(csv.DictReader(io.StringIO(kernels.view(samples, "--csv"))))
    assert sum(float(row["caused"]) for row in rows) == pytest.approx(100)
    without = [row for row in rows if row["samples"] == "0"]
    assert {int(row["line"]) for row in without} <= loads | {0}
    assert {row["long_scoreboard"] for row in without} == {"0"}
    assert sum(float(row["caused"]) for row in rows if int(row["line"]) in loads) >= 90
    (kernel,) = json.loads(kernels.view(samples, "--json"))["kernels"]
    assert [(line["line"], line["samples"]) for line in kernel["lines"]] == [
        (int(row["line"]), int(row["samples"])) for row in rows
    ]
    assert sum(line["samples"] for line in kernel["lines"]) == 1000 and without


def test_each_producer_is_executed_before_its_user_can_be(kernels):
    """The tool of the tests prints all; a producer has an offset of the function."""
    if not CODE_OBJECT_TOOL.exists():
        pytest.skip("ninja -C build test-programs")
    for name, instructions in kernels.sass.items():
        printed = run_command(
            [CODE_OBJECT_TOOL, "--causes", kernels.directory / f"{name}.cubin"],
            env={"PROTON_NVDISASM_PATH": find("nvdisasm")},
        ).stdout
        offsets = {offset for offset, _ in instructions}
        rows = [line.split("\t") for line in printed.splitlines()]
        assert rows
        for row in rows:
            assert set(map(int, row[4:])) <= offsets and int(row[2]) in offsets, row
