"""A small inference server with the parts that matter to a profiler.

    python examples/server.py --port 8000
    curl -d '{"prompt": [3, 1, 4], "tokens": 20}' http://127.0.0.1:8000/generate
    curl -X POST http://127.0.0.1:8000/start_profile
    curl -X POST http://127.0.0.1:8000/stop_profile

Requests join and leave the batch between steps. Each step replays the CUDA graph of its batch size;
without a GPU, Triton's interpreter runs the kernels. The answer of /stop_profile has the time per
token and per kernel, of prefill and of decode. The model computes nothing of use.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Callable, Optional

import torch

# Triton looks at this when a kernel is defined, so it has to be said before.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

import triton
import triton.language as tl

import triton_proton as proton

BATCHES = (1, 2, 3, 4, 5, 6, 7, 8)  # a graph for each
LAYERS = 2
WIDTH = 64
WORDS = 1000
IDLE_S = 0.05


@triton.jit
def absorb(state, prompt, slot, WIDTH: tl.constexpr):
    """Adds one token of a prompt to the state of a sequence."""
    at = tl.arange(0, WIDTH)
    token = tl.load(prompt + tl.program_id(0))
    tl.atomic_add(state + slot * WIDTH + at, ((token * (at + 7)) % 64).to(tl.float32))


@triton.jit
def layer(state, slots, WIDTH: tl.constexpr):
    at = tl.load(slots + tl.program_id(0)) * WIDTH + tl.arange(0, WIDTH)
    value = tl.load(state + at)
    tl.store(state + at, (value * 5 + tl.arange(0, WIDTH)) % 1009)


@triton.jit
def choose(state, slots, chosen, WORDS: tl.constexpr, WIDTH: tl.constexpr):
    """The next token of each sequence of the batch."""
    slot = tl.load(slots + tl.program_id(0))
    total = tl.sum(tl.load(state + slot * WIDTH + tl.arange(0, WIDTH)), 0)
    tl.store(chosen + tl.program_id(0), total.to(tl.int32) % WORDS)


class Model:
    """The states of all sequences, one more for the unused places of a batch."""

    def __init__(self) -> None:
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.state = torch.zeros(BATCHES[-1] + 1, WIDTH, device=self.device)
        self.slots = {b: self._integers([BATCHES[-1]] * b) for b in BATCHES}
        self.chosen = {b: self._integers([0] * b) for b in BATCHES}
        self.steps = {b: self._prepare(b) for b in BATCHES}

    def _integers(self, values: list[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int32, device=self.device)

    def _run(self, batch: int) -> None:
        for _ in range(LAYERS):
            layer[(batch,)](self.state, self.slots[batch], WIDTH)
        choose[(batch,)](self.state, self.slots[batch], self.chosen[batch], WORDS, WIDTH)

    def _prepare(self, batch: int) -> Callable[[], None]:
        if self.device == "cpu":
            return lambda: self._run(batch)
        self._run(batch)  # compiles
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph), proton.scope(f"batch_{batch}"):
            self._run(batch)
        return graph.replay

    def prefill(self, slot: int, prompt: list[int]) -> None:
        self.state[slot].zero_()
        absorb[(len(prompt),)](self.state, self._integers(prompt), slot, WIDTH)

    def decode(self, slots: list[int]) -> list[int]:
        batch = next(b for b in BATCHES if b >= len(slots))
        unused = [BATCHES[-1]] * (batch - len(slots))
        self.slots[batch].copy_(self._integers(slots + unused))
        self.steps[batch]()
        return self.chosen[batch].tolist()[: len(slots)]


class Request:
    def __init__(self, prompt: list[int], tokens: int) -> None:
        self.prompt, self.tokens = prompt, tokens
        self.output: list[int] = []
        self.is_done = threading.Event()


class Engine:
    """The loop on the main thread: prefills new requests, then decodes a token of each."""

    def __init__(self) -> None:
        self.model = Model()
        self.waiting: deque[Request] = deque()
        self.running: dict[int, Request] = {}  # by slot
        self.changed = threading.Condition()

    def add(self, request: Request) -> None:
        with self.changed:
            self.waiting.append(request)
            self.changed.notify()

    def step(self) -> None:
        free = [slot for slot in range(BATCHES[-1]) if slot not in self.running]
        while self.waiting and free:
            request, slot = self.waiting.popleft(), free.pop(0)
            with proton.scope("prefill", {"tokens": len(request.prompt)}):
                self.model.prefill(slot, request.prompt)
            self.running[slot] = request
        slots = sorted(self.running)
        with proton.scope("decode", {"tokens": len(slots)}):
            chosen = self.model.decode(slots)
        for slot, token in zip(slots, chosen):
            request = self.running[slot]
            request.output.append(token)
            if len(request.output) == request.tokens:
                del self.running[slot]
                request.is_done.set()

    def run(self) -> None:
        while True:
            with self.changed:
                if not self.waiting and not self.running:
                    self.changed.wait(IDLE_S)
                    continue
            self.step()


# ---------------------------------------------------------------------- profiles


def times_of(path: str) -> dict[str, Any]:
    """Microseconds per token and of each kernel, of both phases, from a .hatchet file."""
    found = {}

    def add_kernels(node: dict[str, Any], kernels: dict[str, float]) -> None:
        for child in node["children"]:
            if "time (ns)" in child["metrics"]:
                name = child["frame"]["name"]
                kernels[name] = kernels.get(name, 0) + child["metrics"]["time (ns)"] / 1000
            add_kernels(child, kernels)

    for phase in json.loads(Path(path).read_text(encoding="utf-8"))[0]["children"]:
        kernels: dict[str, float] = {}
        add_kernels(phase, kernels)
        tokens = phase["metrics"].get("tokens", 0)
        found[phase["frame"]["name"]] = {
            "tokens": tokens,
            "us_per_token": sum(kernels.values()) / max(tokens, 1),
            "us_of_kernels": kernels,
        }
    return found


class Profiler:
    def __init__(self, name: str) -> None:
        self.name = name
        self.runs = 0
        self.session: Optional[int] = None
        self.lock = threading.Lock()

    def start(self) -> dict[str, Any]:
        with self.lock:
            if self.session is not None:
                raise ValueError("a profile is being recorded already")
            self.session = proton.start(f"{self.name}_{self.runs}", hook="triton")
            if self.session is None:
                raise ValueError("the proton command records this server")
            return {"session": self.session}

    def stop(self) -> dict[str, Any]:
        with self.lock:
            if self.session is None:
                raise ValueError("no profile is being recorded")
            session, self.session = self.session, None
            proton.deactivate(session)
            proton.finalize(session)
            path = f"{self.name}_{self.runs}.hatchet"
            self.runs += 1
            return {"profile": path, **times_of(path)}


# ---------------------------------------------------------------------- HTTP


def make_handler(engine: Engine, profiler: Profiler) -> type[BaseHTTPRequestHandler]:
    def generate(body: dict[str, Any]) -> dict[str, Any]:
        prompt, tokens = [int(token) % WORDS for token in body["prompt"]], int(body["tokens"])
        if not prompt or not 1 <= tokens <= 10000:
            raise ValueError("a prompt, and 1 to 10000 tokens, are needed")
        request = Request(prompt, tokens)
        engine.add(request)
        request.is_done.wait()
        return {"tokens": request.output}

    actions = {
        "/generate": generate,
        "/start_profile": lambda body: profiler.start(),
        "/stop_profile": lambda body: profiler.stop(),
    }

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, answer = 200, {}
            try:
                if self.path not in actions:
                    status, answer = 404, {"error": f"there is no {self.path}"}
                else:
                    answer = actions[self.path](json.loads(text or b"{}"))
            except (ValueError, KeyError, TypeError) as error:
                status, answer = 400, {"error": str(error)}
            reply = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


def main() -> None:
    parser = argparse.ArgumentParser(description="A small inference server.")
    parser.add_argument("--port", type=int, default=8000, help="0: any that is free")
    parser.add_argument("--profile", default="server", help="name of profiles")
    options = parser.parse_args()
    engine = Engine()
    handler = make_handler(engine, Profiler(options.profile))
    server = ThreadingHTTPServer(("127.0.0.1", options.port), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"serving on http://127.0.0.1:{server.server_port}", flush=True)
    try:
        engine.run()
    except KeyboardInterrupt:
        server.shutdown()


if __name__ == "__main__":
    main()
