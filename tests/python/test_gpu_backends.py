"""The package with each GPU backend: the same program gives the same profile.

The libraries are fakes. CUDA's launches and the calls of HIP that stand for them are in
tests/fake/amd_calls.c.
"""

import json
import sys
import textwrap
from pathlib import Path

import pytest

from fake_driver import CC, launcher, machine
from support import load, metrics, names, run_command, walk

pytestmark = pytest.mark.skipif(CC is None, reason="no C compiler")

PROGRAM = """
    import ctypes, os
    library = ctypes.CDLL(os.environ["TEST_LAUNCHER"])
    library.load()
    import triton_proton as proton

    def launch(name, ns=1000):
        library.launch(name.encode(), ctypes.c_ulonglong(ns))
"""


@pytest.fixture(params=["cupti", "rocprofiler", "roctracer"])
def run(request, tmp_path, monkeypatch):
    """Runs a program with the backend, in an empty directory."""

    def run_here(body: str) -> str:
        (tmp_path / "script.py").write_text(textwrap.dedent(PROGRAM) + textwrap.dedent(body))
        done = run_command(
            [sys.executable, "script.py"], cwd=tmp_path,
            env=machine(request.param, TEST_LAUNCHER=launcher(), TRITON_INTERPRET=None),
        )
        return done.stdout

    run_here.backend = request.param
    monkeypatch.chdir(tmp_path)
    return run_here


def test_scopes_metrics_and_kernels(run):
    run(
        """
        proton.start("p")
        with proton.scope("outer", {"flops": 100.0}):
            for _ in range(10):
                launch("mm", 50)
            with proton.scope("inner"):
                launch("add", 7)
        proton.finalize()
        """
    )
    root = load("p.hatchet")
    assert metrics(root, "outer")["flops"] == 100
    kernel = metrics(root, "outer", "mm")
    assert (kernel["count"], kernel["time (ns)"]) == (10, 500)
    assert kernel["device_type"] == ("CUDA" if run.backend == "cupti" else "HIP")
    assert metrics(root, "outer", "inner", "add")["time (ns)"] == 7


def test_launch_hooks_name_kernels_and_give_them_metrics(run):
    """As Triton calls them at each launch."""
    run(
        """
        from triton_proton.hooks import HookManager

        class Launch:
            def __init__(self):
                self.data = {"name": "mm_64", "function": 0, "stream": 0, "flops16": 1000.0}

            def get(self):
                return self.data

        proton.start("p", hook="triton")
        for _ in range(3):
            launched = Launch()
            HookManager.enter(launched)
            launch("raw_symbol", 40)
            HookManager.exit(launched)
        launch("raw_symbol", 40)
        proton.finalize()
        """
    )
    root = load("p.hatchet")
    assert names(root) == {"mm_64", "raw_symbol"}
    named = metrics(root, "mm_64")
    assert (named["count"], named["time (ns)"], named["flops16"]) == (3, 120, 3000)
    assert metrics(root, "raw_symbol")["count"] == 1


def test_each_session_has_the_launches_that_it_was_active_for(run):
    run(
        """
        first = proton.start("a")
        launch("one")
        second = proton.start("b")
        launch("two")
        proton.deactivate(first)
        launch("three")
        proton.activate(first)
        proton.deactivate(second)
        launch("four")
        proton.finalize(first)
        proton.activate(second)
        launch("five")
        proton.finalize()
        launch("after")
        """
    )
    assert names(load("a.hatchet")) == {"one", "two", "four"}
    assert names(load("b.hatchet")) == {"two", "three", "five"}


def test_data_of_a_running_session_and_its_phases(run):
    printed = run(
        """
        import json
        session = proton.start("p")
        launch("early")
        proton.deactivate(session, flushing=True)
        first = proton.data.get(session)
        proton.activate(session)
        proton.data.advance_phase(session)
        launch("late")
        proton.deactivate(session, flushing=True)
        print(json.dumps(first))
        print(json.dumps(proton.data.get(session, phase=1)))
        proton.finalize()
        """
    )
    first, second = (json.loads(line) for line in printed.splitlines())
    assert names(first[0]) == {"early"}
    assert names(second[0]) == {"late"}


def test_python_frames_are_the_context(run):
    run(
        """
        def layer():
            launch("mm")

        proton.start("p", context="python")
        for _ in range(2):
            layer()
        proton.finalize()
        """
    )
    [(path, node)] = [found for found in walk(load("p.hatchet")) if found[0][-1] == "mm"]
    assert "layer" in path[-3] and node["metrics"]["count"] == 2


def test_a_trace_has_the_launches_and_their_kernels(run):
    run(
        """
        proton.start("p", data="trace")
        with proton.scope("step"):
            launch("mm", 500)
            launch("add", 300)
        proton.finalize(output_format="chrome_trace")
        """
    )
    (path,) = Path(".").glob("p*.chrome_trace")
    events = json.loads(path.read_text())["traceEvents"]
    durations = {event["name"]: event["dur"] for event in events if event.get("ph") == "X"}
    assert durations["mm"] == pytest.approx(0.5)
    assert durations["add"] == pytest.approx(0.3)
    assert "step" in durations
