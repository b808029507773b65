"""Benchmark of the records in a short kernel on an NVIDIA GPU, part by part.

    python bench/intra_short.py [--rounds N]

Needs a GPU, torch, triton and the installed package. A vector add of 4096 CTAs with three scopes,
and the same with parts of the emitted code removed: the global timer at the entry, the whole
entry, the whole exit, the records. The time that a variant gains is the cost of its missing
part. Each is captured in a CUDA graph of 20 launches; the variants take turns, and the median of
all rounds is printed in microseconds of one launch, with the ratio to the kernel without scopes.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import tempfile
from collections.abc import Callable

import torch
import triton
from intra_cases import add, proton
from triton.runtime._allocation import set_profile_allocator
from triton_proton import _libproton

LAUNCHES = 20
SIZE = 1 << 22
GRID = (SIZE // 1024,)


def without(pattern: str, text: str) -> str:
    made, count = re.subn(pattern, "", text)
    assert count, pattern
    return made


def no_entry_timer(text: str) -> str:
    first = 'call i64 asm sideeffect "mov.u64 $0, %globaltimer;"'
    assert first in text
    return text.replace(first, 'call i64 asm sideeffect "mov.u64 $0, %clock64;"', 1)


def no_entry(text: str) -> str:
    # Times that are not stored are not read either.
    text = without(r'(?m)^.*"st\.shared\.v2\.b64 \[\$0\+16\].*\n', text)
    return without(r"(?m)^  %proton\.e\.(ns|clock) = .*\n", text)


def no_end(text: str) -> str:
    made = text.replace("br i1 %proton.f.on,", "br i1 false,")
    assert made != text
    return made


def no_end_timer(text: str) -> str:
    at = text.rindex('"mov.u64 $0, %globaltimer;"')
    return text[:at] + text[at:].replace("%globaltimer", "%clock64", 1)


def no_records(text: str) -> str:
    return without(r'(?m)^.*"st\.shared\.v2\.b32 .*\n', text)


VARIANTS: dict[str, Callable[[str], str]] = {
    "marked": lambda text: text,
    "entry without the timer": no_entry_timer,
    "no entry": no_entry,
    "end without the timer": no_end_timer,
    "no end": no_end,
    "no entry, no end": lambda text: no_end(no_entry(text)),
    "no records": no_records,
}


def captured(launch: Callable[[], object]) -> torch.cuda.CUDAGraph:
    launch()  # makes the buffer
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(LAUNCHES):
            launch()
    return graph


def microseconds(graph: torch.cuda.CUDAGraph) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1000 / LAUNCHES


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=200)
    rounds = parser.parse_args().rounds
    x, y = (torch.randn(SIZE, device="cuda") for _ in range(2))
    out = torch.empty_like(x)
    buffer: dict[int, torch.Tensor] = {}
    inner = _libproton.instrument_llvm
    change = VARIANTS["marked"]

    def changed(*arguments: object) -> object:
        made = inner(*arguments)
        if made and "text" in made:
            made["text"] = change(made["text"])
        return made

    def allocate(size: int, alignment: int, stream: object) -> torch.Tensor:
        # One buffer for all launches: its content is not read.
        if size not in buffer:
            buffer[size] = torch.zeros(size, dtype=torch.uint8, device="cuda")
        return buffer[size]

    def compiled(mark: bool) -> Callable[[], object]:
        """The launch of a kernel that was compiled now, whatever is in force later."""
        arguments = (x, y, out, SIZE, 1024, mark)
        kernel = triton.jit(add.fn)[GRID](*arguments)  # a function that has launched nothing yet
        return lambda: kernel[(*GRID, 1, 1)](*arguments)

    launches = {"plain": compiled(False)}
    _libproton.instrument_llvm = changed
    directory = tempfile.TemporaryDirectory()
    proton.start(os.path.join(directory.name, "profile"), backend="instrumentation")
    with triton.knobs.compilation.scope():
        triton.knobs.compilation.always_compile = True
        for name, change in VARIANTS.items():
            launches[name] = compiled(True)
    torch.cuda.synchronize()
    proton.finalize()
    directory.cleanup()
    set_profile_allocator(allocate)
    graphs = {name: captured(launch) for name, launch in launches.items()}
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(rounds):
        for name, graph in graphs.items():
            times[name].append(microseconds(graph))
    base = statistics.median(times["plain"])
    for name, values in times.items():
        middle = statistics.median(values)
        print(f"{name:26} {middle:8.3f} us  x {middle / base:.3f}")


if __name__ == "__main__":
    main()
