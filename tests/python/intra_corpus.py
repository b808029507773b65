"""Kernels of the shapes that bench/corpus.py finds in other packages, rewritten for tests."""

import triton
import triton.language as tl


@triton.jit
def cross_entropy(x, target, loss, stride, n, BLOCK: tl.constexpr):
    """Two passes over a row: the running maximum and sum, then the gradient in place."""
    row = tl.program_id(0).to(tl.int64)
    x += row * stride
    y = tl.load(target + row)
    largest = float("-inf")
    total = 0.0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + at, mask=at < n, other=float("-inf")).to(tl.float32)
        new = tl.maximum(largest, tl.max(value))
        total = total * tl.exp(largest - new) + tl.sum(tl.exp(value - new))
        largest = new
    tl.store(loss + row, largest + tl.log(total) - tl.load(x + y).to(tl.float32))
    tl.debug_barrier()
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + at, mask=at < n, other=float("-inf")).to(tl.float32)
        share = tl.exp(value - largest) / total - tl.where(at == y, 1.0, 0.0)
        tl.store(x + at, share.to(tl.float16), mask=at < n)


@triton.jit
def gated_chunk(q, k, v, g, o, n, D: tl.constexpr, B: tl.constexpr):
    """Linear attention by chunks: a state across chunks, and a decay by a scan within one."""
    at, d = tl.arange(0, B), tl.arange(0, D)
    base = tl.program_id(0) * n * D
    state = tl.zeros((D, D), tl.float32)
    for start in range(0, n, B):
        rows = base + (start + at[:, None]) * D + d[None, :]
        decay = tl.cumsum(tl.load(g + tl.program_id(0) * n + start + at).to(tl.float32))
        a, b, c = tl.load(q + rows), tl.load(k + rows), tl.load(v + rows)
        scores = tl.dot(a, tl.trans(b)) * tl.exp(decay[:, None] - decay[None, :])
        scores = tl.where(at[:, None] >= at[None, :], scores, 0.0)
        out = tl.dot(scores.to(tl.float16), c)
        out += tl.dot(a, state.to(tl.float16)) * tl.exp(decay)[:, None]
        last = tl.sum(tl.where(at == B - 1, decay, 0.0))
        state = state * tl.exp(last) + tl.dot(
            tl.trans(b), (c * tl.exp(last - decay)[:, None]).to(tl.float16)
        )
        tl.store(o + rows, out.to(tl.float16))


@triton.jit
def paged_decode(q, keys, values, table, o, length, D: tl.constexpr, PAGE: tl.constexpr):
    """Attention of one query over pages, whose numbers are read from a table."""
    at, d = tl.arange(0, PAGE), tl.arange(0, D)
    query = tl.load(q + tl.program_id(0) * D + d).to(tl.float32)
    largest, total = float("-inf"), 0.0
    out = tl.zeros((D,), tl.float32)
    for start in range(0, length, PAGE):
        page = tl.load(table + tl.program_id(0) * 64 + start // PAGE).to(tl.int64)
        rows = (page * PAGE + at[:, None]) * D + d[None, :]
        inside = (start + at) < length
        k = tl.load(keys + rows, mask=inside[:, None], other=0.0).to(tl.float32)
        scores = tl.where(inside, tl.sum(k * query[None, :], axis=1), float("-inf"))
        new = tl.maximum(largest, tl.max(scores))
        p = tl.exp(scores - new)
        v = tl.load(values + rows, mask=inside[:, None], other=0.0).to(tl.float32)
        out = out * tl.exp(largest - new) + tl.sum(p[:, None] * v, axis=0)
        total = total * tl.exp(largest - new) + tl.sum(p)
        largest = new
    tl.store(o + tl.program_id(0) * D + d, (out / total).to(tl.float16))


@triton.jit
def quantized_rows(x, out, scales, n, GROUP: tl.constexpr, GROUPS: tl.constexpr):
    """A scale for each group of a row, by a reshaped reduction."""
    at = tl.program_id(0) * GROUPS * GROUP + tl.arange(0, GROUPS * GROUP)
    value = tl.reshape(tl.load(x + at, mask=at < n, other=0.0).to(tl.float32), (GROUPS, GROUP))
    scale = tl.maximum(tl.max(tl.abs(value), axis=1), 1e-6) / 127.0
    rounded = tl.reshape(value / scale[:, None], (GROUPS * GROUP,))
    tl.store(out + at, rounded.to(tl.int8), mask=at < n)
    tl.store(scales + tl.program_id(0) * GROUPS + tl.arange(0, GROUPS), scale)


H, F, I = "*fp16", "*fp32", "*i32"

# Kernel, signature, constants.
CASES = [
    (
        cross_entropy,
        {"x": H, "target": I, "loss": F, "stride": "i32", "n": "i32"},
        {"BLOCK": 1024},
    ),
    (gated_chunk, {"q": H, "k": H, "v": H, "g": F, "o": H, "n": "i32"}, {"D": 64, "B": 64}),
    (
        paged_decode,
        {"q": H, "keys": H, "values": H, "table": I, "o": H, "length": "i32"},
        {"D": 128, "PAGE": 16},
    ),
    (
        quantized_rows,
        {"x": H, "out": "*i8", "scales": F, "n": "i32"},
        {"GROUP": 128, "GROUPS": 8},
    ),
]
