"""Instrumentation with default settings on a GPU: large grids, and autotuning.

    python -m pytest tests/gpu/test_intra_defaults.py

Needs the installed package, torch with CUDA and triton.
"""

import json
from pathlib import Path

import gpus
import pytest

torch = gpus.need(gpus.NVIDIA, "kernels are compiled for it")
pytest.importorskip("triton")

import triton  # noqa: E402
import triton.language as tl  # noqa: E402
import triton_proton as proton  # noqa: E402


@triton.jit
def cross_entropy(x, out, columns, BLOCK: tl.constexpr):
    row = x + tl.program_id(0) * columns
    best = -float("inf")
    total = 0.0
    for at in range(0, columns, BLOCK):
        offsets = at + tl.arange(0, BLOCK)
        values = tl.load(row + offsets, mask=offsets < columns, other=-float("inf"))
        new = tl.maximum(best, tl.max(values, 0))
        total = total * tl.exp(best - new) + tl.sum(tl.exp(values - new), 0)
        best = new
    tl.store(out + tl.program_id(0), best + tl.log(total))


def names_below(path: Path, kernel: str) -> set[str]:
    queue = [json.loads(path.read_text())[0]]
    for node in queue:
        if node["frame"]["name"] == kernel:
            return {child["frame"]["name"].partition("@")[0] for child in node["children"]}
        queue += node["children"]
    return set()


@pytest.mark.parametrize("data", ["tree", "trace"])
def test_no_launch_of_a_large_grid_is_lost(data, tmp_path, capfd, monkeypatch):
    """4,096 CTAs of 32 warps, 60 launches without waiting in between."""
    monkeypatch.delenv("PROTON_QUIET", raising=False)
    x = torch.randn(4096, 8192, device="cuda")
    out = torch.empty(4096, device="cuda")
    expected = torch.logsumexp(x, 1)
    proton.start(str(tmp_path / "run"), backend="instrumentation", mode="default:auto=all",
        data=data)
    for _ in range(60):
        cross_entropy[(4096,)](x, out, 8192, BLOCK=4096, num_warps=32)
    torch.cuda.synchronize()
    proton.finalize()
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)
    errors = capfd.readouterr().err
    assert "were not sampled" not in errors, errors
    if data == "tree":
        assert names_below(tmp_path / "run.hatchet", "cross_entropy")


def test_autotuning_times_plain_kernels(tmp_path):
    modes = []

    def bench(call, quantiles):
        modes.append(triton.knobs.compilation.instrumentation_mode)
        return triton.testing.do_bench(call, quantiles=quantiles, warmup=1, rep=5)

    configs = [triton.Config({"BLOCK": 2048}, num_warps=warps) for warps in (4, 16)]
    tuned = triton.autotune(configs, key=[], do_bench=bench)(cross_entropy)
    x = torch.randn(512, 8192, device="cuda")
    out = torch.empty(512, device="cuda")
    proton.start(str(tmp_path / "run"), backend="instrumentation", mode="default:auto=all")
    tuned[(512,)](x, out, 8192)
    torch.cuda.synchronize()
    proton.finalize()
    assert modes == ["", ""]
    assert names_below(tmp_path / "run.hatchet", "cross_entropy")
    torch.testing.assert_close(out, torch.logsumexp(x, 1), rtol=1e-4, atol=1e-4)
