"""NVTX ranges as scopes, with the NVTX that is in PyTorch; skipped without a GPU.

    python -m pytest tests/gpu

Needs the installed package and torch with CUDA. Each script runs in its own Python process: NVTX
looks for its tool once in a process, at its first call.
"""

import os
import subprocess
import sys

import gpus
import pytest

torch = gpus.need(gpus.NVIDIA, "NVTX")

from trees import at, kernels, load

BEGIN = """
import os, torch
import triton_proton as proton
x = torch.ones(1 << 16, device="cuda")
torch.cuda.synchronize()
"""


def run(code: str, tmp_path, **variables: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "script.py"
    script.write_text(BEGIN + code)
    environment = {k: v for k, v in os.environ.items() if k != "PROTON_BACKEND"}
    environment.update(variables)
    return subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True,
        text=True, check=True, timeout=300,
    )


RANGES = """
proton.start("test")
print(os.popen("echo $NVTX_INJECTION64_PATH").read().strip() != "")
with torch.cuda.nvtx.range("outer"):
    x.add_(1)
    torch.cuda.nvtx.range_push("inner")
    with proton.scope("mine"):
        x.add_(1)
    torch.cuda.nvtx.range_pop()
torch.cuda.nvtx.range_pop()  # one too many
x.add_(1)
proton.finalize()
print(os.popen("echo $NVTX_INJECTION64_PATH").read().strip() != "")
torch.cuda.nvtx.range_push("after")
torch.cuda.nvtx.range_pop()
"""


def test_ranges_are_scopes(tmp_path):
    result = run(RANGES, tmp_path)
    assert result.stdout.split() == ["True", "False"]
    file = tmp_path / "test.hatchet"
    assert kernels(at(load(file), "outer")) == 2
    assert kernels(at(load(file), "outer", "inner", "mine")) == 1
    assert kernels(load(file)) == 3


def test_ranges_can_be_switched_off(tmp_path):
    run(RANGES, tmp_path, TRITON_ENABLE_NVTX="0")
    names = [child["frame"]["name"] for child in load(tmp_path / "test.hatchet")["children"]]
    assert "outer" not in names and "mine" in names


def test_a_tool_of_the_users_is_left_alone(tmp_path):
    result = run(RANGES, tmp_path, NVTX_INJECTION64_PATH="/no/such/tool.so")
    assert result.stdout.split() == ["True", "True"]
    assert "NVTX_INJECTION64_PATH is already set to /no/such/tool.so" in result.stderr
    assert result.stderr.count("NVTX_INJECTION64_PATH") == 1
    assert kernels(load(tmp_path / "test.hatchet")) == 3


def test_ranges_of_autograd_in_a_second_session(tmp_path):
    run(
        """
w = torch.randn(64, 64, device="cuda", requires_grad=True)
for name in ("first", "second"):
    proton.start(name)
    with torch.autograd.profiler.emit_nvtx():
        with torch.cuda.nvtx.range("step"):
            (w @ w).relu().sum().backward()
    proton.finalize()
""",
        tmp_path,
    )
    for name in ("first", "second"):
        assert kernels(at(load(tmp_path / f"{name}.hatchet"), "step")) >= 3
