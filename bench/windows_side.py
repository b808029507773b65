"""One side of bench/windows.py: a decode loop with 8 graphs, by batch size.

    python bench/windows_side.py SIDE

SIDE is "plain", "windows", "deactivated", "full" or "torch". The profiler starts after the graphs
were captured. A request {"seconds": S} runs the loop for that time; the answer is a line
"turn [[MEAN, P99]]": microseconds per step.
"""

from __future__ import annotations

import os
import sys

if sys.path and sys.path[0] == os.path.dirname(os.path.abspath(__file__)):
    del sys.path[0]

import json
import random
import time

import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

BATCHES = (1, 2, 4, 8, 12, 16, 24, 32)
LAYERS, HIDDEN, HEADS, LENGTH = 16, 2048, 32, 512
WINDOWS = os.environ.get("WINDOWS", "50ms/5s")


def weight(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * 0.02


class Decoder:
    """A Llama-shaped model; a step computes one token of each sequence of a batch."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.layers = [
            (
                weight(3 * HIDDEN, HIDDEN),
                weight(HIDDEN, HIDDEN),
                weight(8 * HIDDEN, HIDDEN),
                weight(HIDDEN, 4 * HIDDEN),
                weight(2, BATCHES[-1], HEADS, LENGTH, HIDDEN // HEADS),
            )
            for _ in range(LAYERS)
        ]
        self.position = torch.tensor([LENGTH - 1], device="cuda")
        self.random = random.Random(9)
        self.coming: list[int] = []  # batch sizes of the next steps
        self.inputs = {batch: weight(batch, HIDDEN) for batch in BATCHES}
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        # Others may compile a kernel for each batch size at first.
        with torch.no_grad(), sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            for batch in BATCHES:
                self.compute(batch)
            torch.cuda.synchronize()
            for batch in BATCHES:
                self.graphs[batch] = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self.graphs[batch]):
                    self.compute(batch)

    def compute(self, batch: int) -> torch.Tensor:
        x = self.inputs[batch]
        for qkv, out, gate_up, down, cache in self.layers:
            q, k, v = F.linear(F.rms_norm(x, (HIDDEN,)), qkv).chunk(3, -1)
            keys, values = cache[0, :batch], cache[1, :batch]
            keys.index_copy_(2, self.position, k.reshape(batch, HEADS, 1, -1))
            values.index_copy_(2, self.position, v.reshape(batch, HEADS, 1, -1))
            a = F.scaled_dot_product_attention(q.reshape(batch, HEADS, 1, -1), keys, values)
            x = x + F.linear(a.reshape(batch, HIDDEN), out)
            gate, up = F.linear(F.rms_norm(x, (HIDDEN,)), gate_up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, down)
        return x

    def run(self, seconds: float) -> list[float]:
        """The seconds of each step."""
        found = []
        before = begin = time.perf_counter()
        while before - begin < seconds:
            if not self.coming:  # each as often: turns of any length have the same mean
                self.coming = self.random.sample(BATCHES, len(BATCHES))
            self.graphs[self.coming.pop()].replay()
            torch.cuda.current_stream().synchronize()
            now = time.perf_counter()
            found.append(now - before)
            before = now
        return found


def begin_profiler(side: str) -> None:
    if side == "torch":
        activities = [torch.profiler.ProfilerActivity.CUDA]
        torch.profiler.profile(activities=activities).start()
        return
    if side == "plain":
        return
    import triton_proton as proton

    mode = f"default:windows={WINDOWS}" if side == "windows" else None
    session = proton.start("windows", mode=mode)
    if side == "deactivated":
        proton.deactivate(session)


def main(side: str) -> None:
    if side not in ("plain", "torch"):
        import triton_proton  # noqa: F401
    print("loaded", flush=True)
    decoder = None
    for line in sys.stdin:
        request = json.loads(line)
        if decoder is None:
            decoder = Decoder()
            decoder.run(1)
            begin_profiler(side)
            decoder.run(2)
            print("ready", flush=True)
            continue
        steps = sorted(decoder.run(request["seconds"]))
        mean = 1e6 * sum(steps) / len(steps)
        p99 = 1e6 * steps[len(steps) * 99 // 100]
        print("turn", json.dumps([[mean, p99]]), flush=True)
    if side not in ("plain", "torch"):
        import triton_proton as proton

        proton.finalize()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
