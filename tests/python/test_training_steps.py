"""Names of kernels in training steps, without a GPU: the cases of tests/gpu/test_names.py."""

import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

sys.path.append(str(Path(__file__).resolve().parents[1] / "gpu"))
import training_checks as checks

INTERPRETED = "scale_kernel"  # is not an operator


@pytest.fixture(params=["llama", "triton"])
def model(request, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROTON_BACKEND", "host")
    monkeypatch.setenv("PROTON_TEST_DEVICE", "cpu")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    return request.param


def test_kernels_have_lines_of_the_model(model):
    root = checks.record(model, "-c", "python")
    checks.kernels_have_lines(root)
    checks.lines_add_up("test.hatchet", root)
    interpreted = sum(count for path, count in checks.kernels(root) if path[-1] == INTERPRETED)
    assert interpreted == (32 if model == "triton" else 0)
    assert checks.total(root) - interpreted == sum(checks.count_kernels(model).values())


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="operators are recorded on x86-64 only")
def test_backward_operators_are_below_the_line_of_their_forward_operator(model):
    checks.operators_match(checks.record(model, "-c", "python", "--torch-ops"), model)


def test_modules_contain_their_backward_kernels(model):
    checks.modules_match(checks.record(model, "--modules"), model)
