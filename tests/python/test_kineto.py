"""The warning if torch.profiler starts while a session uses CUPTI (a fake one)."""

import os
import subprocess
import sys
from pathlib import Path

import fake_driver
import pytest

from built import FAKES
from support import run_command

# A module with the function that initializes Kineto, as PyTorch's has it.
FAKE = """
import enum, sys, types

class Activity(enum.Enum):
    CPU = 0
    CUDA = 1

calls = []

def make():
    torch = types.ModuleType("torch")
    torch.__path__ = []
    autograd = types.ModuleType("torch.autograd")
    autograd.__path__ = []
    profiler = types.ModuleType("torch.autograd.profiler")

    def _prepare_profiler(config, activities, activity_filter=None):
        calls.append(activities)
        return len(calls)

    profiler._prepare_profiler = _prepare_profiler
    sys.modules.update({"torch": torch, "torch.autograd": autograd})
    sys.modules["torch.autograd.profiler"] = profiler
    return profiler
"""
TEXT = "torch.profiler starts while Proton uses CUPTI, which serves one of them"


def run(tmp_path: Path, body: str, **env: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "script.py"
    script.write_text(FAKE + "\nimport triton_proton as proton\n" + body)
    return run_command(
        [sys.executable, script], cwd=tmp_path,
        env={**os.environ, **fake_driver.libraries(), "PROTON_QUIET": "0", **env}, status=None,
    )


@pytest.mark.parametrize("interface", ["", "1", "2"])
def test_a_start_during_a_session_is_announced_once(tmp_path: Path, interface: str) -> None:
    done = run(
        tmp_path,
        """
profiler = make()
original = profiler._prepare_profiler
session = proton.start("p", backend="cupti")
assert profiler._prepare_profiler("config", {Activity.CPU}) == 1
assert profiler._prepare_profiler("config", {Activity.CPU, Activity.CUDA}) == 2
assert profiler._prepare_profiler("config", {Activity.CUDA}, activity_filter=None) == 3
proton.finalize(session, output_format="none")
# The hook stays: CUPTI may be attached still, and is left before Kineto starts.
profiler._prepare_profiler("config", {Activity.CUDA})
print(len(calls))
""",
        FAKE_CUPTI_VERSION="130500",
        PROTON_CUPTI_INTERFACE=interface,
    )
    assert (done.returncode, done.stdout) == (0, "4\n"), done.stderr
    assert done.stderr.count(TEXT) == 1


def test_work_of_the_cpu_and_other_backends_are_not_announced(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
profiler = make()
session = proton.start("p", backend="cupti")
profiler._prepare_profiler("config", {Activity.CPU})
proton.finalize(session, output_format="none")
session = proton.start("p", backend="host")
profiler._prepare_profiler("config", {Activity.CUDA})
proton.finalize(session, output_format="none")
""",
    )
    assert done.returncode == 0, done.stderr
    assert TEXT not in done.stderr


@pytest.mark.skipif(not (FAKES / "libtorch_cpu.so").exists(), reason="no fake libraries")
@pytest.mark.parametrize("version", ["10201", "10302"])
def test_kineto_is_registered_with_rocprofiler_sdk_or_a_message_is_printed(version, tmp_path):
    """Without a session, too: the import has registered."""
    done = run(
        tmp_path,
        """
import ctypes, os
torch = ctypes.CDLL(os.environ["FAKE_TORCH_PATH"])
profiler = make()
proton._kineto._watch(profiler)
profiler._prepare_profiler("config", {Activity.CPU})
torch.fake_kineto_start()
print(torch.fake_kineto_is_registered() & 1)
profiler._prepare_profiler("config", {Activity.CUDA})
print(torch.fake_kineto_is_registered() & 1)
""",
        PROTON_HIP_PATH=str(FAKES / "libfake_hip.so"),
        PROTON_ROCPROFILER_SDK_PATH=str(FAKES / "libfake_rocprofiler_sdk.so"),
        FAKE_SDK_PATH=str(FAKES / "libfake_rocprofiler_sdk.so"),
        FAKE_TORCH_PATH=str(FAKES / "libtorch_cpu.so"),
        FAKE_SDK_VERSION=version,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0", "0" if version == "10201" else "1"]
    assert ("torch.profiler has no GPU events" in done.stderr) == (version == "10201")


def test_pytorchs_profiler_still_works(tmp_path: Path) -> None:
    """The hook is on a private function: it must be there, and be called."""
    pytest.importorskip("torch", reason="torch")
    script = tmp_path / "script.py"
    script.write_text(
        """
import torch
import triton_proton as proton
import torch.autograd.profiler as profiler

seen, prepare = [], profiler._prepare_profiler
profiler._prepare_profiler = spy = lambda *a, **k: (seen.append(1), prepare(*a, **k))[1]
session = proton.start("p", backend="cupti")
assert profiler._prepare_profiler.__wrapped__ is spy
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as found:
    torch.ones(4).sum()
proton.finalize(session, output_format="none")
print(len(seen), len(found.key_averages()) > 0, torch.profiler.ProfilerActivity.CUDA.name)
"""
    )
    done = run_command(
        [sys.executable, script], cwd=tmp_path, env={**os.environ, **fake_driver.libraries()},
        status=None,
    )
    assert (done.returncode, done.stdout) == (0, "1 True CUDA\n"), done.stderr
