"""Scopes in a loop that Triton specializes itself, on a GPU: they are where their operations went.

    python -m pytest tests/gpu/test_intra_specialize.py

Needs the installed package, torch with CUDA and triton.
"""

import json
from typing import Any

import gpus
import pytest

torch = gpus.need(gpus.NVIDIA, "Triton specializes for Hopper and Blackwell")

import triton
import triton.language as tl

import triton_proton as proton
import triton_proton.language as pl

if torch.cuda.get_device_capability()[0] not in (9, 10):
    pytest.skip("Triton specializes for Hopper and Blackwell", allow_module_level=True)

ROWS, COLUMNS, STEP = 128, 128, 64


@triton.jit
def specialized(a, b, c, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr):
    a_at = tl.make_tensor_descriptor(a, [n, n], [n, 1], [ROWS, STEP])
    b_at = tl.make_tensor_descriptor(b, [n, n], [n, 1], [COLUMNS, STEP])
    c_at = tl.make_tensor_descriptor(c, [n, n], [n, 1], [ROWS, COLUMNS])
    row, column = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for k in tl.range(0, n, STEP, warp_specialize=True, num_stages=2):
        with pl.scope("load"):
            left = a_at.load([row, k])
            right = b_at.load([column, k])
        with pl.scope("dot"):
            total = tl.dot(left, right.T, total)
    with pl.scope("store"):
        c_at.store([row, column], total.to(tl.float16))


def executions() -> dict[str, Any]:
    with open("run.hatchet", encoding="utf-8") as file:
        (kernel,) = json.load(file)[0]["children"]
    scopes = {child["frame"]["name"]: child["metrics"] for child in kernel["children"]}
    return {name: metrics["executions"] for name, metrics in scopes.items()}


@pytest.mark.parametrize("buffer", ["shared", "global"])
@pytest.mark.parametrize("size", [512, 1024])
@pytest.mark.parametrize("tree", ["records", "auto"])
def test_scopes_in_partitions(buffer, size, tree, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    triton.set_allocator(
        lambda bytes, alignment, stream: torch.empty(bytes, dtype=torch.int8, device="cuda")
    )
    torch.manual_seed(1)
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(2))
    grid = (size // ROWS, size // COLUMNS)

    def run():
        c = torch.empty_like(a)
        specialized[grid](a, b, c, size, ROWS, COLUMNS, STEP, num_warps=4)
        torch.cuda.synchronize()
        return c

    expected = run()
    mode = f"default:buffer_type={buffer}:buffer_size=65536:tree={tree}"
    proton.start("run", backend="instrumentation", mode=mode)
    made = run()
    proton.finalize()
    assert torch.equal(made, expected)
    torch.testing.assert_close(made, a @ b.T, rtol=1e-2, atol=1e-1)
    found = executions()
    assert set(found) == {"load", "dot", "store"}
    ctas, steps = grid[0] * grid[1], size // STEP
    # As many warps as the partitions have that took these operations.
    assert found["load"] > 0 and found["load"] % (ctas * steps) == 0
    assert found["dot"] > 0 and found["dot"] % (ctas * steps) == 0
    assert found["store"] > 0 and found["store"] % ctas == 0
