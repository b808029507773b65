"""Peculiarities of AMD GPUs: agents and ordinals, kernel names, the recorder's description.

    python -m pytest tests/gpu

Needs ROCm 7.0 or later with rocprofiler-sdk, and torch for ROCm.
"""

import os
import re
import subprocess
import sys

import gpus
import pytest
from trees import at, kernels, load, load_all, names

torch = gpus.need(gpus.AMD, "agents and rocprofiler-sdk")

import triton_proton as proton

N = 1 << 18

# Argument: the device. Two scopes with different numbers of kernels.
SCRIPT = """
import sys, torch
import triton_proton as proton
x = torch.ones(1 << 18, device=f"cuda:{sys.argv[1]}")
x.add_(1)
torch.cuda.synchronize()
proton.start("visible")
with proton.scope("work"):
    for _ in range(20):
        x.add_(1)
proton.finalize()
print(torch.cuda.get_device_properties(int(sys.argv[1])).name)
"""


@pytest.fixture
def tensor(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PROTON_BACKEND", raising=False)
    tensor = torch.ones(N, device="cuda")
    tensor.add_(1)
    torch.cuda.synchronize()
    yield tensor
    proton.finalize(None, "none")


def test_kernels_have_demangled_names_without_suffix(tensor):
    proton.start("test")
    with proton.scope("work"):
        for _ in range(50):
            tensor.add_(1)
    proton.finalize()
    work = at(load(), "work")
    assert kernels(work) == 50
    assert not [name for name in names(work) if name.endswith(".kd") or name.startswith("_Z")]
    (kernel,) = work["children"]
    assert kernel["metrics"]["time (ns)"] > 50 * 100


def test_a_profile_names_its_recorder(tensor):
    proton.start("test")
    for _ in range(3000):
        tensor.add_(1)
    proton.finalize()
    root, devices = load_all()
    info = root["proton"]["info"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", info["rocprofiler_sdk"])
    assert "librocprofiler-sdk" in info["rocprofiler_sdk_path"]
    assert devices["HIP"]["0"]["arch"].startswith("gfx")
    for key in ("overhead_callbacks_ns", "overhead_records_ns"):
        assert 0 < int(info[key]) < 3000 * 20_000


def run_visible(tmp_path, device: int, **variables: str) -> tuple[str, dict, dict]:
    """(the device's name in torch, the profile, its devices) under these variables."""
    clean = {key: value for key, value in os.environ.items() if "VISIBLE" not in key}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(device)], cwd=tmp_path, env=clean | variables,
        capture_output=True, text=True, check=True, timeout=300,
    )
    return (done.stdout.strip(), *load_all(tmp_path / "visible.hatchet"))


@pytest.mark.parametrize(
    "variable", ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"]
)
def test_kernels_are_on_the_device_that_the_program_names(variable, tmp_path):
    last = torch.cuda.device_count() - 1
    name, root, devices = run_visible(tmp_path, 0, **{variable: str(last)})
    assert kernels(at(root, "work")) == 20
    assert set(devices["HIP"]) == {"0"}
    assert devices["HIP"]["0"]["name"] == name


@pytest.mark.skipif(torch.cuda.device_count() < 3, reason="needs three GPUs")
def test_variables_are_composed(tmp_path):
    variables = {"ROCR_VISIBLE_DEVICES": "2,1,0", "HIP_VISIBLE_DEVICES": "2,0"}
    _, root, devices = run_visible(tmp_path, 1, **variables)
    assert kernels(at(root, "work")) == 20
    assert set(devices["HIP"]) == {"1"}


def test_the_command_records_a_script_and_its_children(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(
        "import subprocess, sys, torch\n"
        "x = torch.ones(1 << 18, device='cuda')\n"
        "for _ in range(30):\n"
        "    x.add_(1)\n"
        "torch.cuda.synchronize()\n"
        "if len(sys.argv) == 1:\n"
        "    subprocess.run([sys.executable, __file__, 'child'], check=True)\n"
    )
    command = [sys.executable, "-m", "triton_proton", "-n", "run", str(script)]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300
    )
    profiles = sorted(tmp_path.glob("run*.hatchet"))
    assert len(profiles) == 2, done.stderr
    for profile in profiles:
        assert kernels(load(profile)) >= 30
