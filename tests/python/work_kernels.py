"""Kernels whose work is counted twice: from their TTIR, and while Triton's interpreter runs them.

As a program, with TRITON_INTERPRET=1, it prints the work of each case as JSON: the operations of
dots and of other arithmetic, and the bytes loaded and stored, each time and once.
"""

import json
from typing import Any, NamedTuple

import triton
import triton.language as tl


class Case(NamedTuple):
    """A launch. Arguments are (elements, type) of a tensor, integers and constants."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: dict[str, Any]
    constants: dict[str, Any]


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def softmax(x, out, stride, rows, columns, BLOCK: tl.constexpr):
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        at = tl.arange(0, BLOCK)
        inside = at < columns
        values = tl.load(x + row * stride + at, mask=inside, other=-float("inf"))
        values = tl.exp(values - tl.max(values, axis=0))
        tl.store(out + row * stride + at, values / tl.sum(values, axis=0), mask=inside)


@triton.jit
def matmul(
    x, y, out, m, n, depth, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr
):
    program = tl.program_id(0)
    columns = tl.cdiv(n, N)
    in_group = GROUP * columns
    first = program // in_group * GROUP
    size = min(tl.cdiv(m, M) - first, GROUP)
    row = (first + program % in_group % size) * M + tl.arange(0, M)
    column = program % in_group // size * N + tl.arange(0, N)
    k = tl.arange(0, K)
    xs = x + row[:, None] * depth + k[None, :]
    ys = y + k[:, None] * n + column[None, :]
    total = tl.zeros((M, N), dtype=tl.float32)
    for step in range(0, tl.cdiv(depth, K)):
        left = depth - step * K
        a = tl.load(xs, mask=(row[:, None] < m) & (k[None, :] < left), other=0.0)
        b = tl.load(ys, mask=(k[:, None] < left) & (column[None, :] < n), other=0.0)
        total = tl.dot(a, b, total)
        xs += K
        ys += K * n
    inside = (row[:, None] < m) & (column[None, :] < n)
    tl.store(out + row[:, None] * n + column[None, :], total, mask=inside)


@triton.jit
def attention(q, k, v, out, heads, length, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    head = tl.program_id(1)
    offset = (head // heads * heads + head % heads) * length * D
    row = tl.program_id(0) * M + tl.arange(0, M)
    d = tl.arange(0, D)
    query = tl.load(q + offset + row[:, None] * D + d[None, :])
    highest = tl.full([M], -1e6, dtype=tl.float32)
    total = tl.zeros([M], dtype=tl.float32)
    result = tl.zeros([M, D], dtype=tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * M, N):
        at = start + tl.arange(0, N)
        scores = tl.dot(query, tl.load(k + offset + at[None, :] * D + d[:, None]))
        scores = tl.where(row[:, None] >= at[None, :], scores, -1e6)
        now = tl.maximum(highest, tl.max(scores, 1))
        weights = tl.exp(scores - now[:, None])
        factor = tl.exp(highest - now)
        total = total * factor + tl.sum(weights, 1)
        values = tl.load(v + offset + at[:, None] * D + d[None, :])
        result = tl.dot(weights.to(tl.float16), values, result * factor[:, None])
        highest = now
    tl.store(out + offset + row[:, None] * D + d[None, :], result / total[:, None])


@triton.jit
def layer_norm(x, out, weight, columns, BLOCK: tl.constexpr):
    x += tl.program_id(0) * columns
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + at, mask=at < columns, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / columns
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + at, mask=at < columns, other=0.0).to(tl.float32) - mean
        scaled = value * tl.load(weight + at, mask=at < columns, other=0.0)
        tl.store(out + tl.program_id(0) * columns + at, scaled, mask=at < columns)


@triton.jit
def transpose(x, out, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (column < columns)
    values = tl.load(x + row * columns + column, mask=inside)
    tl.store(out + column * rows + row, values, mask=inside)


@triton.jit
def stencil(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x + at - 1, mask=(at >= 1) & (at < n), other=0.0)
    right = tl.load(x + at + 1, mask=at + 1 < n, other=0.0)
    tl.store(out + at, left - right, mask=at < n)


@triton.jit
def some_programs(x, out, limit, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    if program * BLOCK >= limit:
        return
    at = program * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    if program % 2 == 0:
        value = value * 2.0 + 1.0
    tl.store(out + at, value)


@triton.jit
def column_sums(x, out, rows, columns, M: tl.constexpr, N: tl.constexpr):
    column = tl.program_id(0) * N + tl.arange(0, N)
    total = tl.zeros([M, N], dtype=tl.float32)
    for start in range(0, rows, M):
        row = start + tl.arange(0, M)
        inside = (row < rows)[:, None] & (column < columns)[None, :]
        total += tl.load(x + row[:, None] * columns + column[None, :], mask=inside, other=0.0)
    tl.atomic_add(out + column, tl.sum(total, axis=0), mask=column < columns)


def matrix(*sizes: int, of: str = "fp32") -> tuple[int, str]:
    count = 1
    for size in sizes:
        count *= size
    return count, of


CASES = {
    "add": Case(add, (5,), dict(x=matrix(1100), y=matrix(1100), out=matrix(1100), n=1100),
                dict(BLOCK=256)),
    "softmax": Case(
        softmax, (3,),
        dict(x=matrix(7, 100), out=matrix(7, 100), stride=100, rows=7, columns=93),
        dict(BLOCK=128)),
    "matmul": Case(
        matmul, (12,),
        dict(x=matrix(96, 80, of="fp16"), y=matrix(80, 128, of="fp16"), out=matrix(96, 128),
             m=96, n=128, depth=80),
        dict(M=32, N=32, K=16, GROUP=2)),
    "matmul with masks": Case(
        matmul, (12,),
        dict(x=matrix(90, 75, of="fp16"), y=matrix(75, 100, of="fp16"), out=matrix(90, 100),
             m=90, n=100, depth=75),
        dict(M=32, N=32, K=16, GROUP=2)),
    "causal attention": Case(
        attention, (4, 6),
        dict(q=matrix(6, 128, 16, of="fp16"), k=matrix(6, 128, 16, of="fp16"),
             v=matrix(6, 128, 16, of="fp16"), out=matrix(6, 128, 16), heads=3, length=128),
        dict(M=32, N=16, D=16)),
    "layer norm": Case(
        layer_norm, (5,),
        dict(x=matrix(5, 300, of="fp16"), out=matrix(5, 300), weight=matrix(300), columns=300),
        dict(BLOCK=128)),
    "transpose": Case(transpose, (3, 2),
                      dict(x=matrix(70, 50), out=matrix(70, 50), rows=70, columns=50),
                      dict(BLOCK=32)),
    "stencil": Case(stencil, (5,), dict(x=matrix(600), out=matrix(600), n=600), dict(BLOCK=128)),
    "some programs": Case(some_programs, (10,), dict(x=matrix(640), out=matrix(640), limit=450),
                          dict(BLOCK=64)),
    "column sums": Case(column_sums, (4,),
                        dict(x=matrix(50, 60), out=matrix(60), rows=50, columns=60),
                        dict(M=16, N=16)),
}


# ---------------------------------------------------------------------- in the interpreter


class Counts:
    """The work of one launch so far. Addresses are those of bytes."""

    def __init__(self) -> None:
        self.dots = self.others = 0
        self.bytes = [0, 0]
        self.seen: list[set[int]] = [set(), set()]

    def access(self, pointers: Any, mask: Any, is_store: bool) -> None:
        size = pointers.get_element_ty().primitive_bitwidth // 8
        flat = pointers.data.reshape(-1)
        if mask is not None:
            flat = flat[mask.data.reshape(-1).astype(bool)]
        self.bytes[is_store] += flat.size * size
        self.seen[is_store].update(int(a) + i for a in flat for i in range(size))

    def result(self) -> dict[str, Any]:
        return {"dots": self.dots, "others": self.others, "requested": self.bytes,
                "once": [len(seen) for seen in self.seen]}


_ARITHMETIC = ("fadd", "fsub", "fmul", "fdiv", "minimumf", "maximumf", "minnumf", "maxnumf",
               "exp", "exp2", "log", "sqrt", "precise_divf", "precise_sqrt")


def count_with(interpreter: Any, counts: list[Counts]) -> None:
    """Have the interpreter's builder and reductions count in the last of `counts`."""
    builder, reductions = interpreter.InterpreterBuilder, interpreter.ReduceOps

    def wrap(owner: Any, name: str, note: Any) -> None:
        original = getattr(owner, name)

        def noting(self: Any, *args: Any, **named: Any) -> Any:
            result = original(self, *args, **named)
            note(counts[-1], result, *args)
            return result

        setattr(owner, name, noting)

    def arithmetic(now: Counts, result: Any, *_: Any) -> None:
        now.others += result.data.size

    def dot(now: Counts, result: Any, a: Any, b: Any, *_: Any) -> None:
        now.dots += 2 * a.data.size * b.data.shape[-1]

    def reduction(now: Counts, result: Any, values: Any, *_: Any) -> None:
        if not isinstance(result, tuple):
            after = result.handle.data.size
            now.others += values.handle.data.size - after

    for name in _ARITHMETIC:
        wrap(builder, f"create_{name}", arithmetic)
    wrap(builder, "create_dot", dot)
    wrap(reductions, "sum", reduction)
    wrap(reductions, "min_max", reduction)
    # A masked access may call the plain one, and the other way round.
    load, store = builder.create_masked_load, builder.create_masked_store
    atomic = builder.create_atomic_rmw

    def masked_load(self: Any, pointers: Any, mask: Any, *more: Any) -> Any:
        counts[-1].access(pointers, mask, False)
        return load(self, pointers, mask, *more)

    def masked_store(self: Any, pointers: Any, value: Any, mask: Any, *more: Any) -> Any:
        counts[-1].access(pointers, mask, True)
        return store(self, pointers, value, mask, *more)

    def atomic_rmw(self: Any, op: Any, pointers: Any, value: Any, mask: Any, *more: Any) -> Any:
        counts[-1].access(pointers, mask, False)
        counts[-1].access(pointers, mask, True)
        return atomic(self, op, pointers, value, mask, *more)

    builder.create_masked_load, builder.create_masked_store = masked_load, masked_store
    builder.create_atomic_rmw = atomic_rmw


def main() -> None:
    import torch
    from triton.runtime import interpreter

    types = {"fp32": torch.float32, "fp16": torch.float16}
    counts: list[Counts] = []
    count_with(interpreter, counts)
    results = {}
    for name, case in CASES.items():
        arguments = {
            key: torch.zeros(value[0], dtype=types[value[1]]) if isinstance(value, tuple) else value
            for key, value in case.arguments.items()
        }
        counts.append(Counts())
        case.kernel[case.grid](**arguments, **case.constants)
        results[name] = counts[-1].result()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
