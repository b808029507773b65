"""Benchmark of names from PyTorch: the cost of a launch, a module call and an operator with them.

    python bench/names.py [--rounds N] [--write]

Needs the installed package and PyTorch. `plain` is without the feature, `ours` with it, `floor`
(of module calls) with hooks that do nothing. Launches are measured as the search for their call
path, in processes with PROTON_BACKWARD=0 and 1 that take turns; the rest in this process. Figures
are medians of the rounds; noise is the distance between the quartiles of `ours`, as a share.
--write stores bench/results/names.json. Rows that need a GPU are empty there.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, Optional

import report
import torch
from python_context import processor

import triton_proton as proton
from triton_proton import _libproton

HERE = os.path.dirname(os.path.abspath(__file__))
DEPTH = 10
NODES = 2000
LAUNCHES = ("forward, same operator", "forward, new operator", "backward, same node", "backward")


def at_depth(depth: int, function: Callable[[], Any]) -> Any:
    return function() if depth == 0 else at_depth(depth - 1, function)


def loop(function: Callable[[], Any], count: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(count):
        function()
    return (time.perf_counter_ns() - start) / count


class Node(torch.autograd.Function):
    """Measures a launch in its backward function."""

    spent = 0
    same = 0.0

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        _libproton.source_context()
        return x * 1

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        start = time.perf_counter_ns()
        _libproton.source_context()
        Node.spent += time.perf_counter_ns() - start
        Node.same = loop(_libproton.source_context, 50)
        return gradient


def measure_launches() -> list[float]:
    """Nanoseconds per launch, in the order of LAUNCHES."""
    x = torch.ones(3, requires_grad=True)
    same = at_depth(DEPTH, lambda: loop(_libproton.source_context, 20000))

    def new() -> float:
        spent = 0
        y = x
        for _ in range(NODES):
            y = y + 1
            start = time.perf_counter_ns()
            _libproton.source_context()
            spent += time.perf_counter_ns() - start
        return spent / NODES

    first = at_depth(DEPTH, new)
    y = x
    for _ in range(NODES // 4):
        y = Node.apply(y)
    Node.spent = 0
    y.sum().backward()
    return [same, first, Node.same, Node.spent / (NODES // 4)]


def serve() -> None:
    """A side: prints a line of figures for each line of standard input."""
    proton.start("names", context="python", backend="host")
    measure_launches()
    for _ in sys.stdin:
        print(json.dumps(measure_launches()), flush=True)
    proton.finalize(None, "none")


def quartiles(values: list[float]) -> float:
    cuts = statistics.quantiles(values, n=4)
    return (cuts[2] - cuts[0]) / statistics.median(values)


def launch_rows(rounds: int) -> list[dict[str, Any]]:
    sides = {}
    for name, value in (("plain", "0"), ("ours", "1")):
        sides[name] = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PROTON_BACKWARD": value, "PROTON_QUIET": "1"},
        )
    taken: dict[str, list[list[float]]] = {"plain": [], "ours": []}
    for _ in range(rounds):
        for name, side in sides.items():
            assert side.stdin is not None and side.stdout is not None
            side.stdin.write("\n")
            side.stdin.flush()
            taken[name].append(json.loads(side.stdout.readline()))
    for side in sides.values():
        assert side.stdin is not None
        side.stdin.close()
        side.wait()
    rows = []
    for index, work in enumerate(LAUNCHES):
        plain, ours = ([figures[index] for figures in taken[name]] for name in ("plain", "ours"))
        added = statistics.median(b - a for a, b in zip(plain, ours))
        rows.append(
            report.row(
                f"call path of a launch, {work}",
                "ns",
                plain=statistics.median(plain),
                ours=statistics.median(ours),
                noise=quartiles(ours),
                target=f"adds {added:.0f} ns: at most 60",
                met=added <= 60,
            )
        )
    return rows


def compare(
    work: str,
    rounds: int,
    sides: dict[str, Callable[[], float]],
    limit_us: float,
) -> dict[str, Any]:
    """A row in microseconds: `ours` may add `limit_us` to `plain`."""
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            taken[name].append(side() / 1000)
    added = statistics.median(b - a for a, b in zip(taken["plain"], taken["ours"]))
    floor: Optional[float] = statistics.median(taken["floor"]) if "floor" in taken else None
    return report.row(
        work,
        "us",
        plain=statistics.median(taken["plain"]),
        ours=statistics.median(taken["ours"]),
        floor=floor,
        noise=quartiles(taken["ours"]),
        target=f"adds {added:.2f} us: at most {limit_us:g}",
        met=added <= limit_us,
    )


class Identity(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x


def module_row(rounds: int) -> dict[str, Any]:
    x = torch.ones(1)
    plain, floor, ours = Identity(), Identity(), proton.annotate(Identity())
    floor.register_forward_pre_hook(lambda module, inputs: None)
    floor.register_forward_hook(lambda module, inputs, output: None, always_call=True)
    proton.start("names", backend="host", backward=True)
    sides = {
        name: (lambda model=model: loop(lambda: model(x), 5000))
        for name, model in (("plain", plain), ("floor", floor), ("ours", ours))
    }
    row = compare("call of an annotated module", rounds, sides, 2)
    proton.finalize(None, "none")
    return row


def operator_row(rounds: int) -> dict[str, Any]:
    x = torch.ones(4)
    view = torch.ops.aten.view.default
    proton.start("names", backend="host")

    def run(is_on: bool) -> float:
        _libproton.follow_operators(is_on)
        return loop(lambda: view(x, [4]), 5000)

    sides = {"plain": lambda: run(False), "ours": lambda: run(True)}
    row = compare("operator with --torch-ops", rounds, sides, 1)
    proton.finalize(None, "none")
    _libproton.follow_operators(False)
    return row


def gpu_rows() -> list[dict[str, Any]]:
    """Not measured here: they need a GPU."""
    return [
        report.row(work, unit, target=target)
        for work, unit, target in (
            ("Llama step on a GPU, kernels with a line of the model", "%", "at least 95"),
            ("Triton launch in backward on a GPU", "ns", "adds at most 60"),
        )
    ]


def measure(rounds: int) -> list[dict[str, Any]]:
    return [*launch_rows(rounds), module_row(rounds), operator_row(rounds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--write", action="store_true", help="store the results")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        rows = [] if arguments.serve else measure(arguments.rounds)
        if arguments.serve:
            serve()
    if arguments.serve:
        return
    for row in rows:
        report.show(row)
    if arguments.write:
        found = {**report.versions("torch"), "triton_proton": _libproton.version()}
        report.write("names", processor(), found, [*rows, *gpu_rows()])
    if any(row["met"] is False for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
