"""Automatic scopes: a kernel without edits, whose loads, dots, stores and loops become scopes.

    python example_auto.py [--op-measure] [--warp-sampling --warp-ids 0,1] [--increase-accuracy]

The same works with any program: proton -b instrumentation -m default:auto=all program.py
Here `budget=off` keeps scopes that take more than 5 % of the time of so small a kernel.
"""

from __future__ import annotations

import common
import triton
import triton.language as tl

import triton_proton as proton


@triton.jit
def matmul(a, b, c, n, BLOCK: tl.constexpr, STEP: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inner = tl.arange(0, STEP)
    a_at = a + rows[:, None] * n + inner[None, :]
    b_at = b + inner[:, None] * n + columns[None, :]
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for _ in range(0, n, STEP):
        x = tl.load(a_at)
        y = tl.load(b_at)
        total = tl.dot(x, y, total)
        a_at += STEP
        b_at += STEP * n
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.float16))


def main() -> None:
    import torch

    options = common.parse_options(__doc__)
    a = torch.randn(512, 512, device="cuda", dtype=torch.float16)
    b = torch.randn(512, 512, device="cuda", dtype=torch.float16)
    c = torch.empty_like(a)
    common.start("matmul-auto", options, auto="all", budget="off")
    matmul[(4, 4)](a, b, c, 512, BLOCK=128, STEP=64, num_warps=8, num_stages=3)
    proton.finalize()
    torch.testing.assert_close(c, a @ b, rtol=1e-2, atol=1e-1)


if __name__ == "__main__":
    main()
