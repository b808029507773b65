"""Warp analysis on a GPU: kernels with a known critical path.

    python -m pytest tests/gpu/test_intra_warps.py

Needs the installed package, torch with CUDA and triton; Hopper for the warp-specialized ones.
"""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import gpus
import pytest

torch = gpus.need(gpus.NVIDIA, "its kernels contain PTX and mbarriers")

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

import triton_proton as proton
import triton_proton.language as pl

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "intra" / "example_warps.py"
hopper = pytest.mark.skipif(
    torch.cuda.get_device_capability()[0] < 9, reason="needs mbarriers of Hopper"
)
only_hopper = pytest.mark.skipif(
    torch.cuda.get_device_capability()[0] != 9, reason="needs WGMMA, which Hopper has"
)


@pytest.fixture(autouse=True)
def own_directory(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PROTON_BACKEND", raising=False)
    yield
    proton.finalize(None, "none")


def report() -> dict[str, Any]:
    """The kernel's object of `proton-viewer --warps --json`, with its sums checked."""
    command = [sys.executable, "-m", "triton_proton.viewer", "--warps", "run.hatchet"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    print(done.stdout)  # seen with -s, and when a test fails
    done = subprocess.run(
        [*command, "--json"], capture_output=True, text=True, check=True, timeout=300
    )
    (kernel,) = json.loads(done.stdout)["kernels"]
    path = sum(work["path_cycles"] for work in kernel["asynchronous"])
    for role in kernel["roles"]:
        scopes = role["scopes"]
        path += role["path_cycles"] + sum(scope["path_cycles"] for scope in scopes)
        spent = sum(scope.get("busy_cycles", 0) + scope.get("wait_cycles", 0) for scope in scopes)
        assert spent + role["idle_cycles"] == role["warp_cycles"]
    assert path == kernel["cta_cycles"]
    for work in kernel["asynchronous"]:
        assert 0 <= work.get("overlapped_cycles", 0) <= work["async_cycles"]
    return kernel


def share_of_path(kernel: dict[str, Any], *words: str) -> float:
    """The share of scopes with names that begin with `words`, including asynchronous ones."""
    rows = list(kernel["asynchronous"])
    for role in kernel["roles"]:
        rows += role["scopes"]
    cycles = sum(row["path_cycles"] for row in rows if row["scope"].startswith(words))
    return cycles / kernel["cta_cycles"]


def roles_of(kernel: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By the operation in their names: "default@a.py:1 (warps 0-3)", or "default (warps 0-3)"."""
    return {re.split("[@ ]", role["role"])[0]: role for role in kernel["roles"]}


def waiting(role: dict[str, Any]) -> float:
    """The share of its time that a role waits."""
    return sum(row.get("wait_cycles", 0) for row in role["scopes"]) / role["warp_cycles"]


# ------------------------------------------------------------------ a path that is known


@gluon.jit
def spin(cycles):
    gl.inline_asm_elementwise(
        "{ .reg .u32 %a, %b; .reg .pred %p; mov.u32 %a, %clock; again: mov.u32 %b, %clock; "
        "sub.u32 %b, %b, %a; setp.lt.u32 %p, %b, $1; @%p bra again; mov.u32 $0, %b; }",
        "=r,r",
        [cycles],
        dtype=gl.int32,
        is_pure=False,
        pack=1,
    )


@gluon.jit
def consume(full, empty, steps, cycles, item, has_event: gl.constexpr):
    stages: gl.constexpr = full.shape[0]
    for step in range(steps):
        with pl.scope("wait full"):
            mbarrier.wait(full.index(step % stages), (step // stages) & 1)
        if has_event:
            pl.end_event(item)
        with pl.scope("consume"):
            spin(cycles)
        mbarrier.arrive(empty.index(step % stages), count=1)


@gluon.jit
def produce(full, empty, steps, cycles, item, has_event: gl.constexpr):
    stages: gl.constexpr = full.shape[0]
    for step in range(steps):
        with pl.scope("wait empty"):
            mbarrier.wait(empty.index(step % stages), ((step // stages) & 1) ^ 1)
        if has_event:
            pl.start_event(item)
        with pl.scope("produce"):
            spin(cycles)
        mbarrier.arrive(full.index(step % stages), count=1)


@gluon.jit
def ping(
    steps, produce_cycles, consume_cycles, stages: gl.constexpr, has_event: gl.constexpr = False
):
    full = gl.allocate_shared_memory(gl.int64, [stages, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [stages, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(stages):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    item = pl.allocate_event("item")
    gl.warp_specialize(
        [
            (consume, (full, empty, steps, consume_cycles, item, has_event)),
            (produce, (full, empty, steps, produce_cycles, item, has_event)),
        ],
        [4],
        [24],
    )


@hopper
@pytest.mark.parametrize("slow", ["produce", "consume"])
def test_the_path_runs_through_the_slow_side(slow):
    cycles = {"produce": 1000, "consume": 1000} | {slow: 4000}
    mode = "default:auto=partitions:budget=off:buffer_type=global:tree=records"
    proton.start("run", backend="instrumentation", mode=mode)
    ping[(64,)](40, cycles["produce"], cycles["consume"], 2, num_warps=4)
    proton.finalize()
    kernel = report()
    assert kernel["sampled_ctas"] == 32 and kernel["recorded_ctas"] == 64
    roles = roles_of(kernel)
    assert set(roles) == {"default", "partition0"}
    fast = "consume" if slow == "produce" else "produce"
    quick, late = ("default", "partition0") if slow == "produce" else ("partition0", "default")
    # 40 x 4000 cycles, and a little around them
    assert share_of_path(kernel, slow) > 0.85
    assert share_of_path(kernel, fast) < 0.1
    assert share_of_path(kernel, "wait") < 0.1
    assert waiting(roles[late]) < 0.1
    assert 0.5 < waiting(roles[quick]) < 0.9  # of 4000 cycles it works 1000


@hopper
@pytest.mark.parametrize("slow", ["produce", "consume"])
def test_asynchronous_work_is_on_the_path_if_it_is_waited_for(slow):
    cycles = {"produce": 1000, "consume": 1000} | {slow: 4000}
    mode = "default:auto=partitions:budget=off:buffer_type=global:tree=records"
    proton.start("run", backend="instrumentation", mode=mode)
    ping[(64,)](40, cycles["produce"], cycles["consume"], 2, True, num_warps=4)
    proton.finalize()
    kernel = report()
    (item,) = kernel["asynchronous"]
    overlapped = item["overlapped_cycles"] / item["async_cycles"]
    if slow == "produce":
        assert share_of_path(kernel, "item", "produce") > 0.85
        # The last item, which the end has waited for; from there on the producer never waits.
        assert 0.01 < share_of_path(kernel, "item") < 0.1
        assert overlapped < 0.5
    else:
        # An item that arrived before the wait did not block the consumer.
        assert share_of_path(kernel, "consume") > 0.85
        assert share_of_path(kernel, "item") < 0.1
        assert overlapped > 0.8


@hopper
def test_one_buffer_alternates():
    mode = "default:auto=partitions:budget=off:buffer_type=global:tree=records"
    proton.start("run", backend="instrumentation", mode=mode)
    ping[(8,)](40, 2000, 2000, 1, num_warps=4)
    proton.finalize()
    kernel = report()
    assert kernel["sampled_ctas"] == 8
    for scope in ("produce", "consume"):
        assert 0.35 < share_of_path(kernel, scope) < 0.55
    for role in kernel["roles"]:
        assert 0.35 < waiting(role) < 0.6


# ------------------------------------------------------------------ kernels as users write them


@only_hopper
@pytest.mark.parametrize("size", [512, 2048])
def test_a_warp_specialized_matmul(size):
    spec = importlib.util.spec_from_file_location("example_warps", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    mode = "default:auto=waits,dots,loads,partitions:budget=off:buffer_type=global:tree=records"
    proton.start("run", backend="instrumentation", mode=mode)
    example.run_matmul(size)
    proton.finalize()
    kernel = report()
    assert kernel["recorded_ctas"] == (size // 128) ** 2
    assert kernel["sampled_ctas"] == min(kernel["recorded_ctas"], 32)
    roles = roles_of(kernel)
    assert set(roles) == {"default", "partition0"}
    assert roles["default"]["role"].endswith("(warps 0-3)")
    assert re.search(r" \(warp [4-7]\)$", roles["partition0"]["role"])
    assert 0 < waiting(roles["default"]) < 1
    (copy,) = kernel["asynchronous"]
    assert copy["scope"] == "copy"
    assert 0 < copy["overlapped_cycles"] < copy["async_cycles"]
    # All warps wait for the first copy; they have no other work.
    assert 0 < copy["path_cycles"] < kernel["cta_cycles"]


@triton.jit
def matmul(a, b, c, size, BLOCK: tl.constexpr, STEP: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inner = tl.arange(0, STEP)
    a_at = a + rows[:, None] * size + inner[None, :]
    b_at = b + inner[:, None] * size + columns[None, :]
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for _ in range(0, size, STEP):
        total = tl.dot(tl.load(a_at), tl.load(b_at), total)
        a_at += STEP
        b_at += STEP * size
    tl.store(c + rows[:, None] * size + columns[None, :], total.to(tl.float16))


def test_a_pipelined_matmul():
    size = 1024
    a = torch.randn(size, size, device="cuda", dtype=torch.float16)
    b = torch.randn(size, size, device="cuda", dtype=torch.float16)
    c = torch.empty_like(a)
    mode = "default:auto=waits,dots,loads:budget=off:buffer_type=global:tree=records"
    proton.start("run", backend="instrumentation", mode=mode)
    matmul[(8, 8)](a, b, c, size, BLOCK=128, STEP=64, num_warps=8, num_stages=3)
    proton.finalize()
    torch.testing.assert_close(c, a @ b, rtol=1e-2, atol=1e-1)
    kernel = report()
    (role,) = kernel["roles"]  # all warps do the same
    assert role["role"] == "warps 0-7"
    assert role["sampled_warps"] == 8 * kernel["sampled_ctas"] == 8 * 32
    assert kernel["asynchronous"] == []
    # A warp's own waits are on the path, like the rest of its time.
    assert 0 < share_of_path(kernel, "async_wait") < 1
