"""One side of bench/leaving.py: a process with loops of launches, graph replays and decode steps.

    python bench/leaving_side.py SIDE

SIDE is "plain" or "ours". A request {"state": STATE, "work": WORK} on standard input brings the
process into STATE, if it is not there ("before", "active", "deactivated" or "after"; "plain" does
nothing), and measures WORK; the answer is a line "turn [[WALL, CPU], ...]": microseconds per
iteration, of the clock and of the launching thread's CPU, for each chunk. A request with "hold"
asks instead for the milliseconds that ends of sessions stop a thread which replays a graph.
"""

from __future__ import annotations

import os
import sys

if sys.path and sys.path[0] == os.path.dirname(os.path.abspath(__file__)):
    del sys.path[0]

import json
import statistics
import threading
import time
from collections.abc import Callable

import torch

CHUNKS = 3
SETTLE = 1.3  # seconds: a deactivated session ends its records after at most 1 s


def graph_of(nodes: int) -> torch.cuda.CUDAGraph:
    """`nodes` small kernels, captured before any session."""
    values = torch.zeros(64, device="cuda")
    values.add_(1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(nodes):
            values.add_(1)
    graph.values = values  # type: ignore[attr-defined]
    return graph


def decode_step() -> Callable[[], None]:
    """A step of a decode loop: a graph of 16 layers, one synchronization."""
    width, batch = 2048, 8
    weights = [
        [torch.randn(width, width, device="cuda", dtype=torch.bfloat16) * 0.02 for _ in range(4)]
        for _ in range(16)
    ]
    x = torch.randn(batch, width, device="cuda", dtype=torch.bfloat16)

    def layers() -> torch.Tensor:
        y = x
        for a, b, c, d in weights:
            h = torch.nn.functional.rms_norm(y, (width,))
            y = y + torch.softmax(h @ a, -1) @ b
            h = torch.nn.functional.rms_norm(y, (width,))
            y = y + torch.nn.functional.silu(h @ c) @ d
        return y

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        layers()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        layers()

    def step() -> None:
        graph.replay()
        torch.cuda.synchronize()

    return step


class Loops:
    def __init__(self) -> None:
        small = torch.zeros(64, device="cuda")
        graphs = {nodes: graph_of(nodes) for nodes in (100, 400)}
        self.graph = graphs[100]
        self.loops: dict[str, tuple[Callable[[], None], int]] = {
            "launch": (lambda: small.add_(1), 4000),
            "replay of 100 nodes": (graphs[100].replay, 300),
            "replay of 400 nodes": (graphs[400].replay, 100),
            "decode step": (decode_step(), 100),
        }

    def measure(self, work: str) -> list[list[float]]:
        function, count = self.loops[work]
        found = []
        for chunk in range(CHUNKS + 1):
            wall, cpu = time.perf_counter(), time.thread_time()
            for _ in range(count):
                function()
            cpu = time.thread_time() - cpu
            torch.cuda.synchronize()
            wall = time.perf_counter() - wall
            if chunk:  # the first one patches graphs
                found.append([1e6 * wall / count, 1e6 * cpu / count])
        return found


class States:
    """Moves Proton's session from state to state."""

    def __init__(self, is_ours: bool) -> None:
        self.is_ours = is_ours
        self.state = "before"

    def enter(self, state: str) -> None:
        if state == self.state:
            return
        self.state = state
        if not self.is_ours:
            return
        import triton_proton as proton

        if state == "active":
            proton.start("leaving")
        elif state == "deactivated":
            proton.deactivate()
            time.sleep(SETTLE)
        elif state == "after":
            proton.finalize()

    def holds(self, graph: torch.cuda.CUDAGraph, count: int = 7) -> list[float]:
        """How long the longest step of a thread that replays is when a session ends, in ms."""
        longest = [0.0]
        must_end = []

        def replay() -> None:
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                before = time.perf_counter()
                while not must_end:
                    graph.replay()
                    stream.synchronize()
                    now = time.perf_counter()
                    longest[0] = max(longest[0], now - before)
                    before = now

        thread = threading.Thread(target=replay)
        thread.start()
        found = []
        for _ in range(count):
            if self.is_ours:
                import triton_proton as proton

                proton.start("leaving_hold")
            time.sleep(0.2)
            longest[0] = 0.0
            if self.is_ours:
                proton.finalize()
            else:
                time.sleep(0.05)
            found.append(1e3 * longest[0])
        must_end.append(True)
        thread.join()
        return found


def main(side: str) -> None:
    states = States(side == "ours")
    if side == "ours":
        import triton_proton  # noqa: F401
    print("loaded", flush=True)
    loops = None
    for line in sys.stdin:
        request = json.loads(line)
        if loops is None:
            loops = Loops()
            for work in loops.loops:
                loops.measure(work)
            print("ready", flush=True)
            continue
        if "hold" in request:
            found = [[statistics.median(states.holds(loops.graph)), 1.0]]
        else:
            states.enter(request["state"])
            found = loops.measure(request["work"])
        print("turn", json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
