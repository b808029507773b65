"""Two GPUs in one process: exact counts per device, from one thread each and from one thread for
both, and a copy between them. Skipped with fewer than two GPUs.

    python -m pytest tests/gpu/test_two_gpus.py
"""

import threading

import gpus
import pytest

torch = gpus.need(count=2)

from trees import load, load_all

import triton_proton as proton

N = 1 << 18


@pytest.fixture
def tensors(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PROTON_BACKEND", raising=False)
    both = [torch.ones(N, device=f"cuda:{i}") for i in range(2)]
    for tensor in both:
        tensor.add_(1)
    synchronize()
    yield both
    proton.finalize(None, "none")


def synchronize() -> None:
    for device in range(2):
        torch.cuda.synchronize(device)


def counts(node: dict) -> dict[str, int]:
    """Kernels below `node` by device id."""
    sums: dict[str, int] = {}
    if "count" in node["metrics"]:
        sums[str(node["metrics"]["device_id"])] = node["metrics"]["count"]
    for child in node["children"]:
        for device, count in counts(child).items():
            sums[device] = sums.get(device, 0) + count
    return sums


def child(node: dict, name: str) -> dict:
    return next(c for c in node["children"] if c["frame"]["name"] == name)


def test_a_thread_for_each_device(tensors):
    def launch(device: int, times: int) -> None:
        with torch.cuda.device(device), proton.scope(f"device{device}"):
            for _ in range(times):
                tensors[device].add_(1)

    proton.start("test")
    threads = [threading.Thread(target=launch, args=(i, 300 + 100 * i)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    proton.finalize()  # waits for both devices: nothing was synchronized
    root, devices = load_all()
    assert counts(child(root, "device0")) == {"0": 300}
    assert counts(child(root, "device1")) == {"1": 400}
    assert set(devices[gpus.DEVICE_TYPE]) == {"0", "1"}


def test_one_thread_in_turns_on_equal_streams(tensors):
    """Streams of two devices may carry equal numbers."""
    streams = [torch.cuda.Stream(device=i) for i in range(2)]
    proton.start("test")
    for i in range(500):
        device = i % 5 == 0
        with torch.cuda.stream(streams[device]), proton.scope(f"device{int(device)}"):
            tensors[device].add_(1)
    proton.finalize()
    root = load()
    assert counts(child(root, "device0")) == {"0": 400}
    assert counts(child(root, "device1")) == {"1": 100}


def test_a_copy_between_devices_disturbs_no_count(tensors):
    proton.start("test")
    for _ in range(50):
        with proton.scope("first"):
            tensors[0].add_(1)
        with proton.scope("copy"):  # without peer access it may be a kernel, or several copies
            tensors[1].copy_(tensors[0])
        with proton.scope("second"):
            tensors[1].add_(1)
    proton.finalize()
    synchronize()
    root = load()
    assert counts(child(root, "first")) == {"0": 50}
    assert counts(child(root, "second")) == {"1": 50}


def test_a_graph_on_each_device(tensors):
    proton.start("test")
    graphs = []
    for device in range(2):
        with torch.cuda.device(device):
            graph = torch.cuda.CUDAGraph()
            # torch's own stream for captures is of the first device.
            stream = torch.cuda.Stream(device=device)
            with torch.cuda.graph(graph, stream=stream), proton.scope(f"captured{device}"):
                for _ in range(10):
                    tensors[device].add_(1)
            graphs.append(graph)
    with proton.scope("replay"):
        for device in range(2):
            with torch.cuda.device(device):
                for _ in range(20):
                    graphs[device].replay()
    proton.finalize()
    captured = child(child(load(), "replay"), "<captured_at>")
    for device in range(2):
        assert counts(child(captured, f"captured{device}")) == {str(device): 200}
