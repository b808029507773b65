"""The examples of the guide's page "Inside kernels", run on a GPU; each checks its own results.

    python -m pytest tests/gpu/test_intra_examples.py

Needs the installed package, torch with CUDA and triton.
"""

import os
import subprocess
import sys
from pathlib import Path

import gpus
import pytest

torch = gpus.need()

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "intra"
IS_HOPPER = gpus.VENDOR == gpus.NVIDIA and torch.cuda.get_device_capability()[0] == 9


@pytest.fixture(autouse=True)
def own_directory(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("PROTON_BACKEND", raising=False)


def python(*words: object) -> str:
    """Runs Python as a user does; returns its output."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(EXAMPLES), *sys.path[1:]]))
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def output(name: str) -> str:
    """The text of the one output of a session called `name`."""
    (path,) = [p for p in Path(".").glob(f"{name}.*") if p.suffix != ".proton"]
    return path.read_text(errors="replace")


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--op-measure",),
        ("--warp-sampling", "--warp-ids", "1,0"),
        ("--increase-accuracy",),
        ("--op-measure", "--increase-accuracy"),
    ],
    ids=" ".join,
)
def test_scopes_in_the_source(options):
    python(EXAMPLES / "example_dsl.py", *options)
    for scope in ("load_and_add", "load_x", "load_y", "store"):
        assert f'"{scope}"' in output("vector-add-dsl")
    if IS_HOPPER:
        for scope in ("tma", "wait", "wgmma", "store"):
            assert f'"{scope}"' in output("matmul-dsl")


@pytest.mark.parametrize("options", [(), ("--op-measure",)], ids=" ".join)
def test_automatic_scopes(options):
    python(EXAMPLES / "example_auto.py", *options)
    for scope in ("loop@example_auto.py:", "dot@example_auto.py:", "store@example_auto.py:"):
        assert scope in output("matmul-auto")


@pytest.mark.skipif(not IS_HOPPER, reason="needs TMA and WGMMA of Hopper")
def test_who_waits_for_whom():
    printed = python(EXAMPLES / "example_warps.py")
    assert "matmul_ws: " in printed and " of the critical path is in " in printed


@pytest.mark.parametrize("options", [(), ("--op-measure",)], ids=" ".join)
def test_an_edited_kernel(options):
    program = EXAMPLES / "example_override.py"
    steps = ("-m", "triton_proton.intra")
    python(*steps, "dump", "ttgir_dump", program)
    # The first run starts a session as well, without the options: its timeline is not the result.
    for path in Path(".").glob("vector-add.*"):
        path.unlink()
    python(*steps, "insert", "ttgir_dump", "--scope", "kernel", "--scope", "load=tt.load")
    python(*steps, "run", "ttgir_dump", program, *options)
    for scope in ("kernel", "load"):
        assert f'"{scope}"' in output("vector-add")


def test_the_command_with_a_mode():
    program = Path("program.py")
    program.write_text((EXAMPLES / "example_auto.py").read_text())
    options = ("-n", "named", "-b", "instrumentation", "-m", "default:auto=dots")
    python("-m", "triton_proton.proton", *options, program)
    assert "dot@program.py:" in output("named")


PLAIN = """
import example_override, torch, triton

x = torch.rand(98432, device="cuda")
out = torch.empty_like(x)
example_override.add[(triton.cdiv(x.numel(), 1024),)](x, x, out, x.numel(), BLOCK=1024)
assert torch.equal(out, x + x)
"""


def test_a_dump_of_a_program_that_does_not_profile():
    program = Path("program.py")
    program.write_text(PLAIN)
    steps = ("-m", "triton_proton.intra")
    python(*steps, "dump", "ttgir_dump", program)
    python(*steps, "insert", "ttgir_dump", "--scope", "load=tt.load")
    command = (sys.executable, "-m", "triton_proton.proton", "-n", "named", "-b", "instrumentation")
    python(*steps, "run", "ttgir_dump", *command, program)
    assert '"load"' in output("named")
