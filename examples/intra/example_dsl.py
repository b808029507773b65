"""Scopes in the source of kernels: a vector addition in Triton, and a matrix multiplication in
Gluon that uses what Hopper has (TMA and WGMMA). The second is left out on other GPUs.

    python example_dsl.py [--op-measure] [--warp-sampling --warp-ids 0,1] [--increase-accuracy]
"""

from __future__ import annotations

import common
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

import triton_proton as proton
import triton_proton.language as pl

# Newer versions of Triton have shorter names.
tma_load = tma.async_load if hasattr(tma, "async_load") else tma.async_copy_global_to_shared
tma_store = tma.async_store if hasattr(tma, "async_store") else tma.async_copy_shared_to_global


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    with pl.scope("kernel"):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = at < n
        with pl.scope("load_and_add"):
            pl.enter_scope("load_x")
            a = tl.load(x + at, mask=mask)
            pl.exit_scope("load_x")
            pl.enter_scope("load_y")
            b = tl.load(y + at, mask=mask)
            pl.exit_scope("load_y")
            total = a + b
        with pl.scope("store"):
            tl.store(out + at, total, mask=mask)


@gluon.jit
def matmul(a_desc, b_desc, c_desc, k, num_warps: gl.constexpr):
    """One tile of C = A B. Loads of the next step run while this one is multiplied."""
    dtype: gl.constexpr = a_desc.dtype
    block_m: gl.constexpr = a_desc.block_type.shape[0]
    block_k: gl.constexpr = a_desc.block_type.shape[1]
    block_n: gl.constexpr = b_desc.block_type.shape[1]
    row = gl.program_id(0) * block_m
    column = gl.program_id(1) * block_n
    layout: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[num_warps, 1], instr_shape=[16, block_n, 16]
    )
    a = gl.allocate_shared_memory(dtype, [2, block_m, block_k], a_desc.layout)
    b = gl.allocate_shared_memory(dtype, [2, block_k, block_n], b_desc.layout)
    ready = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(2):
        mbarrier.init(ready.index(i), count=1)
    loading = pl.allocate_event("tma")  # begins here, ends when its barrier has been waited for
    with pl.scope("kernel"):
        pl.start_event(loading)
        mbarrier.expect(ready.index(0), a_desc.block_type.nbytes + b_desc.block_type.nbytes)
        tma_load(a_desc, [row, 0], ready.index(0), a.index(0))
        tma_load(b_desc, [0, column], ready.index(0), b.index(0))
        total = gl.zeros((block_m, block_n), dtype=gl.float32, layout=layout)
        steps = gl.cdiv(k, block_k)
        for step in range(steps):
            here = step % 2
            with pl.scope("wait"):
                mbarrier.wait(ready.index(here), (step // 2) & 1)
            pl.end_event(loading)
            if step + 1 < steps:
                pl.start_event(loading)
                there = 1 - here
                size: gl.constexpr = a_desc.block_type.nbytes + b_desc.block_type.nbytes
                mbarrier.expect(ready.index(there), size)
                tma_load(a_desc, [row, (step + 1) * block_k], ready.index(there), a.index(there))
                tma_load(b_desc, [(step + 1) * block_k, column], ready.index(there), b.index(there))
            with pl.scope("wgmma"):
                total = warpgroup_mma(a.index(here), b.index(here), total, is_async=True)
                total = warpgroup_mma_wait(num_outstanding=0, deps=[total])
        for i in gl.static_range(2):
            mbarrier.invalidate(ready.index(i))
        with pl.scope("store"):
            out = gl.allocate_shared_memory(dtype, c_desc.block_type.shape, c_desc.layout)
            out.store(total.to(dtype))
            fence_async_shared()
            tma_store(c_desc, [row, column], out)
            tma.store_wait(pendings=0)


def run_add() -> None:
    import torch

    x = torch.rand(98432, device="cuda")
    y = torch.rand(98432, device="cuda")
    out = torch.empty_like(x)
    add[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
    assert torch.equal(out, x + y)


def run_matmul(size: int = 512, block: int = 128, block_k: int = 64, num_warps: int = 4) -> None:
    import torch
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    a = torch.randn(size, size, device="cuda", dtype=torch.float16)
    b = torch.randn(size, size, device="cuda", dtype=torch.float16)
    c = torch.empty_like(a)

    def descriptor(tensor, shape):
        layout = gl.NVMMASharedLayout.get_default_for(shape, gl.float16)
        return TensorDescriptor.from_tensor(tensor, shape, layout)

    grid = (size // block, size // block)
    matmul[grid](
        descriptor(a, [block, block_k]),
        descriptor(b, [block_k, block]),
        descriptor(c, [block, block]),
        size,
        num_warps=num_warps,
    )
    torch.testing.assert_close(c, a @ b, rtol=1e-2, atol=1e-1)


def main() -> None:
    import torch

    options = common.parse_options(__doc__)
    common.start("vector-add-dsl", options)
    run_add()
    proton.finalize()
    if torch.cuda.get_device_capability()[0] == 9:
        common.start("matmul-dsl", options)
        run_matmul()
        proton.finalize()


if __name__ == "__main__":
    main()
