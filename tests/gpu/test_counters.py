"""Counters of kernels on an NVIDIA GPU, with the real driver and the real CUPTI."""

import sys
import textwrap
from pathlib import Path

import gpus
import pytest
from crash_stack import run
from trees import at, kernels, load

torch = gpus.need(gpus.NVIDIA, "CUPTI's range profiler is there")

KERNELS = '''
import torch
import triton
import triton.language as tl

import triton_proton as proton


@triton.jit
def matmul(a, b, c, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, OUT: tl.constexpr):
    pid = tl.program_id(0)
    m = (pid // tl.cdiv(n, BN)) * BM + tl.arange(0, BM)
    k = (pid % tl.cdiv(n, BN)) * BN + tl.arange(0, BN)
    r = tl.arange(0, BK)
    at_a = a + m[:, None] * n + r[None, :]
    at_b = b + r[:, None] + k[None, :] * n
    total = tl.zeros((BM, BN), tl.int32 if OUT == tl.int32 else tl.float32)
    for _ in range(0, n, BK):
        total = tl.dot(tl.load(at_a), tl.load(at_b), total)
        at_a += BK
        at_b += BK
    tl.store(c + m[:, None] * n + k[None, :], total.to(OUT))


@triton.jit
def add(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def polynomial(x, z, rounds, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i)
    for _ in range(rounds):
        v = tl.fma(v, 0.5, 0.25)
    tl.store(z + i, v + 1.0)


def tensors(kind, n):
    dtype, out, kept = {
        "fp16": (torch.float16, tl.float16, torch.float16),
        "bf16": (torch.bfloat16, tl.bfloat16, torch.bfloat16),
        "fp8": (torch.float8_e4m3fn, tl.float16, torch.float16),
        "tf32": (torch.float32, tl.float32, torch.float32),
        "int8": (torch.int8, tl.int32, torch.int32),
    }[kind]
    if kind == "int8":
        a, b = (torch.randint(-9, 9, (n, n), device="cuda", dtype=dtype) for _ in range(2))
    else:
        a, b = (torch.randn(n, n, device="cuda").to(dtype) for _ in range(2))
    return a, b, torch.empty(n, n, device="cuda", dtype=kept), out


def multiply(kind, n=1024):
    a, b, c, out = tensors(kind, n)
    return lambda: matmul[((n // 128) ** 2,)](
        a, b, c, n, 128, 128, 32 if kind == "tf32" else 64, out, num_warps=8
    )


def rounds(session, call, times=10):
    """Each flush reads what was measured; the next launches are measured in another set."""
    for _ in range(times):
        for _ in range(6):
            call()
        proton.deactivate(session, flushing=True)
        proton.activate(session)


def start(name):
    """Without a budget: a test is short."""
    return proton.start(name, mode="default:counters=roofline:overhead=100%")


def say(text):
    print(text, flush=True)
'''


def profile(directory: Path, body: str, *files: str, seconds: int = 120) -> list[dict]:
    """Runs a program that starts with KERNELS; the profiles that it has written."""
    program = directory / "program.py"
    program.write_text(KERNELS + textwrap.dedent(body))
    run([sys.executable, str(program)], directory, seconds)
    return [load(directory / f"{file}.hatchet") for file in files]


def per_launch(node: dict, metric: str) -> float:
    """Operations are known of launches that are not partial, all else of all launches."""
    metrics = node["metrics"]
    print({key: value for key, value in metrics.items() if key.startswith("counter_")})
    launches = metrics["counter_launches"]
    if "flops" in metric:
        launches -= metrics.get("counter_partial_launches", 0)
    assert launches > 0
    return metrics.get(metric, 0) / launches


WIDTHS = {"bf16": 16, "fp16": 16, "fp8": 8, "tf32": 32, "int8": 8}
if torch.cuda.get_device_capability() < (8, 9):
    del WIDTHS["fp8"]

VALUES = """
x, z = (torch.rand(1024 * 264, device="cuda") for _ in range(2))
n = 1 << 28
big = [torch.rand(n, device="cuda") for _ in range(3)]
a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
calls = {kind: multiply(kind) for kind in KINDS}
calls["library"] = lambda: torch.mm(a, a)
calls["polynomial"] = lambda: polynomial[(264,)](x, z, 1000, 1024)
calls["add"] = lambda: add[(n // 4096,)](*big, n, 4096)
for name, call in calls.items():
    call()
torch.cuda.synchronize()
say("compiled")
session = start("values")
for name, call in calls.items():
    with proton.scope(name):
        rounds(session, call)
    say(name)
proton.finalize()
"""


@pytest.fixture(scope="module")
def values(tmp_path_factory):
    """The node of each of the kernels above."""
    directory = tmp_path_factory.mktemp("values")
    (root,) = profile(directory, VALUES.replace("KINDS", repr(list(WIDTHS))), "values")
    found = {scope["frame"]["name"]: scope["children"][0] for scope in root["children"]}
    for name, node in found.items():
        print(name, {k: v for k, v in node["metrics"].items() if k.startswith("counter_")})
    return found


@pytest.mark.parametrize("kind", list(WIDTHS))
def test_operations_of_tensor_cores_are_those_of_the_product(values, kind):
    found = per_launch(values[kind], f"counter_flops{WIDTHS[kind]}")
    assert found == pytest.approx(2 * 1024**3, rel=1e-3)


def test_operations_of_a_library_are_those_of_the_product(values):
    found = per_launch(values["library"], "counter_flops16")
    assert found == pytest.approx(2 * 4096**3, rel=1e-3)


def test_operations_of_vector_units_are_exact(values):
    found = per_launch(values["polynomial"], "counter_flops32")
    assert found == 264 * 1024 * (1000 * 2 + 1)


def test_bytes_of_an_addition_are_those_of_its_arrays(values):
    found = per_launch(values["add"], "counter_bytes")
    assert found == pytest.approx(3 * 4 * 2**28, rel=0.02)


def test_graphs_are_captured_and_have_the_values_of_launches_outside(tmp_path):
    (root,) = profile(
        tmp_path,
        """
        call = multiply("bf16")
        call()
        session = start("test")
        rounds(session, call, 2)
        graph = torch.cuda.CUDAGraph()
        with proton.scope("capture"), torch.cuda.graph(graph):
            for _ in range(5):
                call()
        with proton.scope("replay"):
            for _ in range(4):
                graph.replay()
        torch.cuda.synchronize()
        proton.finalize()
        """,
        "test",
    )
    node = at(root, "replay", "<captured_at>", "capture", "matmul")
    assert node["metrics"]["count"] == 20
    assert per_launch(node, "counter_flops16") == pytest.approx(2 * 1024**3, rel=1e-3)


def test_sessions_follow_each_other_and_have_true_times(tmp_path):
    body = """
    call = multiply("bf16", 4096)
    for _ in range(20):
        call()
    for i in range(4):
        session = proton.start(f"test{i}") if i in (0, 2) else start(f"test{i}")
        rounds(session, call, 2)
        proton.finalize(session)
        say(f"session {i}")
    """
    roots = profile(tmp_path, body, *(f"test{i}" for i in range(4)))
    found = [at(root, "matmul")["metrics"] for root in roots]
    print(found)
    assert [node.get("counter_samples", 0) for node in found] == [0, 3, 0, 3]
    assert [kernels(root) for root in roots] == [12, 9, 12, 9]
    times = [node["time (ns)"] / node["count"] for node in found]
    assert times[1] == pytest.approx(times[0], rel=0.05)
    assert times[3] == pytest.approx(times[2], rel=0.05)


def test_streams_overlap_while_counters_are_on(tmp_path):
    body = """
    import time

    @triton.jit
    def spin(out, ns):
        first = tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64,
                                          is_pure=False, pack=1)
        now = first
        while now - first < ns:
            now = tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [],
                                            dtype=tl.int64, is_pure=False, pack=1)
        tl.store(out, now)

    out = torch.zeros(2, dtype=torch.int64, device="cuda")
    streams = [torch.cuda.Stream() for _ in range(2)]

    def pair():
        for i, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                spin[(1,)](out[i:], 2000000)

    def timed(times=20):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(times):
            pair()
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) / times * 1e3

    pair()
    plain = timed()
    session = start("test")
    rounds(session, pair, 4)
    pair()
    counted = timed()
    proton.finalize()
    print(f"a pair of 2 ms: {plain:.2f} ms, with counters {counted:.2f} ms")
    assert counted < 1.2 * plain, (plain, counted)
    """
    profile(tmp_path, body, "test")


def test_threads_that_launch_at_once_have_their_own_values(tmp_path):
    (root,) = profile(
        tmp_path,
        """
        import threading

        n = 1 << 24
        big = [torch.rand(n, device="cuda") for _ in range(3)]
        call = multiply("bf16")
        other = lambda: add[(n // 4096,)](*big, n, 4096)
        call()
        other()
        torch.cuda.synchronize()
        session = start("test")
        must_end = threading.Event()

        def launch():
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                while not must_end.is_set():
                    other()
                    stream.synchronize()

        thread = threading.Thread(target=launch)
        thread.start()
        for _ in range(300):
            call()
            torch.cuda.current_stream().synchronize()
        must_end.set()
        thread.join()
        proton.finalize()
        """,
        "test",
    )
    node = at(root, "matmul")
    assert per_launch(node, "counter_flops16") == pytest.approx(2 * 1024**3, rel=1e-3)
    assert per_launch(node, "counter_bytes") < 12 * 2**24  # an addition moves more
    assert per_launch(at(root, "add"), "counter_bytes") < 1.5 * 12 * 2**24


def test_what_a_training_step_costs(tmp_path):
    body = """
    import time

    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    x = torch.randn(16, 128, 512, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        optimizer.step()

    def timed(times=50):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(times):
            step()
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) / times * 1e3

    timed(20)
    session = proton.start("records")
    timed(20)
    records = min(timed() for _ in range(4))
    proton.finalize(session)
    session = proton.start("test", counters="roofline")
    begin = time.perf_counter()
    while time.perf_counter() - begin < 15:  # what may be spent at once is spent
        timed(20)
    counted = [timed() for _ in range(6)]
    proton.finalize()
    print(f"step: {records:.2f} ms with records, {counted} with counters")
    assert sorted(counted)[3] < 1.05 * records, (records, counted)
    """
    profile(tmp_path, body, "test")
