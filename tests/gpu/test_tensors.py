"""Metrics that are tensors on a GPU, read without waiting, and in CUDA graphs.

    python -m pytest tests/gpu

Needs the installed package, torch with CUDA and triton.
"""

import gc
import time

import gpus
import pytest

torch = gpus.need()

import triton
import triton.language as tl
from trees import at, load, names

import triton_proton as proton

N = 1 << 16


def describe(grid, metadata, args):
    return {"name": "count", "flops32": args["flops"].sum(), "bytes": 4 * args["n"]}


@triton.jit(launch_metadata=describe)
def touch(x, flops, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, at < n) + 1, at < n)


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Launches `touch` with a tensor of flops; its first launch, which compiles, is done."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PROTON_BACKEND", raising=False)
    x = torch.zeros(N, device="cuda")
    flops = torch.tensor([10, 20, 30], device="cuda")

    def launch() -> None:
        touch[(triton.cdiv(N, 1024),)](x, flops, N, BLOCK=1024)

    launch()
    flops.sum()
    torch.cuda.synchronize()
    launch.flops = flops
    yield launch
    proton.finalize(None, "none")


def lost(session: int) -> dict:
    return {
        name: value
        for name, value, is_loss in proton._libproton.statistics(session)
        if is_loss and value
    }


@pytest.mark.parametrize(
    "dtype, values, recorded",
    [
        (torch.float64, [-1e300], -1e300),
        (torch.float32, [0.5, 1.5], [0.5, 1.5]),
        (torch.float16, [65504.0, -2.5, 2.0**-24], [65504.0, -2.5, 2.0**-24]),
        (torch.bfloat16, [1.0, -0.25], [1.0, -0.25]),
        (torch.int64, [2**40], 2**40),
        (torch.int32, [-7, 8], [-7, 8]),
        (torch.int16, [-300], -300),
        (torch.int8, [-3, 4, 5], [-3, 4, 5]),
        (torch.uint8, [200], 200),
        (torch.bool, [True, False], [1, 0]),
        (torch.float8_e5m2, [2.0], 2.0),
    ],
)
def test_every_type(run, dtype, values, recorded):
    tensor = torch.tensor(values, dtype=torch.float64, device="cuda").to(dtype)
    proton.start("test")
    with proton.scope("a", {"x": tensor}):
        pass
    proton.finalize()
    assert at(load(), "a")["metrics"]["x"] == recorded


def test_tensors_add_up_and_are_read_in_stream_order(run):
    session = proton.start("test")
    value = torch.zeros((), device="cuda")
    vector = torch.arange(1000, device="cuda")
    for i in range(100):
        value += 1
        with proton.scope("a", {"loss": value, "v": vector, "last (pty)": value, "n": 1}):
            run()
    value.fill_(1e9)  # after the reading
    proton.deactivate(session, flushing=True)
    assert lost(session) == {}
    proton.finalize()
    metrics = at(load(), "a")["metrics"]
    assert metrics["loss"] == 5050.0
    assert metrics["v"] == [100 * i for i in range(1000)]
    assert (metrics["last"], metrics["n"]) == (100.0, 100)
    assert "proton_append_metric" not in names(load())


def test_the_launching_thread_does_not_wait(run):
    proton.start("test")
    value = torch.ones((), device="cuda")
    with proton.scope("warm", {"x": value}):
        pass
    torch.cuda.synchronize()
    torch.cuda._sleep(int(1e9))  # clocks: half a second or more
    began = time.perf_counter()
    with proton.scope("a", {"x": value}):
        pass
    took = time.perf_counter() - began
    assert not torch.cuda.current_stream().query(), "the stream was to be busy still"
    assert took < 0.1
    proton.finalize()
    assert at(load(), "a")["metrics"]["x"] == 1.0


def test_another_stream_and_a_slice(run):
    proton.start("test")
    matrix = torch.arange(12.0, device="cuda").reshape(3, 4)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10_000_000)
        with proton.scope("a", {"column": (matrix * 2)[:, 1], "odd": matrix.half().flatten()[1:4]}):
            pass
    proton.finalize()
    metrics = at(load(), "a")["metrics"]
    assert metrics["column"] == [2.0, 10.0, 18.0]
    assert metrics["odd"] == [1.0, 2.0, 3.0]  # begins at an odd address


def test_a_large_tensor_is_waited_for(run):
    proton.start("test")
    with proton.scope("a", {"x": torch.ones(20_000, device="cuda")}):
        pass
    proton.finalize()
    assert at(load(), "a")["metrics"]["x"] == [1.0] * 20_000


def test_launch_metadata_with_a_tensor(run):
    proton.start("test", hook="triton")
    for _ in range(5):
        run()
    proton.finalize()
    metrics = at(load(), "count")["metrics"]
    assert (metrics["count"], metrics["flops32"], metrics["bytes"]) == (5, 300.0, 20 * N)


def test_no_memory_is_held(run):
    session = proton.start("test")
    gc.collect()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(1000):
        with proton.scope("a", {"x": torch.ones(1000, device="cuda").sum()}):
            pass
    proton.deactivate(session, flushing=True)
    gc.collect()
    assert torch.cuda.memory_allocated() == before
    proton.finalize()
    assert at(load(), "a")["metrics"]["x"] == 1_000_000.0


def capture(run, x):
    """A graph in which `loss` and `v` are computed from `x`, and `touch` runs with its flops."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = (x * 2).sum()
        with proton.scope("step", {"loss": loss, "v": x.to(torch.int64), "tokens": 7}):
            run()
    return graph


def test_replays_add_the_values_they_compute(run):
    session = proton.start("test", hook="triton")
    x = torch.zeros(3, device="cuda")
    graph = capture(run, x)
    for i in range(1, 11):
        x.fill_(i)
        with proton.scope("odd" if i % 2 else "even"):
            graph.replay()
    proton.deactivate(session, flushing=True)
    assert lost(session) == {}
    proton.finalize()
    root = load()
    odd = at(root, "odd", "<captured_at>", "step")
    even = at(root, "even", "<captured_at>", "step")
    assert (odd["metrics"]["loss"], even["metrics"]["loss"]) == (6.0 * 25, 6.0 * 30)
    assert (odd["metrics"]["v"], even["metrics"]["v"]) == ([25] * 3, [30] * 3)
    assert (odd["metrics"]["tokens"], even["metrics"]["tokens"]) == (35, 35)
    kernel = at(odd, "count")["metrics"]
    assert (kernel["count"], kernel["flops32"], kernel["bytes"]) == (5, 300.0, 20 * N)
    assert "proton_append_metric" not in names(root)


def test_first_use_in_a_capture_does_not_disturb_it(run):
    """Nothing was read before: the ring buffer and the kernel are created during the capture."""
    proton.start("test")
    x = torch.ones(3, device="cuda")
    graph = capture(run, x)
    graph.replay()
    proton.finalize()
    assert at(load(), "<captured_at>", "step")["metrics"]["loss"] == 6.0


def test_many_replays_lose_nothing(run):
    session = proton.start("test")
    x = torch.ones(1, device="cuda")
    graph = capture(run, x)
    with proton.scope("replay"):
        for _ in range(20_000):
            graph.replay()
    proton.deactivate(session, flushing=True)
    assert lost(session) == {}
    proton.finalize()
    step = at(load(), "replay", "<captured_at>", "step")["metrics"]
    assert (step["loss"], step["v"], step["tokens"]) == (40_000.0, 20_000, 140_000)


def test_a_graph_outlives_its_session(run):
    x = torch.ones(1, device="cuda")
    proton.start("first")
    graph = capture(run, x)
    graph.replay()
    proton.finalize()
    graph.replay()
    torch.cuda.synchronize()
    proton.start("test")
    with proton.scope("replay", {"y": x}):
        graph.replay()
    proton.finalize()
    assert at(load("first.hatchet"), "<captured_at>", "step")["metrics"]["loss"] == 2.0
    assert at(load(), "replay")["metrics"]["y"] == 1.0
    assert "proton_append_metric" not in names(load())


def test_sessions_count_only_work_while_they_are_active(run):
    x = torch.ones(1, device="cuda")
    first = proton.start("first")
    graph = capture(run, x)
    proton.start("test")  # after the capture
    graph.replay()
    proton.deactivate(first)
    x.fill_(1000)
    graph.replay()
    proton.activate(first)
    x.fill_(10)
    graph.replay()
    proton.finalize()
    assert at(load("first.hatchet"), "<captured_at>", "step")["metrics"]["loss"] == 22.0
    assert "<captured_at>" not in names(load())
