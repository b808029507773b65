"""What upstream's guide shows, used as it shows it: every kind of example, option and command.

The programs are our own. Their kernel is interpreted by Triton on the CPU, or launched on a fake
GPU. Left out: cloning and building Triton itself with or without its profiler, and AMD GPUs.
"""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from cmd_support import environment, executable, proton, run
from fake_driver import CC, fake_environment, launcher
from support import at, load, metrics, names, walk

NAME = "profile_name"
INTERPRETED = """
import torch
import triton
import triton.language as tl

def describe(grid: tuple, metadata, args: dict):
    return {"name": "foo_described", "flops8": 1.0, "flops16": 2.0, "flops32": 4.0,
            "flops64": 8.0, "bytes": 16, "rows": 3}

@triton.jit(launch_metadata=describe)
def foo(x, y):
    tl.store(y, tl.load(x))

x, y = torch.ones(1), torch.zeros(1)
"""
FAKE = """
import ctypes, os
gpu = ctypes.CDLL(os.environ["TEST_LAUNCHER"])

class Kernel:
    def __getitem__(self, grid):
        return lambda *arguments: gpu.launch(b"foo", 1000)

foo, x, y = Kernel(), 1, 2
"""
# How a program gets the profiler: its first lines, and whether `proton` runs it.
WAYS = {
    "package": ("import triton_proton as proton\n", False),
    "alias": (
        "import triton_proton\ntriton_proton.install_as_triton_profiler()\n"
        "import triton.profiler as proton\n",
        False,
    ),
    "command": ("import triton.profiler as proton\n", True),
}
has_triton = all(importlib.util.find_spec(name) for name in ("torch", "triton"))
needs_triton = pytest.mark.skipif(not has_triton, reason="needs torch and Triton")
needs_compiler = pytest.mark.skipif(CC is None, reason="no C compiler")


class Machine:
    """Runs the text of a program, after the lines that give it a kernel and the profiler."""

    def __init__(self, is_fake: bool, way: str, place: Path) -> None:
        self.is_fake, self.place = is_fake, place
        self.imports, self.is_command = WAYS[way]

    def environment(self) -> dict[str, str]:
        if self.is_fake:
            return fake_environment(TEST_LAUNCHER=launcher(), PYTHONPATH=str(self.place))
        return environment(TRITON_INTERPRET="1", PYTHONPATH=str(self.place))

    def run(self, text: str, *options: str) -> dict:
        """The root of the profile that is left. KERNEL in `text` is where the kernel is defined."""
        kernel = FAKE if self.is_fake else INTERPRETED
        text = text.replace("KERNEL", kernel) if "KERNEL" in text else kernel + text
        text = self.imports + text
        (self.place / "program.py").write_text(text)
        start = [sys.executable]
        if self.is_command:
            start = [executable("proton"), "-n", NAME, *options]
        result = run([*start, "program.py"], self.place, env=self.environment())
        assert result.returncode == 0, result.stderr
        (profile,) = self.place.glob("*.hatchet")
        assert profile.name == f"{NAME}.hatchet" and not list(self.place.glob("*.proton"))
        return load(profile)


@pytest.fixture(
    params=[
        pytest.param((False, "alias"), marks=needs_triton, id="interpreter-alias"),
        pytest.param((False, "command"), marks=needs_triton, id="interpreter-command"),
        pytest.param((True, "package"), marks=needs_compiler, id="fake-package"),
        pytest.param((True, "alias"), marks=[needs_compiler, needs_triton], id="fake-alias"),
        pytest.param((True, "command"), marks=[needs_compiler, needs_triton], id="fake-command"),
    ]
)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    return Machine(*request.param, tmp_path)


def kernels(root: dict, name: str = "foo") -> list[tuple[tuple[str, ...], int]]:
    """Paths and counts of a kernel."""
    found = [(path, node) for path, node in walk(root) if path[-1] == name]
    return [(path[:-1], node["metrics"]["count"]) for path, node in found]


# ---------------------------------------------------------------------- starting and stopping


def test_function_with_its_python_lines(machine: Machine) -> None:
    text = f"""
def work(times):
    for _ in range(times):
        foo[1,](x, y)
    return "result"

returned = proton.profile(work, name="{NAME}", context="python")(3)
assert returned == "result", returned
"""
    root = machine.run(text, "-c", "python")
    ((path, count),) = kernels(root)
    assert count == 3
    assert [frame.rpartition("@")[2] for frame in path[:2]] == ["<module>", "work"]
    assert all("program.py:" in frame for frame in path[:2])


def test_region_that_is_left_out(machine: Machine) -> None:
    text = f"""
session_id = proton.start(name="{NAME}", context="python")
foo[1,](x, y)  # before
proton.deactivate(session_id)
foo[1,](x, y)  # skipped
proton.activate(session_id)
foo[1,](x, y)  # after
proton.finalize()
"""
    counts = [count for _, count in kernels(machine.run(text, "-c", "python"))]
    assert counts == [1, 1]


# ---------------------------------------------------------------------- scopes and their metrics


def test_scopes_with_and_without_metrics(machine: Machine) -> None:
    text = f"""
session_id = proton.start(name="{NAME}", context="shadow")
with proton.scope("outer", {{"bytes": 1000}}):
    with proton.scope("inner", {{"bytes": 2000, "loss": 0.5}}):
        foo[1,](x, y)
with proton.scope("plain"):
    foo[1,](x, y)
proton.finalize()
"""
    root = machine.run(text)
    assert names(root) == {"outer", "plain"} and names(at(root, "outer")) == {"inner"}
    assert sorted(kernels(root)) == [(("outer", "inner"), 1), (("plain",), 1)]
    assert metrics(root, "outer")["bytes"] == 1000
    assert metrics(root, "outer", "inner") == {"bytes": 2000, "loss": 0.5}
    shown = run([executable("proton-viewer"), "-m", "bytes", f"{NAME}.hatchet"], machine.place)
    assert "3000  ├─ outer" in shown.stdout and "2000  │  └─ inner" in shown.stdout


# ---------------------------------------------------------------------- what kernels say


@needs_triton
@pytest.mark.parametrize("way", ["alias", "command"])
def test_launch_metadata_with_every_key(way: str, tmp_path: Path) -> None:
    text = f"""
proton.start("{NAME}", hook="triton")
KERNEL
foo[1,](x, y)
foo[1,](x, y)
proton.finalize()
"""
    root = Machine(False, way, tmp_path).run(text, "-k", "triton")
    assert names(root) == {"foo_described"}
    found = metrics(root, "foo_described")
    assert found["count"] == 2 and found["rows"] == 6 and found["bytes"] == 32
    flops = {name: value for name, value in found.items() if name.startswith("flops")}
    assert flops == {"flops8": 2.0, "flops16": 4.0, "flops32": 8.0, "flops64": 16.0}
    rates = "tflop8/s,gflop16/s,flop32/s,gbyte/s,time/s"
    result = run([executable("proton-viewer"), "-m", rates, f"{NAME}.hatchet"], tmp_path)
    assert result.returncode == 0 and "foo_described" in result.stdout, result.stderr


# ---------------------------------------------------------------------- the command line

SCRIPT = """
import sys
import triton.profiler as proton
started = proton.start("ignored", context="python")
print(started, sys.argv[1:])
with proton.scope("skipped"):
    pass
proton.deactivate(session_id=0)
with proton.scope("paused", {"m": 1}):
    pass
proton.activate(session_id=0)
for change in (proton.activate, proton.deactivate, proton.finalize):
    try:
        change(session_id=1)
    except ValueError:
        print("refused")
proton.finalize()
with proton.scope("recorded", {"m": 1}):
    pass
"""


@pytest.fixture
def aliased(tmp_path: Path) -> dict[str, str]:
    """An environment in which every Python has the alias."""
    (tmp_path / "sitecustomize.py").write_text(
        "import triton_proton\ntriton_proton.install_as_triton_profiler()\n"
    )
    return environment(PROTON_BACKEND="host", PYTHONPATH=str(tmp_path))


@needs_triton
@pytest.mark.parametrize(
    "command",
    [
        [executable("proton")],
        [sys.executable, "-m", "triton.profiler.proton"],
        [sys.executable, "-m", "triton_proton"],
    ],
    ids=["proton", "module of triton.profiler", "module of triton_proton"],
)
def test_script_below_the_command(command: list[str], aliased, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    options = ["-n", "out", "-c", "shadow", "-d", "tree", "-k", "triton", "-b", "host"]
    result = run([*command, *options, "script.py", "one", "-n", "2"], tmp_path, env=aliased)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "None ['one', '-n', '2']\n" + "refused\n" * 3
    assert not list(tmp_path.glob("ignored*"))
    assert metrics(load(tmp_path / "out.hatchet"), "recorded") == {"m": 1}
    assert "paused" not in names(load(tmp_path / "out.hatchet"))


@pytest.mark.skipif(importlib.util.find_spec("pytest") is None, reason="needs pytest")
def test_pytest_below_the_command(aliased, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import triton.profiler as proton\n"
        "def test_chosen():\n    with proton.scope('chosen', {'m': 1}): pass\n"
        "def test_other():\n    with proton.scope('other', {'m': 1}): pass\n"
    )
    words = ["pytest", "-q", "test_it.py", "-k", "chosen"]
    result = proton("-n", "out", *words, cwd=tmp_path, env=aliased)
    assert result.returncode == 0 and "1 passed" in result.stdout, result.stderr
    assert names(load(tmp_path / "out.hatchet")) == {"chosen"}


# ---------------------------------------------------------------------- looking at it


@needs_compiler
def test_profile_is_shown_by_the_viewer_and_read_by_hatchet(tmp_path: Path) -> None:
    Machine(True, "package", tmp_path).run(
        f'proton.start("{NAME}")\nwith proton.scope("one"):\n    foo[1,](x, y)\nproton.finalize()\n'
    )
    viewers = [[executable("proton-viewer")], [sys.executable, "-m", "triton_proton.viewer"]]
    shown = [run([*one, "-m", "time/s", f"{NAME}.hatchet"], tmp_path) for one in viewers]
    assert shown[0].stdout == shown[1].stdout and "foo" in shown[0].stdout, shown[0].stderr
    help_text = run([*viewers[0], "-h"], tmp_path)
    assert help_text.returncode == 0 and "--metrics" in help_text.stdout
    hatchet = pytest.importorskip("hatchet")
    tree, devices = json.loads((tmp_path / f"{NAME}.hatchet").read_text())
    frame = hatchet.GraphFrame.from_literal([tree]).dataframe
    assert list(frame["name"]) == ["ROOT", "one", "foo"] and list(devices) == ["CUDA"]
    assert frame["time (ns)"].iloc[2] == 1000
