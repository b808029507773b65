"""Kernels for the tests of instrumentation, compiled for GPUs that need not be there."""

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

import triton_proton.language as pl


def target_of(arch: str) -> GPUTarget:
    """The target "sm_90" or "gfx942"."""
    if arch.startswith("sm_"):
        return GPUTarget("cuda", int(arch[3:]), 32)
    return GPUTarget("hip", arch, 64)


@triton.jit
def load_one(pointer, event):
    pl.start_event(event)
    return tl.load(pointer)


@triton.jit
def marked_loop(x, y, out, n, BLOCK: tl.constexpr):
    with pl.scope("kernel"):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        total = tl.load(x + at)
        for k in range(n):
            with pl.scope("turn"):
                total += tl.load(y + k * BLOCK + at)
        tl.store(out + at, total)


@triton.jit
def marked_copy(x, y, out, n, BLOCK: tl.constexpr):
    with pl.scope("kernel"):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        with pl.scope("load"):
            value = tl.load(x + at, mask=at < n)
        tl.store(out + at, value, mask=at < n)


@triton.jit
def marked_add(x, y, out, n, BLOCK: tl.constexpr):
    with pl.scope("kernel"):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        pl.enter_scope("load 1 %")
        value = tl.load(x + at, mask=at < n)
        pl.exit_scope("load 1 %")
        event = pl.allocate_event("copy")
        total = 0.0
        for k in range(n):
            total += load_one(y + k, event)
            pl.end_event(event)
        tl.store(out + at, value + total, mask=at < n)


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n)
    tl.store(out + at, total, mask=at < n)


@triton.jit
def matmul(x, y, out, n, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inner = tl.arange(0, BLOCK)
    a_at = x + rows[:, None] * n + inner[None, :]
    b_at = y + inner[:, None] * n + columns[None, :]
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for _ in range(0, n, BLOCK):
        a = tl.load(a_at)
        b = tl.load(b_at)
        total = tl.dot(a, b, total)
        a_at += BLOCK
        b_at += BLOCK * n
    tl.store(out + rows[:, None] * n + columns[None, :], total.to(tl.float16))


@triton.jit
def pipelined(x, y, out, n, BLOCK: tl.constexpr):
    """Products of one block of x with many of y, which Triton loads ahead."""
    block = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    a = tl.load(x + block)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(n):
        with pl.scope("load"):
            b = tl.load(y + k * BLOCK * BLOCK + block)
        with pl.scope("dot"):
            total = tl.dot(a, b, total)
    tl.store(out + block, total.to(tl.float16))


@triton.jit
def row_products(x, y, out, n, BLOCK: tl.constexpr):
    """Sums of products of two large tensors, which the assembler multiplies part by part."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = rows[:, None] * 4 * BLOCK + tl.arange(0, 4 * BLOCK)[None, :]
    a = tl.load(x + at, mask=rows[:, None] < n, other=0.0).to(tl.float32)
    b = tl.load(y + at, mask=rows[:, None] < n, other=0.0).to(tl.float32)
    tl.store(out + rows, tl.sum(a * b, 1), mask=rows < n)


@triton.jit
def row_sum(x, y, out, n, BLOCK: tl.constexpr):
    """LLVM puts the additions of the unrolled loop after all scopes."""
    total = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(8):
        with pl.scope("add"):
            total += tl.load(x + (tl.program_id(0) * 8 + k) * BLOCK + tl.arange(0, BLOCK))
    tl.store(out + tl.program_id(0), tl.sum(total, axis=0))


@triton.jit
def tiles(x, y, out, n, BLOCK: tl.constexpr):
    """Products of several tiles in each program."""
    block = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    for tile in range(tl.program_id(0), n, 8):
        total = tl.zeros((BLOCK, BLOCK), tl.float32)
        for k in range(tile):
            total = tl.dot(tl.load(x + k + block), tl.load(y + k + block), total)
        tl.store(out + tile + block, total.to(tl.float16))


@triton.jit
def specialized(x, y, out, n, BLOCK: tl.constexpr):
    """Triton splits its loop into partitions, and drops or copies operations outside of them."""
    x_at = tl.make_tensor_descriptor(x, [n, n], [n, 1], [2 * BLOCK, BLOCK])
    y_at = tl.make_tensor_descriptor(y, [n, n], [n, 1], [BLOCK, BLOCK])
    out_at = tl.make_tensor_descriptor(out, [n, n], [n, 1], [2 * BLOCK, BLOCK])
    row, column = tl.program_id(0) * 2 * BLOCK, tl.program_id(1) * BLOCK
    total = tl.zeros((2 * BLOCK, BLOCK), tl.float32)
    for k in tl.range(0, n, BLOCK, warp_specialize=True, num_stages=2):
        with pl.scope("load #1"):
            a = x_at.load([row, k])
            b = y_at.load([column, k])
        with pl.scope("dot"):
            total = tl.dot(a, b.T, total)
    with pl.scope("store"):
        out_at.store([row, column], total.to(tl.float16))


@triton.jit
def flattened(x, y, out, n, BLOCK: tl.constexpr):
    """On Blackwell, Triton's pipeliner moves operations out of the scopes of its loop."""
    x_at = tl.make_tensor_descriptor(x, [n, n], [n, 1], [2 * BLOCK, BLOCK])
    y_at = tl.make_tensor_descriptor(y, [n, n], [n, 1], [2 * BLOCK, BLOCK])
    out_at = tl.make_tensor_descriptor(out, [n, n], [n, 1], [2 * BLOCK, 2 * BLOCK])
    across = tl.cdiv(n, 2 * BLOCK)
    for tile in tl.range(tl.program_id(0), across * across, tl.num_programs(0), flatten=True):
        with pl.scope("tile"):
            row, column = tile // across * 2 * BLOCK, tile % across * 2 * BLOCK
            total = tl.zeros((2 * BLOCK, 2 * BLOCK), tl.float32)
            for k in range(0, n, BLOCK):
                with pl.scope("load"):
                    a = x_at.load([row, k])
                    b = y_at.load([column, k])
                with pl.scope("dot"):
                    total = tl.dot(a, b.T, total)
            with pl.scope("store"):
                out_at.store([row, column], total.to(tl.float16))


@triton.jit
def without_work(x, y, out, n, BLOCK: tl.constexpr):
    """Scope calls in a warp-specialized loop, around nothing that could be located later."""
    x_at = tl.make_tensor_descriptor(x, [n, n], [n, 1], [2 * BLOCK, BLOCK])
    y_at = tl.make_tensor_descriptor(y, [n, n], [n, 1], [BLOCK, BLOCK])
    row, column = tl.program_id(0) * 2 * BLOCK, tl.program_id(1) * BLOCK
    total = tl.zeros((2 * BLOCK, BLOCK), tl.float32)
    copy = pl.allocate_event("copy")
    for k in tl.range(0, n, BLOCK, warp_specialize=True, num_stages=2):
        with pl.scope("place"):
            at = k + 0
        pl.start_event(copy)
        a = x_at.load([row, at])
        pl.enter_scope("half")
        if k > 5:
            pl.exit_scope("half")
        with pl.scope("dot"):
            total = tl.dot(a, y_at.load([column, k]).T, total)
    out_at = tl.make_tensor_descriptor(out, [n, n], [n, 1], [2 * BLOCK, BLOCK])
    out_at.store([row, column], total.to(tl.float16))


@triton.jit
def attention_backward(q, k, v, do, dq, dk, dv, m, delta, n, BLOCK: tl.constexpr):
    """Gradients of attention, as in Triton's tutorial: two loops with many loads and dots."""
    start = tl.program_id(0) * BLOCK
    d = tl.arange(0, BLOCK)
    rows = start + tl.arange(0, BLOCK)
    kk = tl.load(k + rows[:, None] * BLOCK + d[None, :])
    vv = tl.load(v + rows[:, None] * BLOCK + d[None, :])
    dkk = tl.zeros([BLOCK, BLOCK], tl.float32)
    dvv = tl.zeros([BLOCK, BLOCK], tl.float32)
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        qt = tl.load(q + at[None, :] * BLOCK + d[:, None])
        mm = tl.load(m + at)
        p = tl.math.exp2(tl.dot(kk, qt) - mm[None, :])
        oo = tl.load(do + at[:, None] * BLOCK + d[None, :])
        dvv += tl.dot(p.to(tl.float16), oo)
        di = tl.load(delta + at)
        dp = tl.dot(vv, tl.trans(oo))
        ds = (p * (dp - di[None, :])).to(tl.float16)
        dkk += tl.dot(ds, tl.trans(qt))
    tl.store(dv + rows[:, None] * BLOCK + d[None, :], dvv.to(tl.float16))
    tl.store(dk + rows[:, None] * BLOCK + d[None, :], dkk.to(tl.float16))
    qq = tl.load(q + rows[:, None] * BLOCK + d[None, :])
    oo = tl.load(do + rows[:, None] * BLOCK + d[None, :])
    mm = tl.load(m + rows)[:, None]
    di = tl.load(delta + rows)
    dqq = tl.zeros([BLOCK, BLOCK], tl.float32)
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        kt = tl.load(k + at[None, :] * BLOCK + d[:, None])
        vt = tl.load(v + at[None, :] * BLOCK + d[:, None])
        p = tl.math.exp2(tl.dot(qq, kt) - mm)
        dp = tl.dot(oo, vt)
        ds = (p * (dp - di[:, None])).to(tl.float16)
        dqq += tl.dot(ds, tl.trans(kt))
    tl.store(dq + rows[:, None] * BLOCK + d[None, :], dqq.to(tl.float16))


@triton.jit
def products_of_vectors(x, y, out, n, BLOCK: tl.constexpr):
    """Products of vectors and matrices, with more values in registers than there are."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * 2 * BLOCK + tl.arange(0, 2 * BLOCK)
    inner = tl.arange(0, 4 * BLOCK)
    total = tl.zeros((BLOCK, 2 * BLOCK), tl.float32)
    for k in range(0, n // (4 * BLOCK)):
        at = k * 4 * BLOCK + inner
        a = tl.load(x + rows[:, None] * n + at[None, :])
        b_rows = rows[None, :, None] * n * n + columns[:, None, None] * n
        b = tl.load(y + b_rows + at[None, None, :])
        expanded, _ = tl.broadcast(a, b)
        total += tl.trans(tl.sum(expanded * b, axis=2))
    tl.store(out + rows[:, None] * n + columns[None, :], total)


@triton.jit(noinline=True)
def sum_of(x, n, BLOCK: tl.constexpr):
    with pl.scope("sum"):
        at = tl.arange(0, BLOCK)
        total = tl.sum(tl.load(x + at, mask=at < n), axis=0)
    return total


@triton.jit
def calling(x, y, out, n, BLOCK: tl.constexpr):
    with pl.scope("kernel"):
        tl.store(out, sum_of(x, n, BLOCK) + sum_of(y, n, BLOCK))


@triton.jit(noinline=True)
def total_of(x, BLOCK: tl.constexpr):
    return tl.sum(tl.load(x + tl.arange(0, BLOCK)))


@triton.jit
def largest(x):
    return tl.max(x, axis=1)


@triton.jit
def kinds(x, y, out, n, BLOCK: tl.constexpr):
    """One operation of each kind of automatic scopes, except partitions; `largest` twice."""
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at[:, None] * BLOCK + at[None, :])
    b = tl.load(y + at[:, None] * BLOCK + at[None, :])
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for _ in range(n):
        product = tl.dot(a, b)
        total += product
        a = (product - largest(product)[:, None]).to(tl.float16)
    best, place = tl.max(total, axis=1, return_indices=True)
    sums = tl.cumsum(total, axis=1)
    lock = out.to(tl.pointer_type(tl.int32))
    tl.atomic_add(lock, 1)
    best += largest(sums) + tl.histogram(place, BLOCK) + total_of(x, BLOCK)
    tl.store(out + at, best.to(tl.float16))
    tl.atomic_cas(lock, 0, 1)


@triton.jit
def loops_in_scopes(x, y, out, n, BLOCK: tl.constexpr):
    """Scopes around loops, with no operation between them or between a scope and its loop."""
    block = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    a = tl.load(x + block)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    with pl.scope("first"):
        for k in range(n):
            total = tl.dot(a, tl.load(y + k * BLOCK * BLOCK + block), total)
    with pl.scope("second"):
        for k in range(n):
            total = tl.dot(tl.load(y - k * BLOCK * BLOCK + block), a, total)
    with pl.scope("third"):
        for k in range(n):
            with pl.scope("inner"):
                for _ in range(k):
                    total = tl.dot(a, tl.load(x + k * BLOCK * BLOCK + block), total)
    tl.store(out + block, total.to(tl.float16))


@triton.jit
def unnamed(x, y, out, n, BLOCK: tl.constexpr):
    pl.enter_scope(n)


@triton.jit
def not_an_event(x, y, out, n, BLOCK: tl.constexpr):
    pl.start_event("copy")


@gluon.jit
def first(out, event, LAYOUT: gl.constexpr):
    with pl.scope("first"):
        at = gl.arange(0, 128, layout=LAYOUT)
        pl.start_event(event)
        gl.store(out + at, at)


@gluon.jit
def second(out, event):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    pl.end_event(event)
    with pl.scope("second"):
        at = gl.arange(0, 128, layout=layout)
        gl.store(out + 128 + at, at)


@gluon.jit
def partitions(out):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    event = pl.allocate_event("copy")
    with pl.scope("all"):
        gl.warp_specialize([(first, (out, event, layout)), (second, (out, event))], [4], [24])


def compile_source(source, arch: str, **options):
    """Compiles a source with Triton; the options are those of a launch."""
    options["instrumentation_mode"] = triton.knobs.compilation.instrumentation_mode
    return triton.compile(source, target=target_of(arch), options=options)


def compile(kernel, arch: str = "sm_90", **options):
    """Compiles one of the kernels above with Triton."""
    if kernel is partitions:
        source = GluonASTSource(kernel, {"out": "*i32"}, {})
        return compile_source(source, arch, **options)
    if kernel is attention_backward:
        of = {name: "*fp16" for name in ("q", "k", "v", "do", "dq", "dk", "dv")}
        of |= {"m": "*fp32", "delta": "*fp32", "n": "i32", "BLOCK": "constexpr"}
        aligned = {(i,): [["tt.divisibility", 16]] for i in range(10)}
        source = ASTSource(kernel, of, constexprs={"BLOCK": 64}, attrs=aligned)
        return compile_source(source, arch, **options)
    of_halves = kernel in (
        matmul, pipelined, specialized, without_work, kinds, loops_in_scopes, row_products,
        flattened, tiles
    )
    of = "*fp16" if of_halves else "*fp32"
    signature = {"x": of, "y": of, "out": of, "n": "i32", "BLOCK": "constexpr"}
    block = 64 if of_halves else 16 if kernel is products_of_vectors else 1024
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(4)}
    source = ASTSource(kernel, signature, constexprs={"BLOCK": block}, attrs=aligned)
    return compile_source(source, arch, **options)
