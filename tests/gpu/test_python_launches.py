"""Launches of Triton kernels from Python with context "python" and hook "triton", on a GPU.

    python -m pytest tests/gpu

Needs the installed package, torch with CUDA and triton.
"""

import json
import threading
from typing import Any

import gpus
import pytest

torch = gpus.need()

import triton

import triton_proton as proton
from triton_proton import _libproton as lib


def describe(grid, metadata, args):
    return {"name": "described", "flops32": 2.0, "bytes": 4}


@triton.jit(launch_metadata=describe)
def empty(x):
    pass


@pytest.fixture
def launch(monkeypatch, tmp_path):
    """A function that launches `empty`, which is compiled."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PROTON_BACKEND", raising=False)
    x = torch.zeros(1, device="cuda")

    def run() -> None:
        empty[(1,)](x)

    run()
    torch.cuda.synchronize()
    yield run
    lib.use_own_frames(True)
    proton.finalize(None, "none")


def kernel_paths(name: str) -> dict[tuple[str, ...], dict[str, Any]]:
    """The metrics of each kernel of `name`.hatchet by its path, the kernel's name last."""
    with open(f"{name}.hatchet", encoding="utf-8") as file:
        open_nodes = [((), json.load(file)[0])]
    found = {}
    while open_nodes:
        path, node = open_nodes.pop()
        if node["metrics"].get("count"):
            found[path] = node["metrics"]
        for child in node["children"]:
            open_nodes.append(((*path, child["frame"]["name"]), child))
    return found


def test_a_launch_has_the_same_path_with_both_ways_of_finding_it(launch):
    """By both ways of finding frames, with metadata and without."""
    found = []
    for own in (True, False):
        lib.use_own_frames(own)
        for hook in (None, "triton"):
            session = proton.start("test", context="python", hook=hook)
            for _ in range(3):
                launch()
            proton.finalize(session)
            ((path, values),) = kernel_paths("test").items()
            assert values["count"] == 3
            assert path[-1] == ("described" if hook else "empty")
            # The line of proton.finalize() and this loop's are the same in all of them.
            found.append(path[:-1])
    assert len(set(found)) == 1, found


def test_every_launch_has_its_metadata(launch):
    proton.start("test", hook="triton")
    with proton.scope("loop"):
        for _ in range(5000):
            launch()
    proton.finalize()
    ((path, values),) = kernel_paths("test").items()
    assert path == ("loop", "described")
    assert (values["count"], values["flops32"], values["bytes"]) == (5000, 10000.0, 20000)


def test_paths_are_right_while_other_threads_compute(launch):
    """The driver calls back without the GIL, for which the others compete."""
    stop = threading.Event()

    def compute() -> None:
        while not stop.is_set():
            sum(range(1000))

    def launching() -> None:
        for _ in range(50):
            launch()

    proton.start("test", context="python")
    busy = threading.Thread(target=compute)
    busy.start()
    threads = [threading.Thread(target=launching) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    busy.join()
    proton.finalize()
    ((path, values),) = kernel_paths("test").items()
    assert values["count"] == 200
    assert any(name.endswith("@launching") for name in path)
