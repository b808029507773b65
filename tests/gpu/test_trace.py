"""Traces on a GPU: kernels and scopes are on one clock, and each kernel has its launch.

    python -m pytest tests/gpu/test_trace.py

Needs the installed package and torch with CUDA. The script runs in its own Python process:
another tool that gave CUPTI a clock would shift the kernels.
"""

import json
import os
import subprocess
import sys
from typing import Any

import gpus
import pytest

torch = gpus.need()

STEPS = 50
REPLAYS = 10
# By how much the GPU's clock may be off after CUPTI has converted it.
SLACK_US = 100.0

SCRIPT = f"""
import torch
import triton_proton as proton

x = torch.ones(1 << 22, device="cuda")
side = torch.cuda.Stream()

def work():
    torch.add(x, 1, out=x)

work()
with torch.cuda.stream(side):
    work()
torch.cuda.synchronize()
proton.start("test", data="trace")
for _ in range({STEPS}):
    with proton.scope("step"):
        work()
        torch.cuda.synchronize()
with proton.scope("side"), torch.cuda.stream(side):
    work()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    with proton.scope("captured"):
        work()
        work()
for _ in range({REPLAYS}):
    with proton.scope("replay"):
        graph.replay()
        torch.cuda.synchronize()
proton.finalize()
"""


@pytest.fixture(scope="module")
def events(tmp_path_factory) -> list[dict[str, Any]]:
    directory = tmp_path_factory.mktemp("trace")
    (directory / "script.py").write_text(SCRIPT)
    environment = {k: v for k, v in os.environ.items() if k != "PROTON_BACKEND"}
    subprocess.run(
        [sys.executable, "script.py"], cwd=directory, env=environment, check=True, timeout=300
    )
    return json.loads((directory / "test.chrome_trace").read_text())["traceEvents"]


def slices(events: list[dict[str, Any]], category: str, name: str = "") -> list[dict[str, Any]]:
    """In the order of time."""
    found = [e for e in events if e["ph"] == "X" and e["cat"] == category]
    return sorted((e for e in found if name in e["name"]), key=lambda e: e["ts"])


def tracks(events: list[dict[str, Any]]) -> dict[int, str]:
    return {e["tid"]: e["args"]["name"] for e in events if e.get("name") == "thread_name"}


def below(events: list[dict[str, Any]], *path: str) -> list[dict[str, Any]]:
    """Kernels with a call stack that begins with ROOT and `path`."""
    stack = ["ROOT", *path]
    return [e for e in slices(events, "kernel") if e["args"]["call_stack"][: len(stack)] == stack]


def test_a_kernel_runs_between_its_launch_and_the_end_of_its_scope(events):
    steps = slices(events, "scope", "step")
    kernels = below(events, "step")
    launches = {e["args"]["correlation"]: e for e in slices(events, "launch")}
    assert len(steps) == len(kernels) == STEPS
    for step, kernel in zip(steps, kernels):
        launch = launches[kernel["args"]["correlation"]]
        assert step["ts"] <= launch["ts"] <= kernel["ts"] + SLACK_US
        assert 0 < kernel["dur"] < step["dur"]
        # Each step waits for its kernel.
        assert kernel["ts"] + kernel["dur"] <= step["ts"] + step["dur"] + SLACK_US


def test_an_arrow_leads_from_each_launch_to_its_kernel(events):
    ends: dict[int, dict[str, dict[str, Any]]] = {}
    for e in events:
        if e["ph"] in "sf":
            ends.setdefault(e["id"], {})[e["ph"]] = e
    arrows = {(e["s"]["ts"], e["f"]["tid"], e["f"]["ts"]) for e in ends.values()}
    launches = {e["args"]["correlation"]: e for e in slices(events, "launch")}
    for kernel in below(events, "step"):
        launch = launches[kernel["args"]["correlation"]]
        assert (launch["ts"], kernel["tid"], kernel["ts"]) in arrows


def test_each_stream_has_its_track(events):
    (kernel,) = below(events, "side")
    names = tracks(events)
    main = {e["tid"] for e in below(events, "step")}
    assert len(main) == 1
    assert kernel["tid"] not in main
    assert names[kernel["tid"]].startswith("GPU Stream ")
    assert names[kernel["tid"]] != names[main.pop()]


def test_a_replay_shows_its_kernels_and_the_scope_of_their_capture(events):
    replays = slices(events, "scope", "replay")
    kernels = below(events, "replay", "<captured_at>", "captured")
    assert len(replays) == REPLAYS
    assert len(kernels) == 2 * REPLAYS
    for i, kernel in enumerate(kernels):
        replay = replays[i // 2]
        assert replay["ts"] - SLACK_US <= kernel["ts"]
        assert kernel["ts"] + kernel["dur"] <= replay["ts"] + replay["dur"] + SLACK_US
    names = tracks(events)
    shown = [e for e in slices(events, "scope", "captured") if "Graph" in names[e["tid"]]]
    assert len(shown) == REPLAYS


def test_kernels_of_a_track_do_not_overlap(events):
    ends: dict[int, float] = {}
    for kernel in slices(events, "kernel"):
        assert ends.get(kernel["tid"], 0) <= kernel["ts"] + 0.001  # times are rounded to ns
        ends[kernel["tid"]] = kernel["ts"] + kernel["dur"]
