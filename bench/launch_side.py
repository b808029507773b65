"""One side of bench/cuda_python.py: a process that launches a Triton kernel on request.

    python bench/launch_side.py SIDE CPU [LIBRARY]

SIDE is "ours", "upstream" or "floor" (bare CUPTI: the functions of LIBRARY, see cupti_floor.c).
Each line on standard input asks for a turn: {"options": {...}, "launches": N}, with the options of
the session. A turn is the loop without a profiler, with one, and without again; the answer is a
line "turn [BEFORE, WITH, AFTER]", microseconds per launch. The end of the input ends the process.

While a loop is timed, its thread stays on processor CPU and garbage is not collected. Threads that
a profiler or the driver starts are not bound: they are started outside.

With PROTON_BENCH_FAKE set, the launches go to the libcupti of tests/fake, which
PROTON_CUPTI_PATH names; that tries the scripts out and measures nothing of interest.
"""

from __future__ import annotations

import os
import sys

# "run", "report" and "cuda" beside this file are not for others to import.
if sys.path and sys.path[0] == os.path.dirname(os.path.abspath(__file__)):
    del sys.path[0]

import ctypes
import gc
import json
import time
from collections.abc import Callable
from typing import Any

WARM_UP = 200  # launches after a start


def describe(grid: Any, metadata: Any, args: Any) -> dict[str, Any]:
    """The kernel's launch metadata."""
    return {"name": "empty", "flops32": 1.0, "bytes": 4}


def triton_launcher(iterations: int = 0) -> tuple[Callable[[int], None], Callable[[], None]]:
    """
    A function that launches a kernel N times, and one that waits for the GPU. The kernel is empty,
    or uses all SMs for about 0.07 us per iteration. The latter is launched by what Triton has
    compiled: on a slow processor, a launch by its function takes as long as 20 us.
    """
    import torch
    import triton
    import triton.language as tl

    globals()["tl"] = tl

    @triton.jit
    def busy(x, iterations):
        at = tl.program_id(0) * 1024 + tl.arange(0, 1024)
        value = tl.load(x + at)
        for _ in range(iterations):
            value = tl.sqrt(value * 0.5 + 0.25)
        tl.store(x + at, value)

    @triton.jit(launch_metadata=describe)
    def empty(x):
        pass

    x = torch.zeros(1, device="cuda")

    numbers = torch.rand(1024 * 264, device="cuda")

    def launch(count: int) -> None:
        for _ in range(count):
            empty[(1,)](x)

    if not iterations:
        return launch, torch.cuda.synchronize
    run = busy.warmup(numbers, iterations, grid=(264,))[(264, 1, 1)]

    def launch_busy(count: int) -> None:
        for _ in range(count):
            run(numbers, iterations)

    return launch_busy, torch.cuda.synchronize


class FakeLaunch(ctypes.Structure):
    """The beginning of struct fake_launch of tests/fake/fake_cupti.h; the rest is zero."""

    _fields_ = [
        ("call", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        ("context", ctypes.c_void_p),
        ("device", ctypes.c_uint32),
        ("stream", ctypes.c_uint32),
        ("records", ctypes.c_uint32),
        ("start_ns", ctypes.c_uint64),
        ("end_ns", ctypes.c_uint64),
        ("others", ctypes.c_uint64 * 32),
    ]


class LazyDict:
    """The argument that Triton passes to its hooks."""

    __module__ = "triton.compiler.compiler"

    def __init__(self) -> None:
        self.data = {"name": "empty", "function": 0, "stream": 0}
        self.extras = [(describe, ((1,), None, {}))]


def fake_launcher() -> tuple[Callable[[int], None], Callable[[], None]]:
    """The same with the fake libcupti."""
    from triton_proton.hooks import HookManager

    cuLaunchKernel = 307  # its number as a driver call
    library = ctypes.CDLL(os.environ["PROTON_CUPTI_PATH"])
    described = FakeLaunch(cuLaunchKernel, b"empty", 1, 0, 7, 1, 1000, 2000)

    def launch(count: int) -> None:
        for _ in range(count):
            metadata = LazyDict()
            HookManager.enter(metadata)
            library.fake_launch(ctypes.byref(described))
            HookManager.exit(metadata)

    return launch, lambda: None


def profilers(side: str, library: str) -> tuple[Callable[..., Any], Callable[[Any], None]]:
    """Functions that start, with a session's options, and stop what `side` measures."""
    if side == "floor":
        floor = ctypes.CDLL(library)
        return lambda **_: floor.floor_start(), lambda _: floor.floor_stop()
    if side == "ours":
        import triton_proton as proton
    else:
        import triton.profiler as proton

    def start(**options: Any) -> Any:
        session = proton.start("profile", **options)
        proton.enter_scope("loop")
        return session

    def stop(session: Any) -> None:
        proton.exit_scope()
        proton.finalize(session)

    return start, stop


def main() -> None:
    side, cpu = sys.argv[1], int(sys.argv[2])
    everywhere = os.sched_getaffinity(0)
    is_fake = "PROTON_BENCH_FAKE" in os.environ
    launch, wait = fake_launcher() if is_fake else triton_launcher()
    start, stop = profilers(side, sys.argv[3] if len(sys.argv) > 3 else "")

    def timed(count: int) -> float:
        wait()
        gc.collect()
        gc.disable()
        os.sched_setaffinity(0, {cpu})
        begin = time.perf_counter()
        launch(count)
        took = time.perf_counter() - begin
        os.sched_setaffinity(0, everywhere)
        gc.enable()
        return took / count * 1e6

    launch(2000)
    gc.freeze()  # torch's objects need not be traversed at each loop
    print("ready", flush=True)
    for line in sys.stdin:
        turn = json.loads(line)
        launch(WARM_UP)
        before = timed(turn["launches"])
        session = start(**turn["options"])
        launch(WARM_UP)
        with_profiler = timed(turn["launches"])
        wait()
        stop(session)
        launch(WARM_UP)
        after = timed(turn["launches"])
        print("turn", json.dumps([before, with_profiler, after]), flush=True)


if __name__ == "__main__":
    main()
