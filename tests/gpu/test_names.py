"""Names of kernels in training steps: lines of the model, modules and operators, on a GPU.

    python -m pytest tests/gpu

Needs the installed package, torch with CUDA and triton; a case needs transformers. The programs
are in training_steps.py; tests/python/test_training_steps.py runs them without a GPU.
"""

import re
import sys
from pathlib import Path

import gpus
import pytest

torch = gpus.need()
pytest.importorskip("triton")

import training_checks as checks

MODELS = ("llama", "transformers", "triton")


@pytest.fixture(params=MODELS)
def model(request, monkeypatch, tmp_path):
    if request.param == "transformers":
        pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PROTON_BACKEND", raising=False)
    monkeypatch.delenv("PROTON_TEST_DEVICE", raising=False)
    return request.param


def test_kernels_have_lines_of_the_model(model):
    root = checks.record(model, "-c", "python")
    checks.kernels_have_lines(root)
    checks.lines_add_up("test.hatchet", root)
    assert checks.total(root) == sum(checks.count_kernels(model).values())


def test_backward_operators_are_below_the_line_of_their_forward_operator(model):
    checks.operators_match(checks.record(model, "-c", "python", "--torch-ops"), model)


def test_modules_contain_their_backward_kernels(model):
    checks.modules_match(checks.record(model, "--modules"), model)


COMPILED = """
import torch
import triton_proton as proton

weight = torch.ones(64, device="cuda", requires_grad=True)

@torch.compile
def model(x):
    scaled = x * weight
    return torch.nn.functional.gelu(scaled).sum(-1)

def step():
    model(torch.ones(8, 64, device="cuda")).sum().backward()
    torch.cuda.synchronize()

step()
proton.start("compiled", context="python")
step()
proton.finalize()
"""


def test_kernels_of_compiled_code_are_below_their_operators(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("compiled.py").write_text(COMPILED, encoding="utf-8")
    checks.run([sys.executable, "compiled.py"])
    kernels = checks.kernels(checks.load("compiled.hatchet"))
    generated = [path for path, _ in kernels if path[-1].startswith("triton_")]
    assert any(checks.BACKWARD in path for path in generated)
    assert any(checks.BACKWARD not in path for path in generated)
    for path in generated:
        calls = (i for i, name in enumerate(path) if re.search(r"/c\w{40,}\.py:\d+@", name))
        below = path[max(calls) + 1 :]
        assert re.search(r"compiled\.py:\d+@model", below[0]), path
        assert re.fullmatch(r"<.*\baten\..*>", below[1]), path


COMPILED_MODULES = """
import sys
import torch
import triton_proton as proton

class MLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(256, 1024)
        self.down = torch.nn.Linear(1024, 256)

    def forward(self, x):
        return self.down(torch.nn.functional.gelu(self.up(x)))

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(MLP() for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

compiled = torch.compile(Model().cuda().half(), mode=sys.argv[1])
x = torch.ones(64, 256, device="cuda", dtype=torch.half)

def step():
    # With CUDA graphs, gradients of the last step are overwritten by those of this one.
    compiled.zero_grad(set_to_none=True)
    compiled(x).sum().backward()
    torch.cuda.synchronize()

# Graphs are captured while a session records: their kernels have the names of the capture.
proton.start("warm", context="shadow", modules=True)
for _ in range(4):
    step()
proton.finalize()
proton.start("both", context="python+scopes", modules=True)
step()
proton.finalize()
"""


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune-no-cudagraphs"])
def test_kernels_of_compiled_code_have_modules(mode, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    Path("modules.py").write_text(COMPILED_MODULES, encoding="utf-8")
    checks.run([sys.executable, "modules.py", mode])
    found = {name for path, _ in checks.kernels(checks.load("warm.hatchet")) for name in path}
    for i in range(3):
        assert {f"layers.{i}", f"layers.{i}.up", f"layers.{i}.down"} <= found
