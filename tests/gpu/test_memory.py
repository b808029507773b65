"""Memory copies and sets, launch configurations and the header, on a GPU.

python -m pytest tests/gpu
"""

import ctypes
import re

import gpus
import pytest

torch = gpus.need()

import triton
import triton.language as tl
from trees import at, load, names

import triton_proton as proton

N = 1 << 20
COPY_IN = "Memcpy HtoD (Pinned -> Device)"
COPY_OUT = "Memcpy DtoH (Device -> Pageable)"
COPY_ON = "Memcpy DtoD (Device -> Device)"
SET = "Memset (Device)"


@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, at < n) * 2, at < n)


@pytest.fixture(autouse=True)
def directory(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PROTON_BACKEND", raising=False)
    torch.cuda.init()
    yield
    proton.finalize(None, "none")


def losses(root: dict) -> dict[str, int]:
    return {name: count for name, count in root["proton"].get("losses", {}).items() if count}


def move(host: torch.Tensor, device: torch.Tensor, other: torch.Tensor) -> None:
    driver = ctypes.CDLL("libcuda.so.1")
    with proton.scope("in"):
        for _ in range(10):
            device.copy_(host, non_blocking=True)
    with proton.scope("out"):
        device.cpu()
    with proton.scope("on"):
        other.copy_(device)
    with proton.scope("set"):
        assert driver.cuMemsetD8_v2(ctypes.c_uint64(device.data_ptr()), 0, ctypes.c_size_t(N)) == 0
    torch.cuda.synchronize()


@pytest.mark.parametrize("wanted", [True, False])
def test_copies_and_sets(wanted):
    host = torch.ones(N, pin_memory=True)
    device, other = torch.empty(N, device="cuda"), torch.empty(N, device="cuda")
    torch.cuda.synchronize()
    proton.start("test", memory=wanted)
    move(host, device, other)
    proton.finalize()
    root = load()
    assert losses(root) == {}
    if not wanted:
        assert not [name for name in names(root) if name.startswith(("Memcpy", "Memset"))]
        return
    metrics = at(root, "in", COPY_IN)["metrics"]
    assert metrics["count"] == 10 and metrics["memory_bytes"] == 10 * 4 * N
    assert metrics["device_type"] == gpus.DEVICE_TYPE and metrics["time (ns)"] > 0
    # No bus moves a byte faster than in 1 ps.
    assert metrics["time (ns)"] > metrics["memory_bytes"] / 1000
    assert at(root, "out", COPY_OUT)["metrics"]["memory_bytes"] == 4 * N
    assert at(root, "on", COPY_ON)["metrics"]["memory_bytes"] == 4 * N
    assert at(root, "set", SET)["metrics"]["memory_bytes"] == N


def test_copies_in_a_graph_show_where_they_were_captured():
    x, y = torch.ones(N, device="cuda"), torch.empty(N, device="cuda")
    graph = torch.cuda.CUDAGraph()
    double[(4,)](x, 4096, BLOCK=1024)
    torch.cuda.synchronize()
    proton.start("test", memory=True)
    with torch.cuda.graph(graph):
        with proton.scope("captured"):
            y.copy_(x)
            double[(4,)](x, 4096, BLOCK=1024)
    with proton.scope("replay"):
        for _ in range(5):
            graph.replay()
    torch.cuda.synchronize()
    proton.finalize()
    root = load()
    inside = at(root, "replay", "<captured_at>", "captured")
    assert at(inside, COPY_ON)["metrics"]["count"] == 5
    assert at(inside, COPY_ON)["metrics"]["memory_bytes"] == 5 * 4 * N
    assert at(inside, "double")["metrics"]["count"] == 5
    assert losses(root) == {}


def test_a_session_without_memory_beside_one_with_it():
    host, device = torch.ones(N, pin_memory=True), torch.empty(N, device="cuda")
    proton.start("test")
    other = proton.start("other", memory=True)
    for _ in range(100):
        device.copy_(host, non_blocking=True)
    torch.cuda.synchronize()
    proton.finalize(other)
    for _ in range(100):
        device.copy_(host, non_blocking=True)
    torch.cuda.synchronize()
    proton.finalize()
    assert COPY_IN not in names(load())
    root = load("other.hatchet")
    assert at(root, COPY_IN)["metrics"]["count"] == 100
    assert losses(root) == {}


def test_launch_configurations_of_kernels():
    x = torch.ones(N, device="cuda")
    double[(4,)](x, 4096, BLOCK=1024, num_warps=4)
    torch.cuda.synchronize()
    proton.start("test")
    for blocks in (4, 4, 8):
        double[(blocks,)](x, 4096, BLOCK=1024, num_warps=4)
    proton.finalize()
    node = at(load(), "double")
    configs = node["proton"]["configs"]
    assert [(c["grid"], c["block"], c["count"]) for c in configs] == [
        ([4, 1, 1], [128, 1, 1], 2),
        ([8, 1, 1], [128, 1, 1], 1),
    ]
    assert all(0 < c["registers"] < 256 for c in configs)
    assert sum(c["time (ns)"] for c in configs) == node["metrics"]["time (ns)"]


@triton.jit
def total(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(1) + tl.program_id(2), tl.sum(tl.load(x + at, at < n)))


def test_grid_block_and_shared_memory_are_those_of_the_launch():
    x, out = torch.ones(N, device="cuda"), torch.zeros(64, device="cuda")
    compiled = total[(2, 3, 4)](x, out, 4096, BLOCK=2048, num_warps=8)
    torch.cuda.synchronize()
    proton.start("test")
    total[(2, 3, 4)](x, out, 4096, BLOCK=2048, num_warps=8)
    proton.finalize()
    (config,) = at(load(), "total")["proton"]["configs"]
    assert (config["grid"], config["block"], config["count"]) == ([2, 3, 4], [256, 1, 1], 1)
    assert config["dynamic_shared (bytes)"] == compiled.metadata.shared > 0
    assert config["registers"] >= compiled.n_regs


@gpus.only(gpus.NVIDIA, "test_amd.py has that of AMD")
def test_a_profile_names_its_recorder():
    x = torch.ones(N, device="cuda")
    proton.start("test")
    for _ in range(3000):
        x.add_(1)
    proton.finalize()
    info = load()["proton"]["info"]
    assert re.fullmatch(r"1[2-9]\.\d+", info["cupti"])
    assert "libcupti" in info["cupti_path"]
    assert re.fullmatch(r"1[2-9]\.\d+", info["cuda_driver"])
    assert re.fullmatch(r"\d+\.\d+(\.\d+)?", info["nvidia_driver"])
    assert int(info["gpus"]) == torch.cuda.device_count()
    # 3000 launches cost our code more than 20 ns and less than 20 us each.
    for key in ("overhead_callbacks_ns", "overhead_records_ns"):
        assert 3000 * 20 < int(info[key]) < 3000 * 20_000
