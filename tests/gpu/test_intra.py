"""Intra-kernel scopes on a GPU: their measurements, and unchanged results of kernels.

    python -m pytest tests/gpu/test_intra.py

Needs the installed package, torch with CUDA and triton.
"""

import json
import time
from typing import Any

import gpus
import pytest

torch = gpus.need(gpus.NVIDIA, "its kernels contain PTX")

import triton
import triton.language as tl

import triton_proton as proton
import triton_proton.language as pl
from triton_proton import _libproton as lib

SIZE = 2048


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    a_at = a + rows[:, None] * K + inner[None, :]
    b_at = b + inner[:, None] * N + columns[None, :]
    sums = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        with pl.scope("load"):
            x = tl.load(a_at)
            y = tl.load(b_at)
        with pl.scope("dot"):
            sums = tl.dot(x, y, sums)
        a_at += BK
        b_at += BK * N
    tl.store(c + rows[:, None] * N + columns[None, :], sums.to(tl.float16))


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    with pl.scope("all"):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = at < n
        with pl.scope("load"):
            left = tl.load(x + at, mask=mask)
            right = tl.load(y + at, mask=mask)
        with pl.scope("store"):
            tl.store(out + at, left + right, mask=mask)


@triton.jit
def long_loop(x, out, turns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    with pl.scope("outer"):
        total = tl.zeros((BLOCK,), tl.float32)
        with pl.scope("loop"):
            for i in range(turns):
                with pl.scope("turn"):
                    total += tl.load(x + i * BLOCK + at)
        with pl.scope("store"):
            tl.store(out + tl.program_id(0) * BLOCK + at, total)


@triton.jit
def wait_cycles(out, zero, CYCLES: tl.constexpr):
    """Spins until the clock has gone on by CYCLES, inside a scope, and stores how far it went.

    Its first and its last instruction read the clock: little else is between them and the scope's
    own clock reads. It reads as the scope does: of a value that is the same for all of a warp
    the assembler makes another instruction, which reads later, unless what the value hangs on comes
    from memory. That has been waited for, by a loop of one turn, before the scope begins.
    """
    limit = tl.inline_asm_elementwise(
        '{ .reg .pred %p; mov.u32 $0, $1; .pragma "nounroll"; again: add.u32 $0, $0, $0; '
        "setp.lt.u32 %p, $0, $1; @%p bra again; min.u32 $0, $0, $1; }",
        "=&r,r",
        [tl.load(zero) + CYCLES],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )
    with pl.scope("spin"):
        begin, end = tl.inline_asm_elementwise(
            "{ .reg .u32 %d; .reg .pred %p, %q; setp.ne.u32 %q, $2, 0; "
            "@%q mov.u32 $0, %clock; again: @%q mov.u32 $1, %clock; "
            "sub.u32 %d, $1, $0; setp.lt.u32 %p, %d, $2; @%p bra again; "
            "@%q mov.u32 $1, %clock; }",
            "=&r,=&r,r",
            [limit],
            dtype=(tl.int32, tl.int32),
            is_pure=False,
            pack=1,
        )
    tl.store(out + tl.program_id(0), end - begin)


@pytest.fixture
def session(monkeypatch, tmp_path):
    """Starts a session of the backend; returns a function that ends it and gives its nodes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PROTON_BACKEND", raising=False)

    def start(data: str = "tree", mode: str = "default", **more: Any) -> int:
        return proton.start("run", backend="instrumentation", data=data, mode=mode, **more)

    yield start
    proton.finalize(None, "none")


def nodes_of(path: str = "run.hatchet") -> dict[str, dict[str, Any]]:
    """Metrics by path of names."""
    with open(path, encoding="utf-8") as file:
        queue = [("", json.load(file)[0])]
    found = {}
    while queue:
        prefix, node = queue.pop()
        for child in node["children"]:
            name = f"{prefix}/{child['frame']['name']}" if prefix else child["frame"]["name"]
            found[name] = child["metrics"]
            queue.append((name, child))
    return found


def tensors():
    torch.manual_seed(1)
    a = torch.randn(SIZE, SIZE, device="cuda", dtype=torch.float16)
    b = torch.randn(SIZE, SIZE, device="cuda", dtype=torch.float16)
    return a, b, torch.empty_like(a)


def multiply(a, b, c, stages=3):
    grid = (SIZE // 128, SIZE // 128)
    return matmul[grid](
        a, b, c, SIZE, SIZE, SIZE, BM=128, BN=128, BK=64, num_stages=stages, num_warps=8
    )


@pytest.mark.parametrize("tree", ["records", "auto"])
def test_matmul_computes_the_same(session, tree):
    a, b, c = tensors()
    plain = multiply(a, b, c)
    expected = c.clone()
    c.zero_()
    session(mode=f"default:tree={tree}")
    marked = multiply(a, b, c)
    torch.cuda.synchronize()
    proton.finalize()
    assert torch.equal(c, expected)
    assert marked.n_spills == plain.n_spills == 0
    assert marked.n_regs <= plain.n_regs + 6
    nodes = nodes_of()
    for scope in ("load", "dot"):
        metrics = nodes[f"matmul/{scope}"]
        assert metrics["cycles"] > 0
        # 256 CTAs of 8 warps; the pipeline's prologue loads without a dot
        assert metrics["executions"] <= 2048 * 40
        if tree == "auto":
            assert "partial_executions" not in metrics
            continue
        assert metrics["min_cycles"] <= metrics["mean_cycles"] <= metrics["max_cycles"]
        assert metrics["min_cycles"] <= metrics["p99_cycles"] <= metrics["max_cycles"]


def test_add_computes_the_same_and_nests(session):
    n = 1 << 20
    x, y = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
    out = torch.empty_like(x)
    session()
    add[(n // 1024,)](x, y, out, n, BLOCK=1024)
    torch.cuda.synchronize()
    proton.finalize()
    assert torch.equal(out, x + y)
    nodes = nodes_of()
    assert nodes["add/all"]["executions"] == n // 1024 * 4
    assert nodes["add/all"]["cycles"] >= nodes["add/all/load"]["cycles"]
    assert nodes["add/all"]["executions_per_warp"] == pytest.approx(1)
    assert "add/all/store" in nodes


@pytest.mark.parametrize("turns", [4, 1000])
def test_scopes_stay_around_the_remaining_records_of_a_full_ring_buffer(session, turns):
    """16 records of each warp: with 1000 turns all starts of what is around them are gone."""
    blocks, warps, size = 64, 4, 512
    x = torch.randn(turns * size, device="cuda")
    out = torch.empty(blocks * size, device="cuda")
    session(mode="default:tree=records:buffer_size=512")
    long_loop[(blocks,)](x, out, turns, BLOCK=size, num_warps=warps)
    torch.cuda.synchronize()
    proton.finalize()
    sums = x.view(turns, size).sum(0)
    torch.testing.assert_close(out.view(blocks, size)[7], sums, rtol=1e-3, atol=1e-2)
    nodes = {path: metrics for path, metrics in nodes_of().items() if "<" not in path}
    assert set(nodes) == {
        "long_loop",
        "long_loop/outer",
        "long_loop/outer/loop",
        "long_loop/outer/loop/turn",
        "long_loop/outer/store",
    }
    outer, loop = nodes["long_loop/outer"], nodes["long_loop/outer/loop"]
    turn, store = nodes["long_loop/outer/loop/turn"], nodes["long_loop/outer/store"]
    is_full = turns == 1000
    for metrics in (outer, loop):
        assert metrics["executions"] == blocks * warps
        assert metrics.get("partial_executions", 0) == is_full * blocks * warps
        assert ("min_cycles" in metrics) == (not is_full)
    for metrics in (turn, store):
        assert "partial_executions" not in metrics
    assert store["executions"] == blocks * warps
    assert turn["executions"] <= blocks * warps * min(turns, 16)
    assert outer["cycles"] >= loop["cycles"] + store["cycles"] > turn["cycles"] > 0


@pytest.mark.parametrize("cycles", [500, 2000, 20000, 1000000])
def test_known_cycles(session, cycles, capsys):
    """Within 2 % of what the kernel itself has read from the clock."""
    out = torch.zeros(64, device="cuda", dtype=torch.int32)
    zero = torch.zeros(1, device="cuda", dtype=torch.int32)
    session(mode="default:optimizations=time_shift")
    for _ in range(5):
        wait_cycles[(64,)](out, zero, CYCLES=cycles, num_warps=1)
    torch.cuda.synchronize()
    proton.finalize()
    metrics = nodes_of()["wait_cycles/spin"]
    spent = out.double().mean().item()
    if spent > 1.5 * cycles:
        pytest.skip("another process used the GPU: its time is in the clock, too")
    with capsys.disabled():
        print(f"\n{cycles:10} asked  {spent:12.1f} spent  {metrics['mean_cycles']:12.1f} measured")
    assert metrics["executions"] == 5 * 64
    assert metrics["mean_cycles"] == pytest.approx(spent, rel=0.02, abs=6)


def test_a_graph_gives_one_sample(session):
    n = 1 << 16
    x, y = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
    out = torch.empty_like(x)
    session()
    add[(n // 1024,)](x, y, out, n, BLOCK=1024)  # compile
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        add[(n // 1024,)](x, y, out, n, BLOCK=1024)
    out.zero_()
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    proton.finalize()
    assert torch.equal(out, x + y)
    # The launch before the capture, and the last replay.
    executions = sum(
        metrics["executions"] for name, metrics in nodes_of().items() if name.endswith("add/all")
    )
    assert executions == 2 * n // 1024 * 4


def test_graph_outlives_its_session(session):
    n = 1 << 16
    x, y = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
    out = torch.empty_like(x)
    session()
    add[(n // 1024,)](x, y, out, n, BLOCK=1024)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        add[(n // 1024,)](x, y, out, n, BLOCK=1024)
    proton.finalize()
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, x + y)


def read_trace(name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A Chrome trace, and its events with `ts` in microseconds of Unix time as `unix`."""
    with open(f"{name}.chrome_trace", encoding="utf-8") as file:
        trace = json.load(file)
    for event in trace["traceEvents"]:
        event["unix"] = event.get("ts", 0) + trace["baseTimeNanoseconds"] / 1000
    return trace, trace["traceEvents"]


def runs_of_warps(events: list[dict[str, Any]]) -> list[tuple[float, float]]:
    """When each warp of each launch began and ended, in microseconds of Unix time."""
    runs = {}
    for event in events:
        begin, end = (event["args"][f"{name} Time (ns)"] for name in ("Init", "Post Final"))
        warp = event["tid"].partition(" (")[0]
        end -= event["args"]["Finalization Time (ns)"]
        runs[event["pid"], warp, begin] = (begin / 1000, end / 1000)
    return list(runs.values())


def test_timeline(session, tmp_path):
    a, b, c = tensors()
    session(data="trace")
    for _ in range(12):
        multiply(a, b, c)
    torch.cuda.synchronize()
    proton.finalize()
    trace, events = read_trace("run")
    groups = {e["pid"] for e in events}
    assert all(name.startswith("matmul Core") for name in groups)
    assert {name.rsplit("CTA", 1)[1] for name in groups} == {str(i) for i in range(256)}
    assert len(runs_of_warps(events)) == 6 * 256 * 8  # as many launches as make 800,000 slices
    assert all(500 < e["args"]["Frequency (MHz)"] < 4000 for e in events)
    base_us = trace["baseTimeNanoseconds"] / 1000
    for event in [e for e in events if e["name"] == "dot"][:1000]:
        begin = event["args"]["Init Time (ns)"] / 1000 - base_us
        end = event["args"]["Post Final Time (ns)"] / 1000 - base_us
        assert begin - 0.1 <= event["ts"] and event["ts"] + event["dur"] <= end + 0.1


def test_beside_cupti_the_slices_line_up(session):
    a, b, c = tensors()
    session(data="trace")
    proton.start("records", backend="cupti", data="trace")
    for _ in range(6):
        multiply(a, b, c)
        torch.cuda.synchronize()
    proton.finalize()
    warps = runs_of_warps(read_trace("run")[1])
    kernels = [e for e in read_trace("records")[1] if e.get("cat") == "kernel"]
    assert len(kernels) == 6
    for kernel in kernels:
        begin, end = kernel["unix"], kernel["unix"] + kernel["dur"]
        inside = [run for run in warps if begin - 2 <= run[0] and run[1] <= end + 2]
        first, last = min(run[0] for run in inside), max(run[1] for run in inside)
        print(
            f"kernel of {kernel['dur']:.1f} us: its first warp {first - begin:+.1f} us from"
            f" its start, its last {last - end:+.1f} us from its end"
        )
        assert len(inside) == 256 * 8


def test_without_cupti_warps_run_between_their_launch_and_its_end(session):
    """The launch and its completion bound the device's clock, however the two drift."""
    a, b, c = tensors()
    session(data="trace", mode="default:launches=6")
    proton.start("scopes", backend="host", data="trace")
    for number in range(6):
        time.sleep(0.3)
        with proton.scope(f"launch {number}"):
            multiply(a, b, c)
            torch.cuda.synchronize()
    proton.finalize()
    warps = runs_of_warps(read_trace("run")[1])
    calls = read_trace("scopes")[1]
    for number in range(6):
        (call,) = (e for e in calls if e["name"] == f"launch {number}")
        begin, end = call["unix"], call["unix"] + call["dur"]
        inside = [run for run in warps if begin - 20 < run[0] and run[1] < end + 20]
        first = min((run[0] for run in inside), default=end)
        print(f"launch of {call['dur']:.0f} us: its first warp {first - begin:.1f} us after it")
        assert len(inside) == 256 * 8


def test_a_launch_costs_little(session):
    a, b, c = tensors()
    plain = multiply(a, b, c)
    del plain

    def per_launch(count: int = 100) -> float:
        torch.cuda.synchronize()
        times = []
        for _ in range(count):
            begin = time.perf_counter()
            multiply(a, b, c)
            times.append(time.perf_counter() - begin)
            torch.cuda.synchronize()
        return sorted(times)[count // 2] * 1e6

    without = per_launch()
    one = session()
    multiply(a, b, c)
    with_scopes = per_launch()
    begin = time.perf_counter()
    for _ in range(200):
        multiply(a, b, c)
    proton.deactivate(one, flushing=True)
    sustained_ms = (time.perf_counter() - begin) / 200 * 1e3
    lost = {name: value for name, value, _ in lib.statistics(one) if value}
    proton.finalize()
    print(f"launch {without:.1f} us, with scopes {with_scopes:.1f} us, {sustained_ms:.3f} ms")
    print(lost)
    assert with_scopes - without < 50
    assert sustained_ms < 2


def test_a_kernel_kept_from_a_session_runs_after_it(session):
    n = 1 << 16
    x, y = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
    out = torch.empty_like(x)
    session()
    kernel = add[(n // 1024,)](x, y, out, n, BLOCK=1024)
    torch.cuda.synchronize()
    proton.finalize()
    out.zero_()
    kernel[(n // 1024, 1, 1)](x, y, out, n, 1024)
    torch.cuda.synchronize()
    assert torch.equal(out, x + y)
