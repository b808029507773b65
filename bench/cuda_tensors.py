"""Benchmark of device metrics (tensors) on an NVIDIA GPU: per scope, and per graph replay.

    python bench/cuda_tensors.py [--rounds N] [--scopes N] [--write]

Needs a GPU, torch and the installed package. A session is live in all measurements, so the
difference is due to the metric alone. Scopes: time of the launching thread per scope, without
metrics (`plain`), with a tensor (`ours`), and with `tensor.item()`, which waits for it, in the row
below. Replays: time on the device per replay of a graph of ten kernels, without and with one
tensor. Figures are medians over the rounds, `noise` is how far two plain runs of a round lay apart.
--write stores bench/results/cuda_tensors.json.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import tempfile
import time
from collections.abc import Callable

import report
import torch

import triton_proton as proton

KERNELS = 10


def scopes(count: int, metrics: Callable[[], object]) -> float:
    """us per scope that the launching thread spends; the device is waited for before and after."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(count):
        with proton.scope("scope", metrics()):
            pass
    took = time.perf_counter() - began
    torch.cuda.synchronize()
    return 1e6 * took / count


def replays(graph: torch.cuda.CUDAGraph, count: int) -> float:
    """us per replay, from the first launch to the end of the last."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(count):
        graph.replay()
    torch.cuda.synchronize()
    return 1e6 * (time.perf_counter() - began) / count


def capture(x: torch.Tensor, has_metric: bool) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(KERNELS):
            x.add_(1)
        with proton.scope("step", {"x": x} if has_metric else None):
            pass
    return graph


def measure(rounds: int, count: int) -> list[dict]:
    x = torch.ones((), device="cuda")
    session = proton.start("bench")
    plain_graph, graph = capture(x, False), capture(x, True)
    works: dict[str, Callable[[], float]] = {
        "scope": lambda: scopes(count, lambda: None),
        "scope again": lambda: scopes(count, lambda: None),
        "scope, tensor": lambda: scopes(count, lambda: {"x": x}),
        "scope, item": lambda: scopes(count, lambda: {"x": x.item()}),
        "replay": lambda: replays(plain_graph, count),
        "replay again": lambda: replays(plain_graph, count),
        "replay, tensor": lambda: replays(graph, count),
    }
    for work in works.values():
        work()
    found: dict[str, list[float]] = {name: [] for name in works}
    for index in range(rounds):
        names = list(works) if index % 2 else list(works)[::-1]
        for name in names:
            found[name].append(works[name]())
            proton.deactivate(session, flushing=True)
            proton.activate(session)
    lost = [row for row in proton._libproton.statistics(session) if row[2] and row[1]]
    assert not lost, lost
    proton.finalize(None, "none")
    middle = {name: statistics.median(values) for name, values in found.items()}

    def noise(name: str) -> float:
        pairs = zip(found[name], found[f"{name} again"])
        return statistics.median(abs(a - b) / min(a, b) for a, b in pairs)

    def row(work: str, base: str, with_metric: str) -> dict:
        return report.row(
            work, "us", plain=middle[base], ours=middle[with_metric], noise=noise(base)
        )

    return [
        row("scope with a tensor as metric", "scope", "scope, tensor"),
        row("scope with tensor.item() as metric", "scope", "scope, item"),
        row(f"replay of {KERNELS} kernels and a tensor", "replay", "replay, tensor"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--scopes", type=int, default=500, help="scopes or replays in a run")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    gc.disable()
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        rows = measure(options.rounds, options.scopes)
        os.chdir("/")
    for row in rows:
        report.show(row)
    if options.write:
        of = report.versions("triton_proton", "torch")
        report.write("cuda_tensors", report.gpu(), of, rows)


if __name__ == "__main__":
    main()
