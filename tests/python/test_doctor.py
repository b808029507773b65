"""`proton doctor` on machines of fakes, with a small module in the place of PyTorch."""

import json
import os
from pathlib import Path

import pytest

from cmd_support import environment, proton
from fake_driver import launcher, libraries
from test_amd_orders import install, programs, pytestmark  # noqa: F401

# Of both vendors; _library(), _launch(), _begin() and _note_capture() are theirs.
TORCH = '''
import contextlib, ctypes, os
_capturing = []

class _Tensor:
    def add_(self, other):
        if _capturing:
            _library().fake_graph_capture_kernel(_capturing[-1].number, b"node")
        else:
            _launch()
    mul_ = add_

def ones(size, device):
    _begin("queue")
    return _Tensor()

class CUDAGraph:
    exec = 0
    def __init__(self):
        self.number = _library().fake_graph_create()
    def replay(self):
        self.exec = self.exec or _library().fake_graph_instantiate(self.number)
        _library().fake_graph_launch(self.exec, b"node", True)

class cuda:
    CUDAGraph = CUDAGraph
    def device_count():
        _begin("hip")
        return int(os.environ.get("FAKE_GPUS", "2"))
    def synchronize():
        pass
    @contextlib.contextmanager
    def graph(graph):
        _capturing.append(graph)
        _note_capture(495)
        yield
        _note_capture(497)
        _capturing.pop()
'''
HIP_TORCH = TORCH + '''
_steps = ctypes.CDLL(os.environ["FAKE_STEPS"])

class version:
    hip = "7.0"

def _library():
    return ctypes.CDLL(os.environ["FAKE_SDK_PATH"])

def _launch():
    _steps.step(b"launch")

def _begin(step):
    _steps.step(step.encode())

def _note_capture(call):
    _library().fake_call(call, 0)
'''
CUDA_TORCH = TORCH + '''
_launcher = ctypes.CDLL(os.environ["FAKE_LAUNCHER"])

class version:
    cuda = "13.0"

def _library():
    return ctypes.CDLL(os.environ["PROTON_CUPTI_PATH"])

def _launch():
    _launcher.launch(b"add", ctypes.c_ulonglong(1000))

def _begin(step):
    pass

def _note_capture(call):
    pass
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
    "package", "command", "triton", "torch", "device", "PyTorch sees the GPUs",
    "kernels, Proton first", "kernels, HIP first", "kernels, a queue of HIP first",
    "kernels, roctracer", "a graph's kernels", "kernels beside torch.profiler", "PC samples",
    "kernels of a program under the command",
]


@pytest.fixture
def diagnose(programs, tmp_path):  # noqa: F811
    """Runs the checks: (status, report, output)."""
    found = install(tmp_path, "/opt/rocm")
    torch = tmp_path / "modules" / "torch"
    torch.mkdir(parents=True)
    (torch / "__init__.py").write_text(HIP_TORCH)
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
    assert "13 of 14 checks are ok\n" in output
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
    assert outcomes(report) == dict.fromkeys(NAMES[:4], "ok") | {"device": "FAILED"}
    assert "no /nonexistent: no AMD GPU, no driver, or a container without the device" in output


# ---------------------------------------------------------------------- NVIDIA

NVIDIA_NAMES = [
    *NAMES[:6], "kernels, Proton first", "kernels, CUDA first", "a graph's kernels",
    "kernels after torch.profiler", "PC samples", NAMES[-1],
]


@pytest.fixture
def diagnose_nvidia(tmp_path):
    """Runs the checks: (status, report)."""
    torch = tmp_path / "modules" / "torch"
    torch.mkdir(parents=True)
    (torch / "__init__.py").write_text(CUDA_TORCH)
    (torch / "profiler.py").write_text(PROFILER)

    def run(**changes: str):
        found = libraries() | {
            "PYTHONPATH": str(torch.parent),
            "FAKE_LAUNCHER": launcher(),
            "PROTON_NVIDIA_DEVICE": "/dev/null",
            "PROTON_BACKEND": None,
            "TRITON_INTERPRET": None,
        }
        env = environment(**(found | changes))
        done = proton("doctor", "--json", cwd=tmp_path, env=env)
        return done.returncode, json.loads(done.stdout)

    return run


def test_a_machine_with_nvidia_gpus(diagnose_nvidia):
    status, report = diagnose_nvidia()
    assert outcomes(report) == dict.fromkeys(NVIDIA_NAMES, "ok") | {"PC samples": "differs"}, report
    assert status == 0
    (check,) = [one for one in report["checks"] if one["name"] == "kernels, Proton first"]
    assert check["text"].startswith("10 of 10 kernels, CUPTI ")


def test_a_driver_that_refuses_is_named_with_the_remedy(diagnose_nvidia):
    status, report = diagnose_nvidia(FAKE_CUPTI_FAIL="cuptiActivityEnable=35")
    assert status == 1
    (check,) = [one for one in report["checks"] if one["name"] == "kernels, Proton first"]
    assert check["outcome"] == "FAILED"
    assert "NVreg_RestrictProfilingToAdminUsers=0" in check["text"]


def test_gpus_that_are_hidden_from_pytorch(diagnose_nvidia):
    status, report = diagnose_nvidia(FAKE_GPUS="0")
    assert status == 1
    assert report["checks"][-1]["text"] == "0 GPUs, CUDA 13.0"


def test_a_machine_without_a_gpu(diagnose_nvidia):
    status, report = diagnose_nvidia(PROTON_NVIDIA_DEVICE="/none", PROTON_KFD_DEVICE="/none")
    assert status == 1
    assert report["checks"][-1]["text"].startswith("no /none: no NVIDIA GPU, no driver, or ")


def test_the_command_of_triton_on_the_path_is_found(diagnose_nvidia, tmp_path):
    other = tmp_path / "bin" / "proton"
    other.parent.mkdir()
    other.write_text("#!/usr/bin/python3\nfrom triton.profiler.proton import main\n")
    other.chmod(0o755)
    path = f"{other.parent}:{os.environ['PATH']}"
    _, report = diagnose_nvidia(PATH=path, PROTON_NVIDIA_DEVICE="/none", PROTON_KFD_DEVICE="/none")
    (check,) = [one for one in report["checks"] if one["name"] == "command"]
    assert check["outcome"] == "differs"
    assert check["text"].endswith("is the command of Triton's profiler: use `triton-proton`")
