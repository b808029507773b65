"""What Triton's tutorials do with the profiler, in a program of their shape.

    python tutorial_matmul.py {persistent | scaled | tuned | function} [SIZE]

`persistent` ends as tutorial 09 does (16-bit operations, scopes beside kernels with metadata),
`scaled` as tutorial 10 (plain operations); `tuned` opens scopes in the hooks of an autotuned kernel
and decorates a function with a scope; `function` profiles a function. Runs on a GPU, and with
TRITON_INTERPRET=1 without one.
"""

import os
import sys
from contextlib import contextmanager

import torch
import triton
import triton.language as tl
import triton.profiler as proton

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
PROGRAMS = 3
TILE = 16 if INTERPRETED else 64
FLOPS = {"persistent": "flops16", "scaled": "flops", "tuned": "flops16", "function": "flops16"}


def describe(grid, kernel, args):
    rows, columns, depth = args["rows"], args["columns"], args["depth"]
    values = rows * columns + rows * depth + depth * columns
    return {
        "name": f"{kernel.name} [M={rows}, N={columns}, K={depth}]",
        FLOPS[sys.argv[1]]: 2.0 * rows * columns * depth,
        "bytes": values * args["a"].element_size(),
    }


@triton.jit(launch_metadata=describe)
def tiles_matmul(a, b, c, rows, columns, depth, TILE: tl.constexpr, PROGRAMS: tl.constexpr):
    across = tl.cdiv(columns, TILE)
    for tile in range(tl.program_id(0), tl.cdiv(rows, TILE) * across, PROGRAMS):
        row = (tile // across) * TILE + tl.arange(0, TILE)[:, None]
        column = (tile % across) * TILE + tl.arange(0, TILE)[None, :]
        total = tl.zeros((TILE, TILE), dtype=tl.float32)
        for start in range(0, depth, TILE):
            down = start + tl.arange(0, TILE)
            left = tl.load(a + row * depth + down[None, :])
            right = tl.load(b + down[:, None] * columns + column)
            total = tl.dot(left, right, total)
        tl.store(c + row * columns + column, total.to(tl.float16))


def matmul(a, b, kernel=tiles_matmul):
    (rows, depth), columns = a.shape, b.shape[1]
    c = torch.empty((rows, columns), device=a.device, dtype=a.dtype)
    tile = {} if kernel is not tiles_matmul else {"TILE": TILE}
    kernel[(PROGRAMS,)](a, b, c, rows, columns, depth, PROGRAMS=PROGRAMS, **tile)
    return c


def costs(a, b):
    rows, depth, columns = *a.shape, b.shape[1]
    values = rows * columns + rows * depth + depth * columns
    flops = 2.0 * rows * columns * depth
    return {"bytes": a.element_size() * values, FLOPS[sys.argv[1]]: flops}


def library_matmul(a, b):
    """The vendor's library: hand-made launches, counted in a scope."""
    with proton.scope(f"library [M={a.shape[0]}]", costs(a, b)):
        return torch.matmul(a, b)


@contextmanager
def recording():
    proton.activate(0)
    try:
        yield
    finally:
        proton.deactivate(0)


def bench(a, b):
    proton.start("matmul", hook="triton")
    proton.deactivate()
    for work in (library_matmul, matmul):
        work(a, b)  # to warm up: not recorded
        with recording():
            for _ in range(2):
                work(a, b)
    proton.finalize()


def tuned_bench(a, b):
    configs = [triton.Config({"TILE": TILE}), triton.Config({"TILE": 2 * TILE})]
    # Without a GPU nothing can be timed: each configuration is run once.
    do_bench = (lambda call, quantiles: [call() or 1.0] * 3) if INTERPRETED else None
    tuned = triton.autotune(configs, key=["rows"], do_bench=do_bench)(tiles_matmul)

    def enter(args, reset_only=False):
        if not reset_only:
            proton.enter_scope("<autotune>")

    def leave(args, exception):
        proton.exit_scope()

    tuned.pre_hook, tuned.post_hook = enter, leave

    @proton.scope("library", metrics=costs(a, b))
    def library(a, b):
        return torch.matmul(a, b)

    proton.start("matmul", hook="triton")
    with proton.scope(f"matmul_{a.shape[0]}"):
        library(a, b)
        with proton.scope("triton"):
            matmul(a, b, tuned)
    proton.finalize()


def show_profile(names):
    import triton.profiler.viewer as proton_viewer

    tree, metrics = proton_viewer.parse(names, "matmul.hatchet", None)
    proton_viewer.print_tree(tree, metrics)


def main():
    way, size = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2 * TILE
    torch.manual_seed(0)
    a, b = (torch.randn((size, size), device=DEVICE, dtype=torch.float16) for _ in range(2))
    expected = a.float() @ b.float()
    assert torch.allclose(matmul(a, b).float(), expected, atol=0.5, rtol=0.05)
    if way == "tuned":
        tuned_bench(a, b)
        show_profile(["tflop16/s", "time/ms"])
    elif way == "function":
        run = proton.profile(lambda: matmul(a, b), name="matmul", context="python", backend=None)
        run()
        proton.finalize()
        show_profile(["time/ms"])
    else:
        bench(a, b)
        bits = "16" if way == "persistent" else ""
        show_profile([f"tflop{bits}/s", "avg_time/us", "time/us"])


if __name__ == "__main__":
    main()
