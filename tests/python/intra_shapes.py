"""Kernels with markers of all the shapes that instrumentation has to survive.

`CASES` lists them with their signatures, constants and options; tests/python/intra_support.py
compiles them. Their results do not matter, only that they are what Triton's compiler gets to see.
"""

from dataclasses import dataclass, field

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


# Triton 3.9 calls it by another name than those before.
tma_load = tma.async_load if hasattr(tma, "async_load") else tma.async_copy_global_to_shared


@dataclass
class Case:
    """A kernel, what it is compiled with, and where."""

    name: str
    fn: object
    signature: dict[str, str]
    constants: dict[str, object]
    options: dict[str, object] = field(default_factory=dict)
    targets: str = "all"  # or "nvidia", "sm_90", "sm_100", "several words"


CASES: list[Case] = []


def case(name=None, targets="all", options=None, **arguments):
    """Registers a kernel: its arguments are types as text, or constants."""

    def register(fn):
        signature = {k: v if isinstance(v, str) else "constexpr" for k, v in arguments.items()}
        constants = {k: v for k, v in arguments.items() if not isinstance(v, str)}
        CASES.append(
            Case(name or fn.__name__, fn, signature, constants, options or {}, targets)
        )
        return fn

    return register


@triton.jit
def mark(text: tl.constexpr):
    tl.inline_asm_elementwise(text, "=r", [], dtype=tl.int32, is_pure=False, pack=1)


@gluon.jit
def gmark(text: gl.constexpr):
    gl.inline_asm_elementwise(text, "=r", [], dtype=gl.int32, is_pure=False, pack=1)


P = "*fp32"
H = "*fp16"
I = "*i32"

# ------------------------------------------------------------------ element by element


@case(x=P, y=P, o=P, n="i32", B=1024)
@triton.jit
def add(x, y, o, n, B: tl.constexpr):
    mark("// proton.record start whole")
    i = tl.program_id(0) * B + tl.arange(0, B)
    mark("// proton.record start load")
    a = tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n)
    mark("// proton.record end load")
    tl.store(o + i, a, mask=i < n)
    mark("// proton.record end whole")


@case(x=P, o=P, n="i32", B=256, options={"num_warps": 1})
@triton.jit
def one_warp(x, o, n, B: tl.constexpr):
    for k in range(0, n, B):
        i = k + tl.arange(0, B)
        mark("// proton.record start step")
        tl.store(o + i, tl.exp(tl.load(x + i)))
        mark("// proton.record end step")


@case(x=P, o=P, n="i32", B=4096, options={"num_warps": 16})
@triton.jit
def many_warps(x, o, n, B: tl.constexpr):
    i = tl.program_id(2) * B + tl.arange(0, B)
    mark("// proton.record start all")
    tl.store(o + i, tl.sqrt(tl.load(x + i, mask=i < n)), mask=i < n)
    mark("// proton.record end all")


@case(o=P, seed="i32", n="i32", B=512)
@triton.jit
def random_numbers(o, seed, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    mark("// proton.record start philox")
    r = tl.rand(seed, i)
    mark("// proton.record end philox")
    tl.store(o + i, r, mask=i < n)


# ------------------------------------------------------------------ rows


@case(x=P, o=P, stride="i32", n="i32", rows="i32", B=1024)
@triton.jit
def softmax(x, o, stride, n, rows, B: tl.constexpr):
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        mark("// proton.record start row")
        i = tl.arange(0, B)
        v = tl.load(x + row * stride + i, mask=i < n, other=-float("inf"))
        mark("// proton.record start max")
        v = v - tl.max(v, axis=0)
        mark("// proton.record end max")
        e = tl.exp(v)
        tl.store(o + row * stride + i, e / tl.sum(e, axis=0), mask=i < n)
        mark("// proton.record end row")


@case(x=P, o=P, w=P, b=P, n="i32", eps="fp32", B=512)
@triton.jit
def layer_norm(x, o, w, b, n, eps, B: tl.constexpr):
    row = tl.program_id(0) * n
    mean = tl.zeros([B], tl.float32)
    mark("// proton.record start mean")
    for k in range(0, n, B):
        i = k + tl.arange(0, B)
        mean += tl.load(x + row + i, mask=i < n, other=0.0)
    m = tl.sum(mean, axis=0) / n
    mark("// proton.record end mean")
    var = tl.zeros([B], tl.float32)
    mark("// proton.record start variance")
    for k in range(0, n, B):
        i = k + tl.arange(0, B)
        mark("// proton.record start part")
        d = tl.where(i < n, tl.load(x + row + i, mask=i < n, other=0.0) - m, 0.0)
        var += d * d
        mark("// proton.record end part")
    r = 1 / tl.sqrt(tl.sum(var, axis=0) / n + eps)
    mark("// proton.record end variance")
    for k in range(0, n, B):
        i = k + tl.arange(0, B)
        v = tl.load(x + row + i, mask=i < n, other=0.0)
        v = (v - m) * r * tl.load(w + i, mask=i < n) + tl.load(b + i, mask=i < n)
        tl.store(o + row + i, v, mask=i < n)


@case(x=P, o=P, C=8192, B=1024)
@triton.jit
def unrolled_sum(x, o, C: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0)
    v = tl.zeros([B], tl.float32)
    for k in tl.static_range(0, C, B):
        mark("// proton.record start add")
        v += tl.load(x + row * C + k + tl.arange(0, B))
        mark("// proton.record end add")
    mark("// proton.record start reduce")
    s = tl.sum(v, axis=0)
    mark("// proton.record end reduce")
    tl.store(o + row, s)


@case(x=P, o=P, at=I, n="i32", B=1024)
@triton.jit
def reductions(x, o, at, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    mark("// proton.record start argmax")
    place = tl.argmax(v, axis=0)
    mark("// proton.record end argmax")
    mark("// proton.record start xor")
    bits = tl.xor_sum(v.to(tl.int32), axis=0)
    mark("// proton.record end xor")
    tl.store(at, place + bits)
    tl.store(o, tl.max(tl.reshape(v, (32, B // 32)), axis=1).sum(axis=0))


@triton.jit
def combine(a0, b0, a1, b1):
    return a0 * a1, a1 * b0 + b1


@case(x=P, y=P, o=P, B=1024)
@triton.jit
def scans(x, y, o, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    mark("// proton.record start cumsum")
    s = tl.cumsum(a, axis=0)
    mark("// proton.record end cumsum")
    mark("// proton.record start recurrence")
    p, q = tl.associative_scan((a, tl.load(y + i)), 0, combine)
    mark("// proton.record end recurrence")
    tl.store(o + i, s + p + q)


@case(x=P, o=P, B=256)
@triton.jit
def sort_and_transpose(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    mark("// proton.record start sort")
    v = tl.sort(v)
    mark("// proton.record end sort")
    t = tl.trans(tl.reshape(v, (16, B // 16)))
    tl.store(o + i, tl.reshape(t, (B,)))


@case(x=I, bins=I, lock=I, n="i32", B=512)
@triton.jit
def atomics(x, bins, lock, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0)
    mark("// proton.record start histogram")
    tl.atomic_add(bins + v % 16, 1, mask=i < n)
    mark("// proton.record end histogram")
    mark("// proton.record start lock")
    while tl.atomic_cas(lock, 0, 1) == 1:
        mark("// proton.record start turn")
        mark("// proton.record end turn")
    mark("// proton.record end lock")
    tl.store(bins + 16, tl.load(bins + 16) + tl.sum(v, axis=0))
    tl.atomic_xchg(lock, 0)


# ------------------------------------------------------------------ control flow


@case(x=P, o=P, n="i32", B=256)
@triton.jit
def early_return(x, o, n, B: tl.constexpr):
    start = tl.program_id(0) * B
    if start >= n:
        return
    i = start + tl.arange(0, B)
    mark("// proton.record start work")
    v = tl.load(x + i, mask=i < n)
    tl.store(o + i, v * v, mask=i < n)
    mark("// proton.record end work")


@case(x=P, o=P, n="i32", m="i32", B=256)
@triton.jit
def several_returns(x, o, n, m, B: tl.constexpr):
    mark("// proton.record start kernel")
    i = tl.program_id(0) * B + tl.arange(0, B)
    if n == 0:
        tl.store(o + i, 0.0)
        mark("// proton.record end kernel")
        return
    v = tl.load(x + i, mask=i < n)
    if m == 0:
        mark("// proton.record start branch")
        tl.store(o + i, v)
        mark("// proton.record end branch")
        return
    tl.store(o + i, tl.sum(v, axis=0) + v)
    mark("// proton.record end kernel")


@case(x=P, o=P, n="i32", m="i32", B=256)
@triton.jit
def branches(x, o, n, m, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    for k in range(n):
        if k % 3 == m:
            mark("// proton.record start third")
            v = tl.exp(v)
            mark("// proton.record end third")
        elif k > m:
            mark("// proton.record start larger")
            v += tl.load(x + k * B + i)
            mark("// proton.record end larger")
        else:
            mark("// proton.record start kept")
    tl.store(o + i, v)


@case(x=P, o=P, n="i32", B=256)
@triton.jit
def while_loop(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    k = 0
    going = True
    while going:
        mark("// proton.record start turn")
        v = v * 0.5 + tl.load(x + k * B + i)
        k += 1
        going = (k < n) & (tl.max(v, axis=0) > 0)
        mark("// proton.record end turn")
    tl.store(o + i, v)


@case(x=P, o=P, n="i32", m="i32", B=256)
@triton.jit
def nested_scopes(x, o, n, m, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.zeros([B], tl.float32)
    mark("// proton.record start kernel")
    for a in range(n):
        mark("// proton.record start outer")
        for b in range(m):
            mark("// proton.record start middle")
            mark("// proton.record start load%20%231")
            v += tl.load(x + (a * m + b) * B + i)
            mark("// proton.record end load%20%231")
            mark("// proton.record end middle")
        mark("// proton.record end outer")
    mark("// proton.record end kernel")
    tl.store(o + i, v)


@case(x=P, o=P, n="i32", B=256)
@triton.jit
def async_events(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.zeros([B], tl.float32)
    for k in tl.range(n, num_stages=3):
        mark("// proton.event start copy")
        w = tl.load(x + k * B + i)
        mark("// proton.event end copy")
        v = tl.maximum(v, w)
    tl.store(o + i, v)


@case(x=P, o=P, n="i32", B=128)
@triton.jit
def many_scopes(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    for k in range(n):
        for j in tl.static_range(24):
            mark("// proton.record start many")
            v = v * 1.5 + j
            mark("// proton.record end many")
    tl.store(o + i, v)


# ------------------------------------------------------------------ noinline functions


@triton.jit(noinline=True)
def callee(v):
    mark("// proton.record start callee")
    v = tl.exp(v) + 1
    mark("// proton.record end callee")
    return v


@case(x=P, o=P, n="i32", B=256)
@triton.jit
def calls_a_callee(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    for _ in range(n):
        mark("// proton.record start call")
        s = callee(tl.sum(v, axis=0))
        mark("// proton.record end call")
        v += s
    tl.store(o + i, v)


@triton.jit(noinline=True)
def inner_callee(p, n, B: tl.constexpr):
    mark("// proton.record start inner")
    i = tl.arange(0, B)
    s = tl.sum(tl.load(p + i, mask=i < n, other=0.0), axis=0)
    mark("// proton.record end inner")
    return s


@triton.jit(noinline=True)
def carrying_callee(p, n, B: tl.constexpr):
    return inner_callee(p, n, B) * 2


@triton.jit(noinline=True)
def outer_callee(p, n, B: tl.constexpr):
    mark("// proton.record start outer")
    a = carrying_callee(p, n, B)
    if n > 5:
        a += inner_callee(p + 4, n, B)
    mark("// proton.record end outer")
    return a


@triton.jit(noinline=True)
def returning_callee(p, n):
    mark("// proton.record start returning")
    if n == 0:
        mark("// proton.record end returning")
        return 0.0
    v = tl.load(p)
    for k in range(n):
        mark("// proton.record start turn")
        v += tl.load(p + k)
        mark("// proton.record end turn")
    mark("// proton.record end returning")
    return v


@triton.jit(noinline=True)
def storing_callee(p, v):
    mark("// proton.record start storing")
    tl.store(p, v)
    mark("// proton.record end storing")


@triton.jit(noinline=True)
def two_values_callee(a, b):
    mark("// proton.record start values")
    c = tl.exp(a) * b
    mark("// proton.record end values")
    return c, a + b


@triton.jit(noinline=True)
def ending_callee(v):
    mark("// proton.record end across")
    return v * 2


@case(x=P, o=P, n="i32", B=256)
@triton.jit
def nested_callees(x, o, n, B: tl.constexpr):
    mark("// proton.record start kernel")
    a = outer_callee(x, n, B)
    a += inner_callee(x + 8, n, B)
    b = returning_callee(x, n)
    storing_callee(o + 1, b)
    mark("// proton.record end kernel")
    tl.store(o, a + b)


@case(x=P, o=P, n="i32", B=256)
@triton.jit
def callees_in_loops(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    total = 0.0
    for k in range(n):
        for j in range(k):
            a, b = two_values_callee(tl.sum(v, axis=0), total)
            total += a * b
        mark("// proton.record start across")
        total = ending_callee(total)
        if total > 3:
            total += callee(total)
    tl.store(o + i, v + total)


@case(x=P, o=P, n="i32", B=256)
@triton.jit
def only_a_callee_has_markers(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(o + i, v + callee(tl.max(v, axis=0)), mask=i < n)


@gluon.jit(noinline=True)
def gluon_callee(a, n):
    gmark("// proton.record start gluon")
    for _ in range(n):
        a = gl.exp(a)
    gmark("// proton.record end gluon")
    return a


@case(x=P, o=P, n="i32", B=512, T=32)
@gluon.jit
def gluon_calls_a_callee(x, o, n, B: gl.constexpr, T: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [T], [4], [0])
    i = gl.program_id(0) * B + gl.arange(0, B, layout=layout)
    v = gl.load(x + i, mask=i < n)
    gl.store(o + i, v + gluon_callee(gl.sum(v, axis=0), n), mask=i < n)


@gluon.jit
def default_with_callee(o, n, L: gl.constexpr):
    i = gl.arange(0, 128, layout=L)
    gl.store(o + i, i + gluon_callee(gl.sum(i, axis=0).to(gl.float32), n).to(gl.int32))


@gluon.jit
def worker_with_callee(o, n):
    L: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    i = gl.arange(0, 128, layout=L)
    gl.store(o + 128 + i, i + gluon_callee(gl.sum(i, axis=0).to(gl.float32), n).to(gl.int32))


@case(targets="sm_90 sm_100 sm_120", o=I, n="i32")
@gluon.jit
def gluon_partitions_with_callees(o, n):
    L: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    gl.warp_specialize(
        [(default_with_callee, (o, n, L)), (worker_with_callee, (o, n))], [4], [24]
    )


# ------------------------------------------------------------------ matrices

GEMM = dict(a=H, b=H, c=H, M="i32", N="i32", K="i32")


@triton.jit
def matmul(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr
):
    om = tl.program_id(0) * BM + tl.arange(0, BM)
    on = tl.program_id(1) * BN + tl.arange(0, BN)
    ok = tl.arange(0, BK)
    ap = a + om[:, None] * K + ok[None, :]
    bp = b + ok[:, None] * N + on[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    mark("// proton.record start loop")
    for _ in tl.range(0, K, BK, num_stages=STAGES):
        mark("// proton.record start load")
        x = tl.load(ap)
        y = tl.load(bp)
        mark("// proton.record end load")
        mark("// proton.record start dot")
        acc = tl.dot(x, y, acc)
        mark("// proton.record end dot")
        ap += BK
        bp += BK * N
    mark("// proton.record end loop")
    tl.store(c + om[:, None] * N + on[None, :], acc.to(tl.float16))


for stages in (1, 2, 3, 4):
    case(f"matmul_{stages}", **GEMM, BM=64, BN=64, BK=32, STAGES=stages)(matmul)
# 196 608 bytes of 232 448 on sm_90; ROCm and the consumer chips have less and pipeline less.
case(
    "matmul_large", targets="sm_90 sm_100", options={"num_warps": 8}, **GEMM, BM=128, BN=256, BK=64,
    STAGES=4,
)(matmul)
case("matmul_all_lds", targets="gfx90a gfx942", **GEMM, BM=128, BN=128, BK=128, STAGES=1)(matmul)


# On gfx90a its records take 78 registers instead of 68: there nothing is rescheduled.
@case(targets="nvidia gfx942 gfx950", a=P, b=P, c=P, M="i32", N="i32", K="i32", BM=64, BN=32, BK=32)
@triton.jit
def matmul_fp32(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Its dot is plain arithmetic with values from shared memory; LLVM moves it across markers."""
    om = tl.program_id(0) * BM + tl.arange(0, BM)
    on = tl.program_id(1) * BN + tl.arange(0, BN)
    ok = tl.arange(0, BK)
    ap = a + om[:, None] * K + ok[None, :]
    bp = b + ok[:, None] * N + on[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in tl.range(0, K, BK, num_stages=2):
        mark("// proton.record start load")
        x = tl.load(ap)
        y = tl.load(bp)
        mark("// proton.record end load")
        mark("// proton.record start dot")
        acc += tl.dot(x, y, input_precision="ieee")
        mark("// proton.record end dot")
        ap += BK
        bp += BK * N
    tl.store(c + om[:, None] * N + on[None, :], acc)


@case(**GEMM, BM=64, BN=64, BK=32)
@triton.jit
def matmul_with_a_callee(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    om = tl.program_id(0) * BM + tl.arange(0, BM)
    on = tl.program_id(1) * BN + tl.arange(0, BN)
    ok = tl.arange(0, BK)
    ap = a + om[:, None] * K + ok[None, :]
    bp = b + ok[:, None] * N + on[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    scale = 0.0
    for _ in tl.range(0, K, BK, num_stages=3):
        mark("// proton.record start load")
        x = tl.load(ap)
        y = tl.load(bp)
        mark("// proton.record end load")
        mark("// proton.record start dot")
        acc = tl.dot(x, y, acc)
        mark("// proton.record end dot")
        scale += callee(scale)
        ap += BK
        bp += BK * N
    tl.store(c + om[:, None] * N + on[None, :], (acc * scale).to(tl.float16))


@case(**GEMM, BM=64, BN=64, BK=32, G=8)
@triton.jit
def grouped_matmul(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, G: tl.constexpr
):
    mark("// proton.record start order")
    pid = tl.program_id(0)
    wide = tl.cdiv(N, BN)
    first = pid // (G * wide) * G
    size = min(tl.cdiv(M, BM) - first, G)
    om = ((first + pid % size) * BM + tl.arange(0, BM)) % M
    on = ((pid % (G * wide)) // size * BN + tl.arange(0, BN)) % N
    ok = tl.arange(0, BK)
    mark("// proton.record end order")
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        mark("// proton.record start step")
        x = tl.load(a + om[:, None] * K + k * BK + ok[None, :], mask=ok[None, :] < K - k * BK)
        y = tl.load(b + (k * BK + ok[:, None]) * N + on[None, :], mask=ok[:, None] < K - k * BK)
        acc += tl.dot(x, y)
        mark("// proton.record end step")
    tl.store(c + om[:, None] * N + on[None, :], acc.to(tl.float16))


@case(**GEMM, BM=64, BN=64, BK=32)
@triton.jit
def persistent_matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        mark("// proton.record start tile")
        om = tile % tl.cdiv(M, BM) * BM + tl.arange(0, BM)
        on = tile // tl.cdiv(M, BM) * BN + tl.arange(0, BN)
        ok = tl.arange(0, BK)
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            x = tl.load(a + om[:, None] * K + k + ok[None, :])
            y = tl.load(b + (k + ok[:, None]) * N + on[None, :])
            mark("// proton.record start dot")
            acc = tl.dot(x, y, acc)
            mark("// proton.record end dot")
        mark("// proton.record start store")
        tl.store(c + om[:, None] * N + on[None, :], acc.to(tl.float16))
        mark("// proton.record end store")
        mark("// proton.record end tile")


@case(targets="nvidia", **GEMM, BM=128, BN=64, BK=32)
@triton.jit
def specialized_matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    da = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    db = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    dc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    om = tl.program_id(0) * BM
    on = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=True, num_stages=2):
        mark("// proton.record start load")
        x = da.load([om, k])
        y = db.load([on, k])
        mark("// proton.record end load")
        mark("// proton.record start dot")
        acc = tl.dot(x, y.T, acc)
        mark("// proton.record end dot")
    mark("// proton.record start store")
    dc.store([om, on], acc.to(tl.float16))
    mark("// proton.record end store")


@case(q=H, k=H, v=H, o=H, n="i32", scale="fp32", BM=64, BN=32, D=64)
@triton.jit
def attention(q, k, v, o, n, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    base = tl.program_id(1) * n * D
    om = tl.program_id(0) * BM + tl.arange(0, BM)
    on = tl.arange(0, BN)
    od = tl.arange(0, D)
    query = tl.load(q + base + om[:, None] * D + od[None, :])
    maximum = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    mark("// proton.record start loop")
    for start in range(0, n, BN):
        mark("// proton.record start qk")
        key = tl.load(k + base + (start + on[None, :]) * D + od[:, None])
        s = tl.dot(query, key) * scale
        mark("// proton.record end qk")
        mark("// proton.record start softmax")
        now = tl.maximum(maximum, tl.max(s, axis=1))
        p = tl.exp2(s - now[:, None])
        alpha = tl.exp2(maximum - now)
        total = total * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None]
        mark("// proton.record end softmax")
        mark("// proton.record start pv")
        value = tl.load(v + base + (start + on[:, None]) * D + od[None, :])
        acc = tl.dot(p.to(tl.float16), value, acc)
        mark("// proton.record end pv")
        maximum = now
    mark("// proton.record end loop")
    tl.store(o + base + om[:, None] * D + od[None, :], (acc / total[:, None]).to(tl.float16))


# ------------------------------------------------------------------ Gluon


@case(x=P, o=P, n="i32", B=512, T=32)
@gluon.jit
def gluon_copy(x, o, n, B: gl.constexpr, T: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [T], [4], [0])
    i = gl.program_id(0) * B + gl.arange(0, B, layout=layout)
    gmark("// proton.record start load")
    v = gl.load(x + i, mask=i < n)
    gmark("// proton.record end load")
    smem = gl.allocate_shared_memory(
        gl.float32, [B], gl.SwizzledSharedLayout(1, 1, 1, order=[0]), v
    )
    gmark("// proton.record start shared")
    v = smem.load(layout)
    gmark("// proton.record end shared")
    gl.store(o + i, v, mask=i < n)


@gluon.jit
def default_partition(o, L: gl.constexpr):
    gmark("// proton.record start default")
    i = gl.arange(0, 128, layout=L)
    gl.store(o + i, i)
    gmark("// proton.record end default")


@gluon.jit
def worker_partition(o, n):
    L: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    i = gl.arange(0, 128, layout=L)
    for k in range(n):
        gmark("// proton.record start worker")
        gl.store(o + 128 * k + i, i)
        gmark("// proton.record end worker")


@gluon.jit
def small_partition(o):
    L: gl.constexpr = gl.BlockedLayout([1], [32], [1], [0])
    gmark("// proton.record start small")
    i = gl.arange(0, 32, layout=L)
    gl.store(o + 4096 + i, i)
    gmark("// proton.record end small")


@case(targets="sm_90 sm_100 sm_120", o=I, n="i32")
@gluon.jit
def gluon_partitions(o, n):
    L: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    gmark("// proton.record start whole")
    gl.warp_specialize(
        [(default_partition, (o, L)), (worker_partition, (o, n)), (small_partition, (o,))], [4, 1],
        [24, 24],
    )
    gmark("// proton.record end whole")


@case(targets="sm_90", a=H, b=H, c=P, K="i32", BM=64, BN=64, BK=64)
@gluon.jit
def gluon_tma_wgmma(a, b, c, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BM, BK], gl.float16)
    da = tma.make_tensor_descriptor(a, [BM, K], [K, 1], [BM, BK], layout)
    db = tma.make_tensor_descriptor(b, [BN, K], [K, 1], [BN, BK], layout)
    acc_layout: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, BN, 16]
    )
    sa = gl.allocate_shared_memory(gl.float16, [BM, BK], layout)
    sb = gl.allocate_shared_memory(gl.float16, [BN, BK], layout)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    acc = gl.zeros((BM, BN), gl.float32, layout=acc_layout)
    phase = 0
    for k in range(0, K, BK):
        gmark("// proton.event start tma")
        mbarrier.expect(bar, 2 * BM * BK * 2)
        tma_load(da, [0, k], bar, sa)
        tma_load(db, [0, k], bar, sb)
        gmark("// proton.record start wait")
        mbarrier.wait(bar, phase)
        gmark("// proton.record end wait")
        gmark("// proton.event end tma")
        phase ^= 1
        gmark("// proton.record start mma")
        acc = warpgroup_mma(sa, sb.permute((1, 0)), acc, is_async=True)
        acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
        gmark("// proton.record end mma")
    mbarrier.invalidate(bar)
    fence_async_shared()
    m = gl.arange(0, BM, layout=gl.SliceLayout(1, acc_layout))
    n = gl.arange(0, BN, layout=gl.SliceLayout(0, acc_layout))
    gl.store(c + m[:, None] * BN + n[None, :], acc)
