"""Programs of the shape of Triton's tutorials, on a GPU: they end with a tree.

    python -m pytest tests/gpu

Needs the installed package, torch with CUDA and triton.
tests/python/test_interpreter_tutorials.py runs the
same program in the interpreter.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import gpus
import pytest

torch = gpus.need()
pytest.importorskip("triton")

PROGRAM = Path(__file__).parents[1] / "python" / "tutorial_matmul.py"
ALIAS = (
    "import runpy, sys, triton_proton\n"
    "triton_proton.install_as_triton_profiler()\n"
    "sys.argv = sys.argv[1:]\n"
    "runpy.run_path(sys.argv[0], run_name='__main__')\n"
)
SIZE = 512
FLOPS = 2.0 * SIZE**3


@pytest.fixture
def run(tmp_path):
    """A function that runs the program, under the alias or below `proton`, and gives its output."""

    def start(how: str, way: str) -> str:
        command = [sys.executable, "-c", ALIAS]
        if how != "alias":
            place = os.environ.get("PROTON_TEST_BIN") or os.path.dirname(sys.executable)
            proton = shutil.which("proton", path=place) or "proton"
            command = [proton, "-q", "-n", "recorded", "-k", "triton"]
        env = dict(os.environ, COLUMNS="200", PROTON_PYTHON=sys.executable)
        env.pop("PROTON_BACKEND", None)
        done = subprocess.run(
            [*command, str(PROGRAM), way, str(SIZE)], cwd=tmp_path, env=env, capture_output=True,
            text=True, timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return start


def lines(printed: str, name: str) -> list[list[str]]:
    return [line.split() for line in printed.splitlines() if re.search(name, line)]


@pytest.mark.parametrize("how", ["alias", "command"])
@pytest.mark.parametrize("way", ["persistent", "scaled"])
def test_the_end_of_a_tutorial_is_a_tree(way, how, run):
    printed = run(how, way)
    bits = "16" if way == "persistent" else ""
    assert lines(printed, "frame")[0] == [f"tflop{bits}/s", "avg_time/us", "time/us", "frame"]
    launches = 2 if how == "alias" else 3  # the command has recorded the first one too
    (kernel,) = lines(printed, rf"tiles_matmul \[M={SIZE}, N={SIZE}, K={SIZE}\]")
    (library,) = lines(printed, rf"library \[M={SIZE}\]")
    assert float(kernel[2]) == pytest.approx(launches * float(kernel[1]), rel=1e-3, abs=0.01)
    for (rate, _, time, *_), runs in ((kernel, launches), (library, 2)):
        # Times in us, rates in 10^12 operations a second.
        assert float(rate) == pytest.approx(runs * FLOPS / float(time) / 1e6, rel=1e-2, abs=1e-3)


def test_scopes_in_the_hooks_of_a_tuned_kernel(run):
    printed = run("alias", "tuned")
    for name in ("library", "triton", "<autotune>", r"tiles_matmul \[M="):
        assert lines(printed, name), printed


@pytest.mark.parametrize("how", ["alias", "command"])
def test_a_profiled_function(how, run):
    assert lines(run(how, "function"), "tiles_matmul")
