"""Who waits for whom: a matrix multiplication in Gluon in which one warp loads and four multiply,
and the report of its warps. Needs a Hopper GPU (TMA and WGMMA).

    python example_warps.py [SIZE]
"""

from __future__ import annotations

import subprocess
import sys

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

import triton_proton as proton
import triton_proton.language as pl

# Newer versions of Triton have shorter names.
tma_load = tma.async_load if hasattr(tma, "async_load") else tma.async_copy_global_to_shared

BLOCK = 128
BLOCK_K = 64
STAGES = 3


@gluon.jit
def multiply(c, size, row, column, a, b, ready, free, copy, steps):
    stages: gl.constexpr = a.shape[0]
    block_m: gl.constexpr = a.shape[1]
    block_n: gl.constexpr = b.shape[2]
    layout: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, block_n, 16]
    )
    total = gl.zeros((block_m, block_n), dtype=gl.float32, layout=layout)
    for step in range(steps):
        slot = step % stages
        mbarrier.wait(ready.index(slot), (step // stages) & 1)
        pl.end_event(copy)
        total = warpgroup_mma(a.index(slot), b.index(slot), total, is_async=True)
        total = warpgroup_mma_wait(num_outstanding=0, deps=[total])
        mbarrier.arrive(free.index(slot), count=1)
    rows = row + gl.arange(0, block_m, layout=gl.SliceLayout(1, layout))
    columns = column + gl.arange(0, block_n, layout=gl.SliceLayout(0, layout))
    gl.store(c + rows[:, None] * size + columns[None, :], total.to(gl.float16))


@gluon.jit
def load(a_desc, b_desc, row, column, a, b, ready, free, copy, steps):
    stages: gl.constexpr = a.shape[0]
    block_k: gl.constexpr = a.shape[2]
    nbytes: gl.constexpr = a_desc.block_type.nbytes + b_desc.block_type.nbytes
    for step in range(steps):
        slot = step % stages
        # The first round is free: a barrier's phase before its first is over.
        mbarrier.wait(free.index(slot), ((step // stages) & 1) ^ 1)
        pl.start_event(copy)
        mbarrier.expect(ready.index(slot), nbytes)
        tma_load(a_desc, [row, step * block_k], ready.index(slot), a.index(slot))
        tma_load(b_desc, [step * block_k, column], ready.index(slot), b.index(slot))


@gluon.jit
def matmul_ws(a_desc, b_desc, c, size, stages: gl.constexpr):
    dtype: gl.constexpr = a_desc.dtype
    block_m: gl.constexpr = a_desc.block_type.shape[0]
    block_k: gl.constexpr = a_desc.block_type.shape[1]
    block_n: gl.constexpr = b_desc.block_type.shape[1]
    row = gl.program_id(0) * block_m
    column = gl.program_id(1) * block_n
    a = gl.allocate_shared_memory(dtype, [stages, block_m, block_k], a_desc.layout)
    b = gl.allocate_shared_memory(dtype, [stages, block_k, block_n], b_desc.layout)
    ready = gl.allocate_shared_memory(gl.int64, [stages, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [stages, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(stages):
        mbarrier.init(ready.index(i), count=1)
        mbarrier.init(free.index(i), count=1)
    copy = pl.allocate_event("copy")  # from the TMA's start to its barrier's end
    steps = gl.cdiv(size, block_k)
    gl.warp_specialize(
        [
            (multiply, (c, size, row, column, a, b, ready, free, copy, steps)),
            (load, (a_desc, b_desc, row, column, a, b, ready, free, copy, steps)),
        ],
        [1],
        [24],
    )


def run_matmul(size: int = 1024) -> None:
    """C = A B, checked."""
    import torch
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    a = torch.randn(size, size, device="cuda", dtype=torch.float16)
    b = torch.randn(size, size, device="cuda", dtype=torch.float16)
    c = torch.empty_like(a)

    def descriptor(tensor, shape):
        layout = gl.NVMMASharedLayout.get_default_for(shape, gl.float16)
        return TensorDescriptor.from_tensor(tensor, shape, layout)

    matmul_ws[(size // BLOCK, size // BLOCK)](
        descriptor(a, [BLOCK, BLOCK_K]),
        descriptor(b, [BLOCK_K, BLOCK]),
        c,
        size,
        STAGES,
        num_warps=4,
    )
    torch.testing.assert_close(c, a @ b, rtol=1e-2, atol=1e-1)


def main() -> None:
    import torch

    if torch.cuda.get_device_capability()[0] != 9:
        raise SystemExit("this example needs a Hopper GPU (compute capability 9.0)")
    proton.start(
        "matmul-warps",
        backend="instrumentation",
        mode="default:auto=waits,dots,loads,partitions:budget=off:buffer_type=global:tree=records",
    )
    run_matmul(int(sys.argv[1]) if len(sys.argv) > 1 else 1024)
    proton.finalize()
    command = [sys.executable, "-m", "triton_proton.viewer", "--warps", "matmul-warps.hatchet"]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
