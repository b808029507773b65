"""`proton doctor --amd` on machines of fakes, with a small module in the place of PyTorch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cmd_support import environment, proton
from test_amd_orders import install, programs, pytestmark  # noqa: F401

TORCH = '''
import contextlib, ctypes, os
_steps = ctypes.CDLL(os.environ["FAKE_STEPS"])
_capturing = []

def _sdk():
    return ctypes.CDLL(os.environ["FAKE_SDK_PATH"])

class version:
    hip = "7.0"

class _Tensor:
    def add_(self, other):
        if _capturing:
            _sdk().fake_graph_capture_kernel(_capturing[-1].number, b"node")
            return
        _steps.step(b"launch")
    mul_ = add_

def ones(size, device):
    _steps.step(b"queue")
    return _Tensor()

class CUDAGraph:
    exec = 0
    def __init__(self):
        self.number = _sdk().fake_graph_create()
    def replay(self):
        self.exec = self.exec or _sdk().fake_graph_instantiate(self.number)
        _sdk().fake_graph_launch(self.exec, b"node", True)

class cuda:
    CUDAGraph = CUDAGraph
    def device_count():
        _steps.step(b"hip")
        return int(os.environ.get("FAKE_GPUS", "2"))
    def synchronize():
        pass
    @contextlib.contextmanager
    def graph(graph):
        _capturing.append(graph)
        _sdk().fake_call(495, 0)  # the begin and the end of a capture
        yield
        _sdk().fake_call(497, 0)
        _capturing.pop()
'''
PROFILER = """
import contextlib, enum, os, ctypes

class ProfilerActivity(enum.Enum):
    CUDA = 1

class profile(contextlib.AbstractContextManager):
    def __init__(self, activities):
        pass
    def events(self):
        return [1]
    def __exit__(self, *exc):
        pass
"""
NAMES = [
    "device", "PyTorch sees the GPUs", "kernels, Proton first", "kernels, HIP first",
    "kernels, a queue of HIP first", "kernels, roctracer", "a graph's kernels",
    "kernels beside torch.profiler", "PC samples", "kernels of a program under the command",
]


@pytest.fixture
def diagnose(programs, tmp_path):  # noqa: F811
    """Runs the checks: (status, report, output)."""
    found = install(tmp_path, "/opt/rocm")
    torch = tmp_path / "modules" / "torch"
    torch.mkdir(parents=True)
    (torch / "__init__.py").write_text(TORCH)
    (torch / "profiler.py").write_text(PROFILER)
    found |= {"PYTHONPATH": str(torch.parent), "FAKE_STEPS": str(programs / "libsteps.so")}

    def run(**changes: str):
        env = environment(PROTON_BACKEND=None, TRITON_INTERPRET=None, **(found | changes))
        done = proton("doctor", "--amd", "--report", "r.json", cwd=tmp_path, env=env)
        return done.returncode, json.loads((tmp_path / "r.json").read_text()), done.stdout

    return run


def outcomes(report: dict) -> dict[str, str]:
    return {check["name"]: check["outcome"] for check in report["checks"]}


def test_all_is_well_with_the_fakes_which_have_no_samples(diagnose):
    status, report, output = diagnose()
    assert outcomes(report) == dict.fromkeys(NAMES, "ok") | {"PC samples": "differs"}, output
    assert status == 0
    assert "10 of 10 kernels, rocprofiler-sdk 1.2.1 in /" in output
    assert "a queue of HIP first: 10 of 10 kernels, roctracer 4.1 in /" in output
    assert "9 of 10 checks are as on the developers' fakes\n" in output
    assert "send r.json in an issue" in output


def test_a_failure_has_its_message_and_asks_for_the_report(diagnose):
    status, report, output = diagnose(FAKE_CUPTI_FAIL="create_buffer=1")
    assert status == 1
    assert outcomes(report)["kernels, Proton first"] == "FAILED"
    assert "FAILED  kernels, Proton first: " in output
    assert "rocprofiler_create_buffer failed: status 1 of rocprofiler-sdk" in output
    (check,) = [one for one in report["checks"] if one["name"] == "kernels, Proton first"]
    assert "rocprofiler_create_buffer" in check["errors"]
    assert "send r.json in an issue" in output
    assert report["environment"]["PROTON_HIP_PATH"].endswith("libamdhip64.so.7")


def test_without_the_device_nothing_else_is_tried(diagnose):
    status, report, output = diagnose(PROTON_KFD_DEVICE="/nonexistent")
    assert status == 1
    assert outcomes(report) == {"device": "FAILED"}
    assert "no /nonexistent: no AMD GPU, no driver, or a container without the device" in output


def test_it_needs_the_vendor(tmp_path: Path):
    done = proton("doctor", cwd=tmp_path)
    assert done.returncode == 2
    assert "the following arguments are required: --amd" in done.stderr
