"""Kernels of the shapes of Triton's tutorials, without scopes, for bench/intra_auto.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

LOG2_E = tl.constexpr(1.44269504)


class Case(NamedTuple):
    """A launch of a kernel, and what it computes."""

    name: str
    kernel: Any
    launch: Callable[[], Any]
    result: torch.Tensor


# ---------------------------------------------------------------------- rows


@triton.jit
def softmax_rows(x, out, rows, columns, stride, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """Each program takes every n-th row."""
    at = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        value = tl.load(x + row * stride + at, mask=at < columns, other=-float("inf"))
        power = tl.exp(value - tl.max(value, axis=0))
        tl.store(out + row * stride + at, power / tl.sum(power, axis=0), mask=at < columns)


@triton.jit
def norm_rows(x, weight, bias, out, mean, rstd, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * n
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    middle = tl.sum(total, axis=0) / n
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
        value = tl.where(at < n, value - middle, 0.0)
        squares += value * value
    scale = 1 / tl.sqrt(tl.sum(squares, axis=0) / n + 1e-5)
    tl.store(mean + row, middle)
    tl.store(rstd + row, scale)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
        value = (value - middle) * scale * tl.load(weight + at, mask=at < n)
        value += tl.load(bias + at, mask=at < n)
        tl.store(out + row * n + at, value.to(tl.float16), mask=at < n)


@triton.jit
def norm_rows_backward(
    x, weight, dout, mean, rstd, dx, dweight, dbias, rows, n, BLOCK: tl.constexpr
):
    """Each program takes every n-th row, and keeps its own sums for the weight and the bias."""
    at = tl.arange(0, BLOCK)
    inside = at < n
    w = tl.load(weight + at, mask=inside, other=0.0)
    sum_w = tl.zeros((BLOCK,), tl.float32)
    sum_b = tl.zeros((BLOCK,), tl.float32)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        value = tl.load(x + row * n + at, mask=inside, other=0.0).to(tl.float32)
        grad = tl.load(dout + row * n + at, mask=inside, other=0.0).to(tl.float32)
        scale = tl.load(rstd + row)
        hat = tl.where(inside, (value - tl.load(mean + row)) * scale, 0.0)
        weighted = w * grad
        first = tl.sum(hat * weighted, axis=0) / n
        second = tl.sum(weighted, axis=0) / n
        result = (weighted - (hat * first + second)) * scale
        tl.store(dx + row * n + at, result.to(tl.float16), mask=inside)
        sum_w += grad * hat
        sum_b += grad
    tl.store(dweight + tl.program_id(0) * n + at, sum_w, mask=inside)
    tl.store(dbias + tl.program_id(0) * n + at, sum_b, mask=inside)


# ---------------------------------------------------------------------- matrices


@triton.jit
def matmul_grouped(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr
):
    """Neighboring programs share rows of `a`, for the L2 cache."""
    width = GROUP * tl.cdiv(N, BN)
    group = tl.program_id(0) // width
    height = min(tl.cdiv(M, BM) - group * GROUP, GROUP)
    row = group * GROUP + tl.program_id(0) % width % height
    column = tl.program_id(0) % width // height
    rows = (row * BM + tl.arange(0, BM)) % M
    columns = (column * BN + tl.arange(0, BN)) % N
    inner = tl.arange(0, BK)
    a_at = a + rows[:, None] * K + inner[None, :]
    b_at = b + inner[:, None] * N + columns[None, :]
    sums = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(a_at, mask=inner[None, :] < K - k * BK, other=0.0)
        y = tl.load(b_at, mask=inner[:, None] < K - k * BK, other=0.0)
        sums = tl.dot(x, y, sums)
        a_at += BK
        b_at += BK * N
    rows = row * BM + tl.arange(0, BM)
    columns = column * BN + tl.arange(0, BN)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * N + columns[None, :], sums.to(tl.float16), mask=inside)


@triton.jit
def matmul_of_groups(
    a, b, c, sizes, groups, PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    """Square products of several sizes, one after another in `a`, `b` and `c`."""
    tile = tl.program_id(0)
    before = 0
    for group in range(groups):
        size = tl.load(sizes + group)
        across = tl.cdiv(size, BN)
        tiles = tl.cdiv(size, BM) * across
        while tile >= before and tile < before + tiles:
            rows = (tile - before) // across * BM + tl.arange(0, BM)
            columns = (tile - before) % across * BN + tl.arange(0, BN)
            inner = tl.arange(0, BK)
            a_at = a + rows[:, None] * size + inner[None, :]
            b_at = b + inner[:, None] * size + columns[None, :]
            sums = tl.zeros((BM, BN), tl.float32)
            for _ in range(0, tl.cdiv(size, BK)):
                tl.multiple_of(a_at, [16, 16])
                tl.multiple_of(b_at, [16, 16])
                sums += tl.dot(tl.load(a_at), tl.load(b_at))
                a_at += BK
                b_at += BK * size
            tl.store(c + rows[:, None] * size + columns[None, :], sums.to(tl.float16))
            tile += PROGRAMS
        before += tiles
        a += size * size
        b += size * size
        c += size * size


@triton.jit
def matmul_persistent(
    a, b, c, M, N, K, PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr, FLATTEN: tl.constexpr,
):  # fmt: skip
    """`a`, `b` transposed and `c` are tensor descriptors."""
    across = tl.cdiv(N, BN)
    for tile in tl.range(
        tl.program_id(0), tl.cdiv(M, BM) * across, PROGRAMS, flatten=FLATTEN
    ):
        row, column = tile // across * BM, tile % across * BN
        sums = tl.zeros((BM, BN), tl.float32)
        for k in range(tl.cdiv(K, BK)):
            sums = tl.dot(a.load([row, k * BK]), b.load([column, k * BK]).T, sums)
        c.store([row, column], sums.to(tl.float16))


# ---------------------------------------------------------------------- attention


@triton.jit
def attention_causal(
    q, k, v, out, lse, scale, LENGTH: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    D: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1) * LENGTH * D
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    wide = tl.arange(0, D)
    queries = tl.load(q + head + rows[:, None] * D + wide[None, :])
    maximum = tl.full((BM,), float("-inf"), tl.float32)
    weights = tl.zeros((BM,), tl.float32)
    sums = tl.zeros((BM, D), tl.float32)
    for begin in range(0, (tl.program_id(0) + 1) * BM, BN):
        columns = begin + tl.arange(0, BN)
        keys = tl.load(k + head + columns[None, :] * D + wide[:, None])
        scores = tl.dot(queries, keys) * (scale * LOG2_E)
        scores = tl.where(rows[:, None] >= columns[None, :], scores, float("-inf"))
        higher = tl.maximum(maximum, tl.max(scores, axis=1))
        powers = tl.exp2(scores - higher[:, None])
        faded = tl.exp2(maximum - higher)
        weights = weights * faded + tl.sum(powers, axis=1)
        values = tl.load(v + head + columns[:, None] * D + wide[None, :])
        sums = tl.dot(powers.to(tl.float16), values, sums * faded[:, None])
        maximum = higher
    result = sums / weights[:, None]
    tl.store(lse + tl.program_id(1) * LENGTH + rows, maximum + tl.log2(weights))
    tl.store(out + head + rows[:, None] * D + wide[None, :], result.to(tl.float16))


@triton.jit
def attention_backward(
    q, k, v, dout, lse, delta, dq, dk, dv, scale, LENGTH: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Gradients of a block of keys and values, then of a block of queries."""
    head = tl.program_id(1) * LENGTH * D
    lse += tl.program_id(1) * LENGTH
    delta += tl.program_id(1) * LENGTH
    wide = tl.arange(0, D)
    columns = tl.program_id(0) * BN + tl.arange(0, BN)
    block = head + columns[:, None] * D + wide[None, :]
    keys, values = tl.load(k + block), tl.load(v + block)
    sum_k = tl.zeros((BN, D), tl.float32)
    sum_v = tl.zeros((BN, D), tl.float32)
    for begin in range(0, LENGTH, BM):
        rows = begin + tl.arange(0, BM)
        at = head + rows[:, None] * D + wide[None, :]
        queries = tl.load(q + at)
        scores = tl.dot(keys, tl.trans(queries)) * (scale * LOG2_E)
        powers = tl.exp2(scores - tl.load(lse + rows)[None, :])
        grads = tl.load(dout + at)
        sum_v = tl.dot(powers.to(tl.float16), grads, sum_v)
        inner = tl.dot(values, tl.trans(grads)) - tl.load(delta + rows)[None, :]
        sum_k = tl.dot((powers * inner).to(tl.float16), queries, sum_k)
    tl.store(dk + block, (sum_k * scale).to(tl.float16))
    tl.store(dv + block, sum_v.to(tl.float16))
    queries, grads = tl.load(q + block), tl.load(dout + block)
    shift, rest = tl.load(lse + columns)[:, None], tl.load(delta + columns)[:, None]
    sum_q = tl.zeros((BN, D), tl.float32)
    for begin in range(0, LENGTH, BM):
        rows = begin + tl.arange(0, BM)
        at = head + rows[:, None] * D + wide[None, :]
        some_keys, some_values = tl.load(k + at), tl.load(v + at)
        powers = tl.exp2(tl.dot(queries, tl.trans(some_keys)) * (scale * LOG2_E) - shift)
        inner = tl.dot(grads, tl.trans(some_values)) - rest
        sum_q = tl.dot((powers * inner).to(tl.float16), some_keys, sum_q)
    tl.store(dq + block, (sum_q * scale).to(tl.float16))


# ---------------------------------------------------------------------- cases


def of_rows(device: str) -> list[Case]:
    rows, columns = 4096, 8192
    x = torch.randn(rows, columns, device=device)
    out = torch.empty_like(x)
    half = x.half()
    normed, grad = torch.empty_like(half), torch.randn_like(half)
    weight, bias = torch.randn(columns, device=device), torch.randn(columns, device=device)
    mean, rstd = torch.empty(rows, device=device), torch.ones(rows, device=device)
    sums = torch.empty(2, 264, columns, device=device)
    dx = torch.empty_like(half)
    return [
        Case(
            "fused softmax", softmax_rows,
            lambda: softmax_rows[(528,)](
                x, out, rows, columns, columns, BLOCK=8192, STAGES=2, num_warps=8
            ), out,
        ),
        Case(
            "layer norm, forward", norm_rows,
            lambda: norm_rows[(rows,)](
                half, weight, bias, normed, mean, rstd, columns, BLOCK=4096, num_warps=8
            ), normed,
        ),
        Case(
            "layer norm, backward", norm_rows_backward,
            lambda: norm_rows_backward[(264,)](
                half, weight, grad, mean, rstd, dx, sums[0], sums[1], rows, columns, BLOCK=8192,
                num_warps=16,
            ), dx,
        ),
    ]  # fmt: skip


def of_matrices(device: str, size: int = 4096) -> list[Case]:
    a, b = (torch.randn(size, size, device=device, dtype=torch.float16) for _ in range(2))
    c = torch.empty_like(a)
    sizes = torch.tensor([1024, 512, 256, 128], dtype=torch.int32, device=device)
    blocks = {"BM": 128, "BN": 128, "BK": 64}
    described = [
        TensorDescriptor.from_tensor(a, [128, 64]),
        TensorDescriptor.from_tensor(b, [128, 64]),
        TensorDescriptor.from_tensor(c, [128, 128]),
    ]

    def persistent(flatten: bool) -> Callable[[], Any]:
        return lambda: matmul_persistent[(132,)](
            *described, size, size, size, PROGRAMS=132, **blocks, FLATTEN=flatten, num_warps=8,
            num_stages=3,
        )  # fmt: skip

    return [
        Case(
            "matmul, grouped", matmul_grouped,
            lambda: matmul_grouped[((size // 128) ** 2,)](
                a, b, c, size, size, size, **blocks, GROUP=8, num_warps=8, num_stages=3
            ), c,
        ),
        Case(
            "grouped GEMM", matmul_of_groups,
            lambda: matmul_of_groups[(84,)](
                a, b, c, sizes, 4, PROGRAMS=84, BM=128, BN=128, BK=32, num_warps=4, num_stages=3
            ), c,
        ),
        Case("persistent matmul", matmul_persistent, persistent(False), c),
        Case("persistent matmul, flattened", matmul_persistent, persistent(True), c),
    ]  # fmt: skip


def of_attention(device: str, heads: int = 64, length: int = 2048) -> list[Case]:
    q, k, v, grad = (
        torch.randn(heads, length, 64, device=device, dtype=torch.float16) for _ in range(4)
    )
    out, dq, dk, dv = (torch.empty_like(q) for _ in range(4))
    lse = torch.full((heads, length), 20.0, device=device)
    delta = torch.randn(heads, length, device=device)
    grid = (length // 128, heads)
    sizes = {"LENGTH": length, "BN": 64, "D": 64}
    return [
        Case(
            "attention, forward", attention_causal,
            lambda: attention_causal[grid](
                q, k, v, out, lse, 0.125, **sizes, BM=128, num_warps=4, num_stages=3
            ), out,
        ),
        Case(
            "attention, backward", attention_backward,
            lambda: attention_backward[grid](
                q, k, v, grad, lse, delta, dq, dk, dv, 0.125, LENGTH=length, BM=32, BN=128, D=64,
                num_warps=4, num_stages=3,
            ), dq,
        ),
    ]  # fmt: skip


def tutorials(device: str = "cuda") -> list[Case]:
    torch.manual_seed(1)
    return of_rows(device) + of_matrices(device) + of_attention(device)
