"""Kernels on a GPU, with the vendor's real libraries; skipped without them.

    python -m pytest tests/gpu

Needs the installed package, torch with CUDA or ROCm, and triton.
"""

import os
import re
import subprocess
import sys

import gpus
import pytest

torch = gpus.need()

import triton
import triton.language as tl
from trees import at, kernels, load, load_all

import triton_proton as proton

N = 1 << 20


def describe(grid, metadata, args):
    return {"name": f"add_{args['n']}", "flops32": float(args["n"]), "bytes": 12 * args["n"]}


@triton.jit(launch_metadata=describe)
def add(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)


@pytest.fixture
def run(monkeypatch, tmp_path):
    """A function that launches `add` once; its first launch, which compiles, is done."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PROTON_BACKEND", raising=False)
    x, y = torch.randn(N, device="cuda"), torch.randn(N, device="cuda")
    z = torch.empty_like(x)

    def launch() -> None:
        add[(triton.cdiv(N, 1024),)](x, y, z, N, BLOCK=1024)

    launch()
    torch.cuda.synchronize()
    yield launch
    proton.finalize(None, "none")


def test_the_default_backend_is_that_of_the_vendor(run):
    session = proton.start("test")
    assert proton._libproton.session_backend(session) == gpus.BACKEND


def test_counts_scopes_and_the_device_table(run):
    proton.start("test")
    with proton.scope("outer"):
        for _ in range(100):
            run()
        with proton.scope("inner"):
            run()
    run()
    proton.finalize()
    root, devices = load_all()
    assert at(root, "outer", "add")["metrics"]["count"] == 100
    assert at(root, "outer", "inner", "add")["metrics"]["count"] == 1
    assert at(root, "add")["metrics"]["count"] == 1
    assert at(root, "add")["metrics"]["device_type"] == gpus.DEVICE_TYPE
    properties = torch.cuda.get_device_properties(0)
    device = devices[gpus.DEVICE_TYPE]["0"]
    assert device["arch"] == gpus.arch()
    assert device["num_sms"] == properties.multi_processor_count
    assert device["clock_rate"] > 0


COMPARED = """
import sys, torch
from torch.profiler import ProfilerActivity, profile
n = 1 << 26
x, y, z = (torch.ones(n, device="cuda") for _ in range(3))

def work():
    for _ in range(200):
        torch.add(x, y, out=z)
    torch.cuda.synchronize()

work()
if sys.argv[1] == "proton":
    import triton_proton as proton
    proton.start("test")
    work()
    proton.finalize()
with profile(activities=[ProfilerActivity.CUDA]) as theirs:  # after us, it still works
    work()
events = [e for e in theirs.key_averages() if "elementwise" in e.key]
print(sum(e.count for e in events), sum(e.device_time_total for e in events))
"""


@gpus.only(gpus.NVIDIA, "torch.profiler and Proton cannot both register with rocprofiler-sdk")
def test_times_agree_with_the_profiler_of_torch(run, tmp_path):
    """The same work in one process, first under us and then under torch.profiler, which keeps
    CUPTI to itself once it has been used."""
    script = tmp_path / "compared.py"
    script.write_text(COMPARED)
    result = subprocess.run(
        [sys.executable, str(script), "proton"], capture_output=True, text=True, check=True,
        timeout=300,
    )
    count, total_us = (float(word) for word in result.stdout.split())
    root = load()
    assert count == kernels(root) == 200
    ours_us = sum(child["metrics"]["time (ns)"] for child in root["children"]) / 1000
    assert ours_us == pytest.approx(total_us, rel=0.02)


def test_launch_metadata_names_the_kernel(run):
    proton.start("test", hook="triton")
    for _ in range(10):
        run()
    proton.finalize()
    metrics = at(load(), f"add_{N}")["metrics"]
    assert metrics["count"] == 10
    assert metrics["flops32"] == 10.0 * N
    assert metrics["bytes"] == 120 * N


def test_a_state_and_the_python_context(run):
    proton.start("shadow")
    proton.start("python", context="python")
    with proton.scope("s"), proton.state("st"):
        run()
    proton.finalize()
    assert at(load("shadow.hatchet"), "s", "st", "add")["metrics"]["count"] == 1
    node, path = load("python.hatchet"), []
    while node["children"]:
        node = node["children"][0]
        path.append(node["frame"]["name"])
    assert path[-2:] == ["st", "add"]
    assert any(re.search(r"test_cuda\.py:\d+@launch$", name) for name in path), path
    assert not any("triton_proton" in name for name in path)


def test_backward_threads_belong_to_the_scope_that_called_backward(run):
    weight = torch.randn(64, 64, device="cuda", requires_grad=True)
    proton.start("test")
    for step in ("step0", "step1"):
        with proton.scope(step):
            loss = (weight @ weight).relu().sum()
            with proton.scope("backward"):
                loss.backward()
    proton.finalize()
    root = load()
    assert [child["frame"]["name"] for child in root["children"]] == ["step0", "step1"]
    for step in ("step0", "step1"):
        assert kernels(at(root, step, "backward")) >= 3


def test_streams_and_deactivation(run):
    session = proton.start("test")
    streams = [torch.cuda.Stream() for _ in range(4)]
    for stream in streams:
        with torch.cuda.stream(stream), proton.scope("streams"):
            for _ in range(25):
                run()
    proton.deactivate(session, flushing=True)
    assert kernels(proton.data.get(session)[0]) == 100
    run()
    proton.activate(session)
    run()
    proton.finalize()
    root = load()
    assert at(root, "streams", "add")["metrics"]["count"] == 100
    assert at(root, "add")["metrics"]["count"] == 1


def test_a_graph_replay_is_attributed_to_its_launch(run):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(3):
            run()
    proton.start("test")
    with proton.scope("replay"):
        for _ in range(5):
            graph.replay()
    proton.finalize()
    assert kernels(at(load(), "replay")) == 15


def test_a_captured_kernel_keeps_its_scope_and_its_flops_at_every_replay(run):
    proton.start("test", hook="triton")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with proton.scope("first"):
            run()
        with proton.scope("second", {"tokens": 7}):
            run()
            run()
    with proton.scope("replay"):
        for _ in range(10):
            graph.replay()
    proton.finalize()
    root = load()
    captured = at(root, "replay", "<captured_at>")
    first = at(captured, "first", f"add_{N}")["metrics"]
    second = at(captured, "second", f"add_{N}")["metrics"]
    assert (first["count"], second["count"]) == (10, 20)
    assert (first["flops32"], second["flops32"]) == (10.0 * N, 20.0 * N)
    assert second["bytes"] == 20 * 12 * N
    assert at(captured, "second")["metrics"]["tokens"] == 70
    assert kernels(captured) == 30


def test_graphs_captured_again_and_again_are_kept_apart(run):
    session = proton.start("test")
    for i in range(20):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph), proton.scope(f"capture{i}"):
            run()
        with proton.scope("replay"):
            graph.replay()
        del graph
    proton.deactivate(session, flushing=True)
    proton.finalize()
    captured = at(load(), "replay", "<captured_at>")
    assert {child["frame"]["name"] for child in captured["children"]} == {
        f"capture{i}" for i in range(20)
    }
    assert kernels(captured) == 20


def test_a_compiled_model_in_graphs(run):
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64))
    model = model.cuda().eval()
    x = torch.randn(32, 64, device="cuda")
    compiled = torch.compile(model, mode="reduce-overhead")
    proton.start("test")
    with torch.no_grad():
        for i in range(6):  # compiles, warms up, captures, replays
            with proton.scope(f"forward{i}"):
                compiled(x)
    proton.finalize()
    root = load()
    counts = [kernels(at(root, f"forward{i}")) for i in range(6)]
    assert counts[4] == counts[5] >= 1, counts
    assert not any(root["proton"].get("losses", {}).values())


def test_sessions_record_only_work_while_they_are_active(run):
    first = proton.start("first")
    second = proton.start("second")
    with proton.scope("both"):
        run()
    proton.deactivate(first)
    with proton.scope("one"):
        run()
        run()
    proton.activate(first)
    proton.deactivate(second)
    with proton.scope("other"):
        run()
    proton.finalize(first)  # while the other continues
    proton.activate(second)
    with proton.scope("last"):
        run()
    proton.finalize(second)
    for name, seen in (
        ("first", {"both": 1, "other": 1}),
        ("second", {"both": 1, "one": 2, "last": 1}),
    ):
        root = load(f"{name}.hatchet")
        found = {c["frame"]["name"]: kernels(c) for c in root["children"]}
        assert {scope: count for scope, count in found.items() if count} == seen
        assert not any(root["proton"].get("losses", {}).values())


def test_fifty_starts_and_stops(run):
    for _ in range(50):
        proton.start("test")
        run()
        proton.finalize()
        assert at(load(), "add")["metrics"]["count"] == 1


def test_many_launches_lose_nothing(run):
    proton.start("test")
    for _ in range(60000):
        run()
    proton.finalize()
    root = load()
    assert at(root, "add")["metrics"]["count"] == 60000
    assert not any(root["proton"].get("losses", {}).values())


def test_the_command_records_a_script(run, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\n"
        "import triton.profiler as proton\n"
        "x = torch.ones(1000, device='cuda')\n"
        "with proton.scope('mine'):\n"
        "    y = x + 1\n"
    )
    program = os.environ.get("PROTON_TEST_BIN", "proton")
    if os.path.isdir(program):
        program = os.path.join(program, "proton")
    environment = dict(os.environ, PROTON_PYTHON=sys.executable)
    result = subprocess.run(
        [program, "-n", "cmd", str(script)], capture_output=True, text=True, env=environment,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    assert "kernel launch" in result.stderr
    assert kernels(at(load("cmd.hatchet"), "mine")) == 1
