"""Kernels with and without scopes, for bench/intra_side.py and intra_short.py.

The first argument of the program is the side, the profiler that instruments them: `ours` (the
default) or `upstream`.
"""

from __future__ import annotations

import sys
from typing import Any, Callable

import torch
import triton
import triton.language as tl

SIDE = "upstream" if sys.argv[1:2] == ["upstream"] else "ours"
if SIDE == "upstream":
    import triton.profiler as proton
    import triton.profiler.language as pl

    pl.enable_semantic("triton")
    MODE = "default:optimizations=clock32"
    ALL_LAUNCHES = MODE  # it has no other way
else:
    import triton_proton as proton
    import triton_proton.language as pl

    MODE = "default:tree=records"
    ALL_LAUNCHES = "default:launches=all"
SUMS = "default:tree=sums"  # ours only

__all__ = ["ALL_LAUNCHES", "MODE", "SIDE", "SUMS", "Case", "add", "cases", "empty_scopes", "proton"]

# Buffers of 50 launches fit into the pool (512 MiB): a launch without a buffer is not sampled,
# and cheaper.
SIZE = 2048
ROWS = 1024
COLUMNS = 8192


@triton.jit
def matmul(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, MARK: tl.constexpr
):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    a_at = a + rows[:, None] * K + inner[None, :]
    b_at = b + inner[:, None] * N + columns[None, :]
    sums = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        if MARK:
            pl.enter_scope("load")
        x = tl.load(a_at)
        y = tl.load(b_at)
        if MARK:
            pl.exit_scope("load")
        if MARK:
            pl.enter_scope("dot")
        sums = tl.dot(x, y, sums)
        if MARK:
            pl.exit_scope("dot")
        a_at += BK
        b_at += BK * N
    tl.store(c + rows[:, None] * N + columns[None, :], sums.to(tl.float16))


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr, MARK: tl.constexpr):
    if MARK:
        pl.enter_scope("all")
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    if MARK:
        pl.enter_scope("load")
    left = tl.load(x + at, mask=mask)
    right = tl.load(y + at, mask=mask)
    if MARK:
        pl.exit_scope("load")
    if MARK:
        pl.enter_scope("store")
    tl.store(out + at, left + right, mask=mask)
    if MARK:
        pl.exit_scope("store")
    if MARK:
        pl.exit_scope("all")


@triton.jit
def softmax(x, out, COLUMNS: tl.constexpr, MARK: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    if MARK:
        pl.enter_scope("load")
    row = tl.load(x + at)
    if MARK:
        pl.exit_scope("load")
    if MARK:
        pl.enter_scope("exp")
    powers = tl.exp(row - tl.max(row, axis=0))
    row = powers / tl.sum(powers, axis=0)
    if MARK:
        pl.exit_scope("exp")
    tl.store(out + at, row)


@triton.jit
def layer_norm(x, weight, out, COLUMNS: tl.constexpr, BLOCK: tl.constexpr, MARK: tl.constexpr):
    first = tl.program_id(0) * COLUMNS
    sums = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for begin in range(0, COLUMNS, BLOCK):
        if MARK:
            pl.enter_scope("read")
        part = tl.load(x + first + begin + tl.arange(0, BLOCK))
        sums += part
        squares += part * part
        if MARK:
            pl.exit_scope("read")
    if MARK:
        pl.enter_scope("reduce")
    mean = tl.sum(sums, axis=0) / COLUMNS
    variance = tl.sum(squares, axis=0) / COLUMNS - mean * mean
    scale = 1 / tl.sqrt(variance + 1e-5)
    if MARK:
        pl.exit_scope("reduce")
    for begin in range(0, COLUMNS, BLOCK):
        if MARK:
            pl.enter_scope("write")
        at = begin + tl.arange(0, BLOCK)
        part = tl.load(x + first + at)
        tl.store(out + first + at, (part - mean) * scale * tl.load(weight + at))
        if MARK:
            pl.exit_scope("write")


@triton.jit
def row_sum(x, out, COLUMNS: tl.constexpr, BLOCK: tl.constexpr, MARK: tl.constexpr):
    row = tl.program_id(0)
    sums = tl.zeros((BLOCK,), tl.float32)
    for begin in range(0, COLUMNS, BLOCK):
        if MARK:
            pl.enter_scope("add")
        sums += tl.load(x + row * COLUMNS + begin + tl.arange(0, BLOCK))
        if MARK:
            pl.exit_scope("add")
    if MARK:
        pl.enter_scope("reduce")
    total = tl.sum(sums, axis=0)
    if MARK:
        pl.exit_scope("reduce")
    tl.store(out + row, total)


@triton.jit
def attention(
    q, k, v, out, LENGTH: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
    MARK: tl.constexpr,
):  # fmt: skip
    """Flash attention, forwards: a head is LENGTH x D."""
    head = tl.program_id(1) * LENGTH * D
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    wide = tl.arange(0, D)
    columns = tl.arange(0, BN)
    queries = tl.load(q + head + rows[:, None] * D + wide[None, :])
    maximum = tl.full((BM,), float("-inf"), tl.float32)
    weights = tl.zeros((BM,), tl.float32)
    sums = tl.zeros((BM, D), tl.float32)
    for begin in range(0, LENGTH, BN):
        if MARK:
            pl.enter_scope("scores")
        keys = tl.load(k + head + (begin + columns)[None, :] * D + wide[:, None])
        scores = tl.dot(queries, keys) * (1.44269504 / (D**0.5))
        if MARK:
            pl.exit_scope("scores")
        if MARK:
            pl.enter_scope("softmax")
        higher = tl.maximum(maximum, tl.max(scores, axis=1))
        powers = tl.exp2(scores - higher[:, None])
        faded = tl.exp2(maximum - higher)
        weights = weights * faded + tl.sum(powers, axis=1)
        maximum = higher
        if MARK:
            pl.exit_scope("softmax")
        if MARK:
            pl.enter_scope("values")
        values = tl.load(v + head + (begin + columns)[:, None] * D + wide[None, :])
        sums = tl.dot(powers.to(tl.float16), values, sums * faded[:, None])
        if MARK:
            pl.exit_scope("values")
    result = sums / weights[:, None]
    tl.store(out + head + rows[:, None] * D + wide[None, :], result.to(tl.float16))


@triton.jit
def empty_scopes(out, COUNT: tl.constexpr):
    pl.enter_scope("outer")
    for _ in tl.static_range(COUNT):
        # An instruction for the compiler and none for the assembler: the scopes do not touch.
        tl.inline_asm_elementwise(
            "mov.u32 $0, 0;", "=r", [], dtype=tl.int32, is_pure=False, pack=1
        )
        pl.enter_scope("empty")
        pl.exit_scope("empty")
    pl.exit_scope("outer")
    tl.store(out, 1.0)


class Case:
    """A kernel that can be launched with and without its scopes."""

    def __init__(
        self, name: str, kernel: str, launch: Callable[[bool], Any], result: torch.Tensor
    ) -> None:
        self.name = name
        self.kernel = kernel
        self.launch = launch
        self.result = result


def matmuls(device: str) -> list[Case]:
    a = torch.randn(SIZE, SIZE, device=device, dtype=torch.float16)
    b = torch.randn(SIZE, SIZE, device=device, dtype=torch.float16)
    c = torch.empty_like(a)
    grid = (SIZE // 128, SIZE // 128)

    def multiply(stages: int) -> Callable[[bool], Any]:
        def launch(mark: bool) -> Any:
            return matmul[grid](
                a, b, c, SIZE, SIZE, SIZE, BM=128, BN=128, BK=64, MARK=mark,
                num_stages=stages, num_warps=8,
            )  # fmt: skip

        return launch

    return [
        Case("matmul, 3 stages", "matmul", multiply(3), c),
        Case("matmul, 1 stage", "matmul", multiply(1), c),
    ]


def by_rows(device: str) -> list[Case]:
    x = torch.randn(ROWS, COLUMNS, device=device)
    weight = torch.randn(COLUMNS, device=device)
    y = torch.empty_like(x)
    sums = torch.empty(ROWS, device=device)
    grid = (ROWS,)
    return [
        Case(
            "softmax",
            "softmax",
            lambda mark: softmax[grid](x, y, COLUMNS, MARK=mark, num_warps=8),
            y,
        ),
        Case(
            "layer norm",
            "layer_norm",
            lambda mark: layer_norm[grid](x, weight, y, COLUMNS, BLOCK=1024, MARK=mark),
            y,
        ),
        Case(
            "sum of rows",
            "row_sum",
            lambda mark: row_sum[grid](x, sums, COLUMNS, BLOCK=1024, MARK=mark),
            sums,
        ),
    ]


def attentions(device: str, heads: int = 16, length: int = 2048) -> list[Case]:
    q, k, v = (
        torch.randn(heads, length, 64, device=device, dtype=torch.float16) for _ in range(3)
    )
    out = torch.empty_like(q)

    def launch(mark: bool) -> Any:
        return attention[(length // 64, heads)](
            q, k, v, out, LENGTH=length, BM=64, BN=64, D=64, MARK=mark, num_warps=4
        )

    return [Case("flash attention", "attention", launch, out)]


def adds(device: str) -> list[Case]:
    x = torch.randn(1 << 22, device=device)
    y = torch.randn_like(x)
    z = torch.empty_like(x)
    return [
        Case(
            "vector add",
            "add",
            lambda mark: add[(4096,)](x, y, z, 1 << 22, BLOCK=1024, MARK=mark),
            z,
        )
    ]


def cases(device: str = "cuda") -> list[Case]:
    """The first one is what targets are about; the mean is over all."""
    torch.manual_seed(1)
    return matmuls(device) + adds(device) + by_rows(device) + attentions(device)
