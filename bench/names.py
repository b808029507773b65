"""Benchmark of names from PyTorch: the cost of a launch, a module call and an operator with them.

    python bench/names.py [--rounds N] [--write]

Needs the installed package and PyTorch. `plain` is without the feature, `ours` with it, `floor` (of
module calls) with hooks that do nothing. Figures are medians of the rounds; noise is the distance
between the quartiles of `ours`, as a share.

Launches are measured as the search for their call path, and on a GPU as launches of an empty Triton
kernel, in backward passes on the thread that runs them. Several processes switch the attribution
off and on between short loops, and between nodes of a backward pass on a GPU. In each round,
"adds" is the median of the differences; the 95 % interval over all rounds has to meet the target.

The rows of a GPU are empty without one. The last one counts kernels of llama_step.py under
`proton`. --fake tries the others out on the libraries of tests/fake. --write stores
bench/results/names.json.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, Optional

import report
import torch
from cuda_python import fake_environment
from python_context import processor
from run import ROOT
from turns import MIN_ROUNDS, median_interval

import triton_proton as proton
from triton_proton import _libproton

HERE = os.path.dirname(os.path.abspath(__file__))
DEPTH = 10
PROCESSES = 4  # their addresses make one faster than another
GPU_PROCESSES = 3
PAIRS = 40  # of turns in a round, without and with the attribution
HOST_LOOP = 2000  # launches in a turn in which one follows the other
HOST_NODES = 200  # launches in a turn in which each is in another node
LOOP = 50  # launches on a GPU, which queues them all
LOOP_PAIRS = 250  # short and many: a loop on a GPU varies by a hundred times what is looked for
PASSES = 40  # backward passes on a GPU in a round
PASS_NODES = 300
BLOCK = 10  # nodes of such a pass, without or with the attribution; the first two do not count
GPU_LAUNCHES = ("in forward", "in backward, same node", "in backward")
LAUNCHES = (
    "forward, same operator",
    "forward, new operator",
    "backward, same node",
    "backward",
    "forward, same operator, cold caches",
    "forward, new operator, cold caches",
    "backward, cold caches",
)
COLD_BYTES = 8 << 20
COLD_NODES = 16
COLD_PAIRS = 5

Found = dict[str, list[float]]  # for each round the medians of "plain", "ours" and "added"


def at_depth(depth: int, function: Callable[[], Any]) -> Any:
    return function() if depth == 0 else at_depth(depth - 1, function)


def loop(function: Callable[[], Any], count: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(count):
        function()
    return (time.perf_counter_ns() - start) / count


def evict(other: bytearray = bytearray(COLD_BYTES)) -> None:
    """Replaces what is in the caches of this processor."""
    other.count(1)


def stay() -> None:
    pass


def launch_once() -> int:
    """Nanoseconds of one launch. The clock is read before, because it may be cold, too."""
    time.perf_counter_ns()
    start = time.perf_counter_ns()
    _libproton.source_context()
    return time.perf_counter_ns() - start


class Node(torch.autograd.Function):
    """Measures a launch in its backward function."""

    before: Callable[[], None] = stay
    measured: Optional[Callable[[], None]] = None  # called in the first backward function
    spent: list[int] = []

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        _libproton.source_context()
        return x * 1

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        Node.before()
        Node.spent.append(launch_once())
        if Node.measured is not None:
            Node.measured()
            Node.measured = None
        return gradient


def launch_in_forward(before: Callable[[], None], count: int, is_new: bool) -> float:
    """Nanoseconds per launch, with an operator that makes a node before each if `is_new`."""
    spent = []
    y = torch.ones(3, requires_grad=True)
    for _ in range(count):
        if is_new:
            y = y + 1
        before()
        spent.append(launch_once())
    return statistics.median(spent)


def launch_in_nodes(before: Callable[[], None], count: int) -> float:
    """Nanoseconds per launch, each in the backward function of another node."""
    y = torch.ones(3, requires_grad=True)
    for _ in range(count):
        y = Node.apply(y)
    Node.before, Node.spent = staticmethod(before), []
    y.sum().backward()
    return statistics.median(Node.spent)


def alternate(measure: Callable[[], float], found: Found, pairs: int = PAIRS) -> None:
    """Measures in turns without and with the attribution; adds a round to `found`."""
    sides: dict[bool, list[float]] = {False: [], True: []}
    for number in range(pairs):
        for is_on in (False, True) if number % 2 else (True, False):
            _libproton.use_autograd(is_on)
            sides[is_on].append(measure())
    _libproton.use_autograd(True)
    add_round(sides, found)


def add_round(sides: dict[bool, list[float]], found: Found) -> None:
    found["plain"].append(statistics.median(sides[False]))
    found["ours"].append(statistics.median(sides[True]))
    found["added"].append(statistics.median(b - a for a, b in zip(sides[False], sides[True])))


def nothing_found(works: Sequence[str]) -> list[Found]:
    return [{"plain": [], "ours": [], "added": []} for _ in works]


def measure_launches(rounds: int) -> list[Found]:
    """In the order of LAUNCHES."""
    found = nothing_found(LAUNCHES)
    same, new, same_node, other, cold, new_cold, other_cold = found

    def launch_again() -> float:
        _libproton.source_context()  # the first one after a switch finds no path of the last one
        return loop(_libproton.source_context, HOST_LOOP)

    def launch(is_new: bool) -> float:
        return launch_in_forward(evict, COLD_NODES, is_new)

    for _ in range(rounds):
        at_depth(DEPTH, lambda: alternate(launch_again, same))
        at_depth(DEPTH, lambda: alternate(lambda: launch_in_forward(stay, HOST_NODES, True), new))
        Node.measured = lambda: alternate(launch_again, same_node)
        launch_in_nodes(stay, HOST_NODES)
        alternate(lambda: launch_in_nodes(stay, HOST_NODES), other)
        at_depth(DEPTH, lambda: alternate(lambda: launch(False), cold, COLD_PAIRS))
        at_depth(DEPTH, lambda: alternate(lambda: launch(True), new_cold, COLD_PAIRS))
        alternate(lambda: launch_in_nodes(evict, COLD_NODES), other_cold, COLD_PAIRS)
    return found


def has_attribution(index: int) -> bool:
    """Whether the node with this index in a backward pass on a GPU is measured with it."""
    return index // BLOCK % 2 == 0


class GpuNode(torch.autograd.Function):
    """Launches kernels in its backward function, on the thread of the device."""

    launch: Callable[[int], None]
    wait: Callable[[], None]
    measured: Optional[Callable[[], None]] = None  # called in the first backward function
    spent: list[int] = []

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        GpuNode.launch(1)
        return x * 1

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        if len(GpuNode.spent) % BLOCK == 0:
            _libproton.use_autograd(has_attribution(len(GpuNode.spent)))
        start = time.perf_counter_ns()
        GpuNode.launch(1)
        GpuNode.spent.append(time.perf_counter_ns() - start)
        if GpuNode.measured is not None:
            GpuNode.measured()
            GpuNode.measured = None
        return gradient


def launch_loop() -> float:
    """Nanoseconds of CPU time per launch."""
    GpuNode.launch(5)  # the first ones after a switch find their data in no cache
    GpuNode.wait()
    start = time.thread_time_ns()
    GpuNode.launch(LOOP)
    return (time.thread_time_ns() - start) / LOOP


def launch_in_backward(sides: dict[bool, list[float]], skipped: int = 0) -> None:
    """Adds nanoseconds per launch to `sides`, with each launch in another node."""
    y = torch.ones(3, requires_grad=True, device="cuda" if torch.cuda.is_available() else "cpu")
    for _ in range(PASS_NODES):
        y = GpuNode.apply(y)
    GpuNode.wait()
    GpuNode.spent = [0] * skipped
    y.sum().backward()
    _libproton.use_autograd(True)
    for is_on, spent in sides.items():
        spent.append(
            statistics.median(
                ns
                for index, ns in enumerate(GpuNode.spent)
                if index >= skipped and index % BLOCK >= 2 and has_attribution(index) == is_on
            )
        )


def measure_gpu_launches(rounds: int) -> list[Found]:
    """In the order of GPU_LAUNCHES."""
    found = nothing_found(GPU_LAUNCHES)
    forward, same, other = found
    for _ in range(rounds):
        at_depth(DEPTH, lambda: alternate(launch_loop, forward, LOOP_PAIRS))
        GpuNode.measured = lambda: alternate(launch_loop, same, LOOP_PAIRS)
        launch_in_backward({})
        sides: dict[bool, list[float]] = {False: [], True: []}
        for number in range(PASSES):
            launch_in_backward(sides, BLOCK * (number % 2))
        add_round(sides, other)
    return found


def serve(backend: str, rounds: int) -> None:
    """A process of launches: prints its figures."""
    measure = measure_launches
    if backend != "host":
        from launch_side import fake_launcher, triton_launcher

        make = fake_launcher if "PROTON_BENCH_FAKE" in os.environ else triton_launcher
        GpuNode.launch, GpuNode.wait = (staticmethod(function) for function in make())
        measure = measure_gpu_launches
        launch_in_backward({})
    proton.start("names", context="python", backend=backend)
    gc.collect()
    gc.disable()  # it would run in one of two turns
    measure(1)
    print(json.dumps(measure(rounds)), flush=True)
    proton.finalize(None, "none")


def quartiles(values: list[float]) -> float:
    cuts = statistics.quantiles(values, n=4)
    return (cuts[2] - cuts[0]) / statistics.median(values)


def launch_row(
    work: str, unit: str, plain: list[float], ours: list[float], added: list[float]
) -> dict[str, Any]:
    """A row in nanoseconds, with a value of each round; `added`: by these, 60 at most."""
    is_cold = work.endswith("cold caches")
    middle, interval = median_interval(added)
    text = f"adds {middle:.0f} ns"
    if interval is not None:
        text += f" ({interval[0]:.0f} to {interval[1]:.0f})"
    is_met = interval is not None and len(added) >= MIN_ROUNDS and interval[1] <= 60
    return report.row(
        work,
        unit,
        plain=statistics.median(plain),
        ours=statistics.median(ours),
        noise=quartiles(ours),
        target=f"{text}{'' if is_cold else ': at most 60'}; {len(added)} rounds",
        met=None if is_cold else is_met,
    )


def launch_rows(backend: str, rounds: int) -> list[dict[str, Any]]:
    is_host = backend == "host"
    works = LAUNCHES if is_host else GPU_LAUNCHES
    processes = PROCESSES if is_host else GPU_PROCESSES
    each = -(-rounds // processes)
    command = [sys.executable, os.path.abspath(__file__), "--serve", backend]
    found: list[list[Found]] = []
    for _ in range(processes):
        done = subprocess.run(
            [*command, "--rounds", str(each)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PROTON_QUIET": "1"},
        )
        found.append(json.loads(done.stdout.splitlines()[-1]))
    rows = []
    for index, work in enumerate(works):
        plain, ours, added = (
            [value for process in found for value in process[index][name]]
            for name in ("plain", "ours", "added")
        )
        name = f"{'call path of a launch' if is_host else 'Triton launch on a GPU'}, {work}"
        unit = "ns" if is_host or work == GPU_LAUNCHES[-1] else "ns of CPU"
        rows.append(launch_row(name, unit, plain, ours, added))
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


def llama_row() -> dict[str, Any]:
    """The share of kernels with a line of llama_step.py other than that of backward()."""
    step = os.path.join(HERE, "llama_step.py")
    with open(step, encoding="utf-8") as file:
        text = file.read().split("\n")
    with open("step.py", "w", encoding="utf-8") as file:
        file.write(f"import sys\nsys.path.insert(0, {HERE!r})\nimport llama_step\n")
        file.write("step = llama_step.make_step()\nfor _ in range(3):\n    step()\n")
    command = [sys.executable, "-m", "triton_proton", "-q", "-c", "python", "-n", "step", "step.py"]
    subprocess.run(command, check=True)
    with open("step.hatchet", encoding="utf-8") as file:
        open_nodes = [(json.load(file)[0], False)]
    kernels, named = 0, 0
    while open_nodes:
        node, has_line = open_nodes.pop()
        kernels += node["metrics"].get("count", 0)
        named += has_line * node["metrics"].get("count", 0)
        for child in node["children"]:
            name = child["frame"]["name"]
            is_named = has_line
            if name.startswith(f"{step}:"):
                number = int(name.rpartition("@")[0].rpartition(":")[2])
                is_named = ".backward()" not in text[number - 1]
            open_nodes.append((child, is_named))
    share = 100 * named / kernels
    return report.row(
        "Llama step on a GPU, kernels with a line of the model",
        "%",
        ours=share,
        target=f"{named} of {kernels}: at least 95",
        met=share >= 95,
    )


def gpu_rows(rounds: int, is_fake: bool) -> list[dict[str, Any]]:
    """Empty without a GPU."""
    if not is_fake and not torch.cuda.is_available():
        works = [f"Triton launch on a GPU, {work}" for work in GPU_LAUNCHES]
        empty = [report.row(work, "ns", target="adds at most 60") for work in works]
        work = "Llama step on a GPU, kernels with a line of the model"
        return [*empty, report.row(work, "%", target="at least 95")]
    rows = launch_rows("cupti", rounds)
    return rows if is_fake else [*rows, llama_row()]


def measure(rounds: int) -> list[dict[str, Any]]:
    return [*launch_rows("host", rounds), module_row(rounds), operator_row(rounds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--serve", choices=("host", "cupti"), help=argparse.SUPPRESS)
    parser.add_argument("--fake", action="store_true", help="try out the rows of a GPU")
    parser.add_argument("--write", action="store_true", help="store the results")
    arguments = parser.parse_args()
    if arguments.fake:
        fake_environment(os.path.join(ROOT, "build"))
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        if arguments.serve:
            serve(arguments.serve, arguments.rounds)
            return
        rows = [] if arguments.fake else measure(arguments.rounds)
        rows += gpu_rows(arguments.rounds, arguments.fake)
    for row in rows:
        report.show(row)
    if arguments.write:
        found = {**report.versions("torch"), "triton_proton": _libproton.version()}
        report.write("names", processor(), found, rows)
    if any(row["met"] is False for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
