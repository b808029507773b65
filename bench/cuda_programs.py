"""Benchmark of whole Python programs on an NVIDIA GPU, next to Triton's profiler.

    python bench/cuda_programs.py [--rounds N] [--seconds S] [--write] [--only WORK] [--build DIR]

Works: `step` (a training step of a Llama-shaped model), `graph` (replays of a CUDA graph of 100
Triton kernels), `many` (60,000 kernels: size of the profile and time to write it).

Needs a GPU, torch, triton, the installed package, Meson and a C compiler. Each side runs in its
own processes, because two profilers cannot use CUPTI in one. `step` is measured as in
cuda_command.py; `floor` is bare CUPTI (cupti_floor.c) and --seconds bounds it. In `graph` plain and
profiled turns alternate inside a process, and `noise` is the spread of the plain medians of all
processes. --write stores bench/results/cuda_programs.json; with --only it replaces the rows of that
work alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

import report
from program_turns import Case, Programs, make_row
from run import ROOT
from turns import MIN_ROUNDS

PROCESSES = 3  # per side and work

COMMON = """
import json, os, statistics, sys, time
import torch
side, options, rounds = json.loads(sys.argv[1])
if side == "ours":
    import triton_proton as proton
else:
    import triton.profiler as proton

def timed(work, count):
    "Milliseconds per call, the end of the work on the GPU included."
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        work()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / count * 1e3

def start(name):
    return proton.start(name, **options)

def file_bytes(name):
    return sum(os.path.getsize(file) for file in os.listdir(".") if file.startswith(name + "."))
"""

GRAPH = (
    COMMON
    + """
import triton
import triton.language as tl

@triton.jit
def empty(x):
    pass

x = torch.zeros(1, device="cuda")
empty[(1,)](x)

def captured():
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with proton.scope("captured"):
            for _ in range(100):
                empty[(1,)](x)
    timed(graph.replay, 50)
    return graph

plain, profiled = [], []
for number in range(rounds):
    graph = captured()
    plain.append(timed(graph.replay, 500) * 1e3)
    session = start("profile_%d" % number)
    graph = captured()
    with proton.scope("replays"):
        profiled.append(timed(graph.replay, 500) * 1e3)
    proton.finalize(session)
print(json.dumps([plain, profiled]))
"""
)

MANY = (
    COMMON
    + """
import triton
import triton.language as tl

@triton.jit
def tiny(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, at < n) + 1.0, at < n)

x = torch.zeros(1024, device="cuda")
tiny[(1,)](x, 1024, BLOCK=1024)
sizes, seconds = [], []
for number in range(rounds):
    session = start("profile_%d" % number)
    with proton.scope("loop"):
        for _ in range(60000):
            tiny[(1,)](x, 1024, BLOCK=1024)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    proton.finalize(session)
    seconds.append(time.perf_counter() - begin)
    sizes.append(file_bytes("profile_%d" % number))
print(json.dumps([sizes, seconds]))
"""
)


def run_side(program: str, side: str, options: dict[str, str], rounds: int) -> list[list[float]]:
    """The two lists that one process of a program prints."""
    with tempfile.TemporaryDirectory() as scratch:
        script = os.path.join(scratch, "child.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(program)
        output = subprocess.run(
            [sys.executable, script, json.dumps([side, options, rounds])],
            cwd=scratch,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
    return json.loads(output.splitlines()[-1])


def medians(program: str, options: dict[str, str], rounds: int) -> dict[str, list[list[float]]]:
    """For each side, [first median, second median] of each of its processes, which take turns."""
    sides: dict[str, list[list[float]]] = {"ours": [], "upstream": []}
    for _ in range(PROCESSES):
        for side, found in sides.items():
            first, second = run_side(program, side, options, rounds)
            found.append([statistics.median(first), statistics.median(second)])
    return sides


def spread(sides: dict[str, list[list[float]]]) -> float:
    """The noise: how far the plain medians of the processes lay apart."""
    plain = [first for found in sides.values() for first, _ in found]
    return (max(plain) - min(plain)) / statistics.median(plain)


STEP_SIDES = {
    "plain": Case(),
    "floor": Case("floor"),
    "shadow": Case("ours", options={"context": "shadow"}),
    "python": Case("ours", options={"context": "python"}),
    "upstream shadow": Case("upstream", options={"context": "shadow"}),
    "upstream python": Case("upstream", options={"context": "python"}),
}


def step(options: argparse.Namespace) -> list[dict[str, Any]]:
    """By the CPU time of the launching thread, as in cuda_command.py."""
    programs = Programs(STEP_SIDES, ["step"], directory=options.build)
    programs.use_one_cupti()
    found = programs.measure(max(options.rounds, MIN_ROUNDS), 3, options.seconds)
    rows = []
    for context in ("shadow", "python"):
        columns = {"ours": context, "upstream": f"upstream {context}", "floor": "floor"}
        limits = {"floor": ("bare CUPTI", 0.01)}
        rows.append(make_row(found, "step", context, columns, context, limits))
        report.show(rows[-1])
    return rows


def graph(options: argparse.Namespace) -> list[dict[str, Any]]:
    sides = medians(GRAPH, {"context": "shadow"}, options.rounds)
    added = {
        side: statistics.median(on - off for off, on in found) for side, found in sides.items()
    }
    plain = statistics.median(off for found in sides.values() for off, _ in found)
    rows = [
        report.row(
            "replay of a graph of 100 Triton kernels",
            "us per replay",
            plain=plain,
            ours=plain + added["ours"],
            upstream=plain + added["upstream"],
            noise=spread(sides),
            target=f"adds {added['ours']:.1f} us, upstream {added['upstream']:.1f}: no more",
            met=added["ours"] <= added["upstream"] * 1.02,
        )
    ]
    report.show(rows[-1])
    return rows


def many(options: argparse.Namespace) -> list[dict[str, Any]]:
    sides = medians(MANY, {"context": "shadow"}, options.rounds)
    found = {
        side: [statistics.median(column) for column in zip(*values)]
        for side, values in sides.items()
    }
    rows = [
        report.row(
            "60,000 kernels: size of the profile",
            "bytes",
            ours=found["ours"][0],
            upstream=found["upstream"][0],
            target="at most 2 x upstream's",
            met=found["ours"][0] <= 2 * found["upstream"][0],
        ),
        report.row(
            "60,000 kernels: finalize",
            "s",
            ours=found["ours"][1],
            upstream=found["upstream"][1],
            target="at most 0.05 s",
            met=found["ours"][1] <= 0.05,
        ),
    ]
    for one in rows:
        report.show(one)
    return rows


WORKS = {"step": step, "graph": graph, "many": many}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="rounds inside a process")
    parser.add_argument("--seconds", type=float, help="the training step takes at most so long")
    parser.add_argument("--only", choices=sorted(WORKS), help="one work instead of all")
    parser.add_argument(
        "--write", action="store_true", help="store bench/results/cuda_programs.json"
    )
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build directory")
    options = parser.parse_args()

    # Before the measurement, which may use up the remaining time.
    machine, of = report.gpu(), report.versions("triton_proton", "triton", "torch")
    rows = []
    for name, work in WORKS.items():
        if options.only in (None, name):
            rows += work(options)
    if options.write:
        if options.only:
            rows = report.merged("cuda_programs", rows)
        report.write("cuda_programs", machine, of, rows)
    return 1 if any(row["met"] is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
