"""Programs of the shape of Triton's tutorials, in the interpreter: they end with a tree.

tests/gpu/test_tutorials.py runs the same on a GPU.
"""

import importlib.util
import os
import re
from pathlib import Path

import pytest

from cmd_support import environment, executable
from support import run_command
from warm_python import WarmPython

PROGRAM = Path(__file__).with_name("tutorial_matmul.py")
ALIAS = """
import runpy, sys, triton_proton
triton_proton.install_as_triton_profiler()
sys.argv = {!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or importlib.util.find_spec("torch") is None,
    reason="needs triton and torch",
)


@pytest.fixture(scope="module")
def python():
    with WarmPython("import torch\n") as python:
        yield python


@pytest.fixture
def run(python):
    def run(how: str, *arguments: str) -> str:
        """The program's output, with the alias or under `proton`."""
        env = environment(TRITON_INTERPRET="1", COLUMNS="200", PROTON_BACKEND=None)
        words = [str(PROGRAM), *arguments]
        if how == "alias":
            return python.script(ALIAS.format(words), dict.fromkeys(os.environ) | env).stdout
        command = [executable("proton"), "-q", "-n", "recorded", "-k", "triton"]
        return run_command([*command, *words], env=env).stdout

    return run


def lines(printed: str, name: str) -> list[str]:
    return [line for line in printed.splitlines() if re.search(name, line)]


@pytest.mark.parametrize("how", ["alias", "command"])
@pytest.mark.parametrize("way", ["persistent", "scaled"])
def test_the_end_of_a_tutorial_is_a_tree(way, how, run):
    printed = run(how, way, "16")
    bits = "16" if way == "persistent" else ""
    heads = [f"tflop{bits}/s", "avg_time/us", "time/us", "frame"]
    assert lines(printed, "frame")[0].split() == heads
    (kernel,) = lines(printed, r"tiles_matmul \[M=16, N=16, K=16\]")
    average, time = map(float, kernel.split()[1:3])
    # Not those before activate(); the command has also recorded the first, before start().
    launches = 2 if how == "alias" else 3
    assert time == pytest.approx(launches * average, rel=1e-3)
    assert os.path.exists("matmul.hatchet") == (how == "alias")
    assert os.path.exists("recorded.hatchet") == (how == "command")


def test_scopes_in_the_hooks_of_a_kernel(run):
    """With the scopes that a decorator opens."""
    printed = run("alias", "tuned", "32")
    for name in ("library", "triton", r"tiles_matmul \[M="):
        assert lines(printed, name), printed


@pytest.mark.parametrize("how", ["alias", "command"])
def test_a_profiled_function(how, run):
    printed = run(how, "function", "16")
    assert lines(printed, "tiles_matmul"), printed


def test_an_older_file_is_not_shown_and_nothing_is_left_of_the_copy_that_was(
    run, monkeypatch, tmp_path
):
    Path("matmul.hatchet").write_text("not a profile")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    assert lines(run("command", "scaled", "16"), "tiles_matmul")
    assert Path("matmul.hatchet").read_text() == "not a profile"
    assert not [name for name in os.listdir(tmp_path / "tmp") if name.endswith(".hatchet")]
