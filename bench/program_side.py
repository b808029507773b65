"""One side of bench/cuda_command.py and of the training step of bench/cuda_programs.py.

    python bench/program_side.py OPTIONS

OPTIONS is a JSON object: `profiler`, null or "ours", "upstream" or "floor" (bare CUPTI: the
functions of `library`, see cupti_floor.h); `start`, "early" (before CUDA is initialized) or "late"
(after a warm-up); `options` of the session, for the floor `samples` with the arguments of
floor_sample(); `works`, of which `step` is a training step that is bound by launches, `busy` one
that is bound by the GPU, `launch` the launch of an empty Triton kernel, and `kernel` that of one of
about 20 us; `cpu`. A profiler that is not started here may come from outside, as with the `proton`
command.

The process prints "loaded" when its imports are done, and waits for a line before it uses CUDA; it
prints "ready" after its warm-up. Each further line asks for a turn:
{"work": W, "count": N, "chunks": C}. The answer is a line "turn [[CPU, WALL, REFERENCE], ...]" with
C chunks of N calls (bench/reference.py). The end of the input ends the process; floor's leaves
the number of its records in the file `recorded`.

During a turn the thread stays on processor `cpu` and garbage is not collected. A step does its
backward pass on this thread as well: one thread makes all launches.

With PROTON_BENCH_FAKE set the launches are those of tests/fake, as in launch_side.py.
"""

from __future__ import annotations

import reference  # before launch_side, which takes this directory out of sys.path

import launch_side

import ctypes
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
FAKE_STEP = 5000  # launches
# At first, PC sampling asks CUPTI for the code of modules that were loaded before, which costs time
# in each launch, for at most two seconds.
SAMPLING_START_S = 2.2
# Counters may spend 1 s at once; after some time, distinct kernels have been measured.
COUNTERS_START_S = 20.0
# Calls before the first turn, and before each.
WARM_UP = {"step": (4, 1), "busy": (4, 1), "launch": (1000, 200), "kernel": (500, 50)}


def load_injection_library() -> None:
    """Loads the library that CUDA_INJECTION64_PATH names, as the driver does in cuInit()."""
    path = os.environ.get("CUDA_INJECTION64_PATH")
    if path:
        ctypes.CDLL(path).InitializeInjection()


def fake_works() -> tuple[dict[str, Callable[[int], None]], Callable[[], None]]:
    load_injection_library()
    launch, wait = launch_side.fake_launcher()
    return {
        "step": lambda count: launch(count * FAKE_STEP),
        "busy": lambda count: launch(count * FAKE_STEP),
        "launch": launch,
        "kernel": launch,
    }, wait


def training_steps(name: str) -> Callable[[int], None]:
    import torch

    sys.path.insert(0, HERE)
    import llama_step

    del sys.path[0]
    torch.autograd.set_multithreading_enabled(False)
    size = (llama_step.BUSY_BATCH, llama_step.BUSY_LENGTH) if name == "busy" else ()
    one_step = llama_step.make_step("cuda", *size)

    def steps(count: int) -> None:
        for _ in range(count):
            one_step()

    return steps


def real_works(names: list[str]) -> tuple[dict[str, Callable[[int], None]], Callable[[], None]]:
    """Functions that do a work N times, and one that waits for the GPU."""
    import torch

    works = {}
    for name in ("step", "busy"):
        if name in names:
            works[name] = training_steps(name)
    if "launch" in names:
        works["launch"] = launch_side.triton_launcher()[0]
    if "kernel" in names:
        works["kernel"] = launch_side.triton_launcher(iterations=270)[0]
    return works, torch.cuda.synchronize


def make_starter(asked: dict[str, Any]) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """Functions that start and stop what this process is to be measured with."""
    if asked["profiler"] is None:
        return lambda: None, lambda _: None
    if asked["profiler"] == "floor":
        floor = ctypes.CDLL(asked["library"])
        samples = asked["options"].get("samples")

        def start() -> None:
            floor.floor_start()
            if samples:
                floor.floor_sample(*samples)

        def stop(_: Any) -> None:
            if samples:
                floor.floor_sample_stop()
            floor.floor_stop()
            floor.floor_recorded.restype = ctypes.c_ulong
            with open("recorded", "w", encoding="ascii") as file:
                file.write(str(floor.floor_recorded()))

        return start, stop
    if asked["profiler"] == "ours":
        import triton_proton as proton
    else:
        import triton.profiler as proton
    return lambda: proton.start("profile", **asked["options"]), proton.finalize


def main() -> None:
    asked = json.loads(sys.argv[1])
    everywhere = os.sched_getaffinity(0)
    is_fake = "PROTON_BENCH_FAKE" in os.environ
    if not is_fake:
        import torch  # noqa: F401  all sides find the same libcupti
        import torch._dynamo  # the optimizer would import it
        import triton  # noqa: F401
    start, stop = make_starter(asked)
    print("loaded", flush=True)
    if not sys.stdin.readline():
        return
    session = start() if asked["start"] == "early" else None
    works, wait = fake_works() if is_fake else real_works(asked["works"])
    do_reference = reference.make_reference(sys.modules.get("torch"))

    def take_turn(work: Callable[[int], None], count: int, chunks: int) -> list[list[float]]:
        gc.collect()
        gc.disable()
        os.sched_setaffinity(0, {asked["cpu"]})
        found = reference.take_chunks(work, count, chunks, wait, do_reference)
        os.sched_setaffinity(0, everywhere)
        gc.enable()
        return found

    works = {name: works[name] for name in asked["works"]}
    for name, work in works.items():
        work(WARM_UP[name][0])
    wait()
    if asked["start"] == "late":
        session = start()
    is_sampled = "pcsampling" in asked["options"].get("mode", "")
    is_counted = asked["options"].get("counters")
    warm_up_s = COUNTERS_START_S if is_counted else SAMPLING_START_S if is_sampled else 0
    begin = time.monotonic()
    while True:  # a profiler has its first buffers then
        for name, work in works.items():
            work(1 if asked["profiler"] == "upstream" and is_sampled else WARM_UP[name][0])
            wait()
        is_over = time.monotonic() - begin >= warm_up_s
        if is_over or is_fake or asked["profiler"] == "upstream":
            break
    do_reference()
    gc.collect()
    gc.freeze()  # torch's objects need not be traversed at each turn
    print("ready", flush=True)
    for line in sys.stdin:
        turn = json.loads(line)
        work = works[turn["work"]]
        work(WARM_UP[turn["work"]][1])
        print("turn", json.dumps(take_turn(work, turn["count"], turn["chunks"])), flush=True)
    wait()
    stop(session)


if __name__ == "__main__":
    main()
