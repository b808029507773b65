"""The workflow of overriding TTGIR, step by step, and the examples of it: compiled, not run."""

import importlib
import json
import os
import sys
from pathlib import Path

import pytest
from support import run_command

triton = pytest.importorskip("triton")

import fake_driver  # noqa: E402
import intra_kernels as kernels  # noqa: E402

from triton_proton import _instrument, intra  # noqa: E402

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "intra"

# Compiles a kernel of the examples as a launch would, and says which scopes it has.
PROGRAM = """
import json, sys
sys.path[:0] = [{examples!r}, {tests!r}]
import example_override, intra_kernels
from triton_proton import _instrument
_instrument.start("default")
made = intra_kernels.compile(example_override.add, "sm_90")
layout = getattr(made.metadata, "proton_layout", "")
print(json.dumps([line[6:] for line in layout.splitlines() if line.startswith("scope ")]))
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture(autouse=True)
def fresh_cache(own_cache, monkeypatch):
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")


@pytest.fixture
def example(monkeypatch):
    """Imports an example."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    names = []

    def load(name):
        names.append(name)
        return importlib.import_module(name)

    yield load
    for name in [*names, "common"]:
        sys.modules.pop(name, None)


def step(*words, **variables):
    """Run one step as a user does."""
    return run_command(
        [sys.executable, "-m", "triton_proton.intra", *map(str, words)],
        env=dict(os.environ, PROTON_QUIET="0", **variables), status=None,
    )


# ------------------------------------------------------------------ the three steps


def test_dump_insert_run(tmp_path):
    program = tmp_path / "program.py"
    tests = str(Path(__file__).parent)
    program.write_text(PROGRAM.format(examples=str(EXAMPLES), tests=tests))
    dumped = step("dump", "files", program, 3)
    assert dumped.returncode == 3, dumped.stderr  # the program's own
    assert json.loads(dumped.stdout) == []
    assert "proton: 1 kernel in files\n" in dumped.stderr
    (file,) = [path for path in Path("files").rglob("*") if path.is_file()]
    assert file.name == "add.ttgir"
    inserted = step("insert", "files", "--scope", "kernel", "--scope", "load=tt.load")
    assert inserted.returncode == 0, inserted.stderr
    assert inserted.stdout == f"{file}: 4 records\n"
    text = file.read_text()
    assert text.count("proton.record") == 4
    ran = step("run", "files", "--", program, 0)
    assert ran.returncode == 0, ran.stderr
    assert sorted(json.loads(ran.stdout.splitlines()[-1])) == ["kernel", "load"]


# Compiles a kernel for a launch in each mode, as a launcher does, on a GPU that is not there.
LAUNCHER = """
import json, sys
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import MockTensor
import triton.language as tl

class Driver:
    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)
    def get_current_device(self):
        return 0
    def get_current_stream(self, device):
        return 7

triton.runtime.driver.set_active(Driver())

@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)

for mode in sys.argv[1:] or [None]:
    if mode:
        import triton_proton as proton
        session = proton.start("of a run", backend="instrumentation", mode=mode)
    tensor = MockTensor(tl.float32)
    made = add.warmup(tensor, tensor, tensor, 8, BLOCK=64, grid=(3,))
    layout = getattr(made.metadata, "proton_layout", "")
    print(json.dumps([line[6:] for line in layout.splitlines() if line.startswith("scope ")]))
    if mode:
        proton.finalize(session, "none")
    add.device_caches.clear()
"""


@pytest.mark.parametrize("dumped_with", [[], ["default"], ["default:auto=loads"]])
def test_a_dump_serves_runs_of_every_mode(tmp_path, dumped_with):
    program = tmp_path / "program.py"
    program.write_text(LAUNCHER)
    libraries = fake_driver.libraries()
    dumped = step("dump", "files", program, *dumped_with, **libraries)
    assert dumped.returncode == 0, dumped.stderr
    assert intra.main(["insert", "files", "--scope", "load=tt.load"]) == 0
    modes = ["default", "default:buffer_type=global"]
    ran = step("run", "files", program, *(modes if dumped_with else modes[::-1]), **libraries)
    assert ran.returncode == 0, ran.stderr
    found = [line for line in ran.stdout.splitlines() if line.startswith("[")]
    assert found == ['["load"]', '["load"]']


# ------------------------------------------------------------------ inserting

BODY = """\
module {
  tt.func public @f(%x: i32) {
    %0 = tt.load %x : i32
    %1 = scf.for %i = %a to %b {
      %2 = tt.dot %0 : i32
      scf.yield %2 : i32
    } loc(#loc)
    tt.store %x, %1 : i32
    tt.return
  } loc(#loc)
}
"""


@pytest.fixture
def files():
    Path("files/hash").mkdir(parents=True)
    path = Path("files/hash/f.ttgir")
    path.write_text(BODY)
    return path


def lines_of(path):
    return [line.strip() for line in path.read_text().splitlines()]


def test_scopes_are_placed_as_requested(files):
    intra.insert("files", ["all", "main=scf.for", "both=tt.load..tt.store", "dot=tt.dot"])
    assert [line[:30] for line in lines_of(files)] == [
        "module {", "tt.func public @f(%x: i32) {", 'proton.record start "all"',
        'proton.record start "both"', "%0 = tt.load %x : i32", 'proton.record start "main"',
        "%1 = scf.for %i = %a to %b {", 'proton.record start "dot"', "%2 = tt.dot %0 : i32",
        'proton.record end "dot"', "scf.yield %2 : i32", "} loc(#loc)", 'proton.record end "main"',
        "tt.store %x, %1 : i32", 'proton.record end "both"', 'proton.record end "all"', "tt.return",
        "} loc(#loc)", "}",
    ]
    assert intra.insert("files", clear=True) == 0
    assert files.read_text() == BODY


def test_the_kernel_is_the_default(files, capsys):
    assert intra.main(["insert", "files"]) == 0
    assert files.read_text().count('"kernel"') == 2
    assert capsys.readouterr().out == "files/hash/f.ttgir: 2 records\n"


def test_automatic_scopes_can_be_edited(files):
    assert intra.insert("files", auto="dots,loops") == 0
    assert lines_of(files).count('proton.record start "dot"') == 1
    assert lines_of(files).count('proton.record end "loop"') == 1


@pytest.mark.parametrize(
    "words, text",
    [
        (["insert", "nothing"], "no .ttgir files in nothing; run the dump step first"),
        (["insert", "files", "--scope", "x=tt.dot..tt.store"], "its start and end are in differ"),
        (["insert", "files", "--scope", "=tt.dot"], "is not of the form NAME, NAME=TEXT or"),
        (["insert", "files", "--auto", "branches"], 'unknown automatic scope "branches"'),
        (["run", "files"], "no command is given"),
        (["run", "files", "./not_there"], "cannot run ./not_there: No such file"),
        (["dump", "files", "./not_there"], "cannot run ./not_there: No such file"),
    ],
)
def test_mistakes(files, capsys, words, text):
    assert intra.main(words) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("proton: ") and text in printed and printed.count("\n") == 1
    assert files.read_text() == BODY


@pytest.mark.parametrize(
    "scope, reason",
    [
        ("x=tt.descriptor_load", 'no line contains "tt.descriptor_load"'),
        ("x=tt.load..tt.lod", 'no line contains "tt.lod"'),
        ("x=tt.store..tt.load", 'every line that contains "tt.load" is before those that contain '),
    ],
)
def test_a_scope_without_a_place_is_a_failure(files, capsys, scope, reason):
    assert intra.insert("files", [scope]) == 1
    assert files.read_text() == BODY
    printed = capsys.readouterr().err
    assert printed.startswith(f"proton: scope x: {reason}")
    there = "scf.for, scf.yield, tt.dot, tt.load, tt.return, tt.store"
    assert printed.endswith(f"; operations in files/hash/f.ttgir: {there}\n")
    assert intra.insert("files", ["load=tt.load", scope]) == 1
    assert files.read_text().count("proton.record") == 2


def test_a_scope_may_be_for_one_kernel_of_several(files, capsys):
    other = files.with_name("g.ttgir")
    other.write_text(BODY.replace("tt.dot", "tt.dot_scaled").replace("@f", "@g"))
    assert intra.insert("files", ["dot=tt.dot_scaled"]) == 0
    assert not capsys.readouterr().err
    assert files.read_text() == BODY


def test_a_kernel_without_a_file_is_a_failure(files, capsys):
    assert intra.insert("files", ["all"], kernels=["g"]) == 1
    assert capsys.readouterr().err == "proton: no file for kernel g in files; available: f\n"
    assert files.read_text() == BODY


def test_a_dump_without_kernels_is_reported(tmp_path):
    dumped = step("dump", "files", "true")
    assert dumped.returncode == 0
    assert dumped.stderr == "proton: no kernels in files: the command compiled none\n"


def test_triton_gets_its_names_of_sources_back():
    source = triton.compiler.ASTSource
    before = source.hash
    _instrument.start("default")
    _instrument.start("default")
    _instrument.stop()
    assert source.hash is not before
    _instrument.stop()
    assert source.hash is before


# ------------------------------------------------------------------ the examples


def scopes_of(kernel):
    lines = kernel.metadata.proton_layout.splitlines()
    return {line[6:] for line in lines if line.startswith("scope ")}


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "gfx942"])
def test_the_dsl_in_triton(example, target):
    _instrument.start("default")
    made = kernels.compile(example("example_dsl").add, target)
    assert scopes_of(made) == {"kernel", "load_and_add", "load_x", "load_y", "store"}


def descriptor(*shape):
    """The type of a tensor descriptor for such blocks."""
    from triton.experimental.gluon import language as gl

    layout = gl.NVMMASharedLayout.get_default_for(list(shape), gl.float16)
    return f"tensordesc<fp16{list(shape)},{layout!r}>"


def test_the_dsl_in_gluon(example):
    from triton.experimental.gluon._runtime import GluonASTSource

    signature = {
        "a_desc": descriptor(128, 64),
        "b_desc": descriptor(64, 128),
        "c_desc": descriptor(128, 128),
        "k": "i32",
        "num_warps": "constexpr",
    }
    source = GluonASTSource(example("example_dsl").matmul, signature, {"num_warps": 4})
    _instrument.start("default")
    made = kernels.compile_source(source, "sm_90", num_warps=4)
    assert scopes_of(made) == {"kernel", "tma", "wait", "wgmma", "store"}


def test_who_waits_for_whom(example):
    from triton.experimental.gluon._runtime import GluonASTSource

    signature = {
        "a_desc": descriptor(128, 64),
        "b_desc": descriptor(64, 128),
        "c": "*fp16",
        "size": "i32",
        "stages": "constexpr",
    }
    source = GluonASTSource(example("example_warps").matmul_ws, signature, {"stages": 3})
    _instrument.start("default:auto=waits,dots,loads,partitions:budget=off")
    made = kernels.compile_source(source, "sm_90", num_warps=4)
    words = {scope.partition("@")[0] for scope in scopes_of(made)}
    assert {"default", "partition0", "wait_barrier", "tma_load", "dot", "copy"} <= words


def test_the_kernel_is_not_edited(example):
    signature = dict.fromkeys("abc", "*fp16") | {"n": "i32", "BLOCK": "constexpr"}
    source = kernels.ASTSource(
        example("example_auto").matmul, signature | {"STEP": "constexpr"},
        constexprs={"BLOCK": 128, "STEP": 64},
        attrs={(i,): [["tt.divisibility", 16]] for i in range(4)},
    )
    _instrument.start("default:auto=all:budget=off")
    made = kernels.compile_source(source, "sm_90", num_warps=8, num_stages=3)
    words = {scope.partition("@")[0] for scope in scopes_of(made)}
    assert words == {
        "async_copy", "async_wait", "convert", "dot", "dot_wait", "fence", "loop", "store"
    }


def test_the_options_of_the_tutorial(example, monkeypatch):
    common = example("common")
    monkeypatch.setattr(sys, "argv", ["x", "--warp-sampling", "--warp-ids", "0,1,2,3"])
    mode = str(common.mode_of(common.parse_options("")))
    assert ":sampling_strategy=selective:" in mode and ":sampling_options=0,1,2,3:" in mode
    monkeypatch.setattr(sys, "argv", ["x", "--increase-accuracy"])
    mode = str(common.mode_of(common.parse_options(""), auto="all"))
    assert mode.endswith(":auto=all:optimizations=clock32,time_shift")
    for spelling in ("--gmem_buffer", "--gmem-buffer"):
        monkeypatch.setattr(sys, "argv", ["x", spelling])
        assert ":buffer_type=global:" in str(common.mode_of(common.parse_options("")))
