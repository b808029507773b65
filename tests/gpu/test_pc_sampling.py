"""PC sampling on an NVIDIA GPU, with the real driver and the real CUPTI; skipped without them.

Each test has its own process: CUPTI keeps sampled contexts until the process ends.
"""

import sys
import textwrap
from pathlib import Path

import gpus
import pytest
from crash_stack import run
from trees import at, load

torch = gpus.need(gpus.NVIDIA, "CUPTI samples there; test_amd.py has those of AMD")

KERNELS = '''
import os

import torch
import triton
import triton.language as tl

import triton_proton as proton


@triton.jit
def hot(x, n):
    at = tl.program_id(0) * 1024 + tl.arange(0, 1024)
    v = tl.load(x + at)
    for _ in range(n):
        v = v * 0.5 + 0.25  # HOT
        v = tl.sqrt(v)  # HOT
    tl.store(x + at, v)


def run(x, times, n=500):
    for _ in range(times):
        hot[(264,)](x, n)
'''
HOT_LINES = [
    number
    for number, line in enumerate(KERNELS.splitlines(), 1)
    if "# HOT" in line or "for _ in range(n)" in line
]


def profile(directory: Path, body: str, *files: str, seconds: int = 60) -> list[dict]:
    """Runs a program that starts with KERNELS; the profiles that it has written."""
    program = directory / "program.py"
    program.write_text(KERNELS + textwrap.dedent(body))
    run([sys.executable, str(program)], directory, seconds)
    return [load(directory / f"{file}.hatchet") for file in files or ("test",)]


def samples(node: dict) -> int:
    """Samples of a whole subtree."""
    own = node["metrics"].get("num_samples", 0)
    return own + sum(samples(child) for child in node["children"])


def lines(node: dict) -> dict[int, int]:
    """Samples by line, of the frames `file:line@function` in a subtree of program.py."""
    found: dict[int, int] = {}
    for child in node["children"]:
        name = child["frame"]["name"]
        if "program.py:" in name:
            line = int(name.split("program.py:")[1].split("@")[0])
            found[line] = found.get(line, 0) + child["metrics"].get("num_samples", 0)
        for line, count in lines(child).items():
            found[line] = found.get(line, 0) + count
    return found


def test_samples_of_a_hot_loop_are_on_its_lines(tmp_path):
    (root,) = profile(
        tmp_path,
        """
        x = torch.rand(1024 * 264, device="cuda")
        session = proton.start("test", mode="pcsampling")
        with proton.scope("s"):
            run(x, 2000)
        proton.finalize(session)
        """,
    )
    kernel = at(root, "s", "hot")
    found = lines(kernel)
    assert samples(kernel) > 100_000
    assert sum(found.get(line, 0) for line in HOT_LINES) >= 0.95 * samples(kernel)
    assert kernel["metrics"]["count"] == 2000
    assert "num_samples_apportioned" not in kernel["metrics"]
    counters = root["proton"]["counters"]
    assert counters["PC samples of profiler code"] < 0.15 * counters["PC samples"]
    assert counters["PC samples"] == samples(root)
    # As many as the kernel's time gives, at one sample per SM and 16384 cycles.
    expected = int(root["proton"]["info"]["pc_sampling_expected"])
    assert 0.6 * expected < counters["PC samples"] < 1.1 * expected


def test_specializations_of_one_kernel_are_not_mixed(tmp_path):
    (root,) = profile(
        tmp_path,
        """
        x = torch.rand(1024 * 264, device="cuda")
        y = torch.rand(1024 * 264, device="cuda", dtype=torch.float64)
        session = proton.start("test", mode="pcsampling")
        with proton.scope("single"):
            run(x, 1000)
        with proton.scope("double"):
            run(y, 1000, 100)
        proton.finalize(session)
        """,
    )
    for scope in ("single", "double"):
        kernel = at(root, scope, "hot")
        assert samples(kernel) > 1000
        assert "num_samples_apportioned" not in kernel["metrics"]


def test_a_graph_replay_is_sampled(tmp_path):
    (root,) = profile(
        tmp_path,
        """
        x = torch.rand(1024 * 264, device="cuda")
        session = proton.start("test", mode="pcsampling")
        run(x, 1)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            with proton.scope("captured"):
                run(x, 20)
        with proton.scope("replay"):
            for _ in range(50):
                graph.replay()
        torch.cuda.synchronize()
        proton.finalize(session)
        """,
    )
    kernel = at(root, "replay", "<captured_at>", "captured", "hot")
    assert kernel["metrics"]["count"] == 1000
    assert samples(kernel) > 10_000
    assert sum(lines(kernel).get(line, 0) for line in HOT_LINES) >= 0.95 * samples(kernel)


def test_serialized_samples_agree_with_continuous_ones(tmp_path):
    shares = []
    for mode in ("pcsampling", "pcsampling:serialized"):
        (root,) = profile(
            tmp_path,
            f"""
            x = torch.rand(1024 * 264, device="cuda")
            session = proton.start("test", mode="{mode}")
            run(x, 300)
            proton.finalize(session)
            """,
        )
        kernel = at(root, "hot")
        total = samples(kernel)
        assert total > 10_000
        shares.append({line: count / total for line, count in lines(kernel).items()})
    for line in set(shares[0]) | set(shares[1]):
        assert shares[0].get(line, 0) == pytest.approx(shares[1].get(line, 0), abs=0.03)


def test_sessions_follow_each_other_in_a_process(tmp_path):
    """A module that was loaded between two sessions is sampled too."""
    first, second, plain, third = profile(
        tmp_path,
        """
        x = torch.rand(1024 * 264, device="cuda")
        session = proton.start("first", mode="pcsampling")
        run(x, 300)
        proton.finalize(session)
        y = x.double()
        run(y, 1, 100)
        session = proton.start("second", mode="pcsampling")
        run(y, 300, 100)
        proton.finalize(session)
        session = proton.start("plain")
        run(x, 10)
        proton.finalize(session)
        session = proton.start("third", mode="pcsampling:interval=32768")
        run(x, 300)
        proton.finalize(session)
        """,
        "first",
        "second",
        "plain",
        "third",
    )
    for root in (first, second, third):
        assert samples(at(root, "hot")) > 1000
    assert samples(plain) == 0 and at(plain, "hot")["metrics"]["count"] == 10
    assert third["proton"]["info"]["pc_sampling_interval"] == "32768"


def test_sessions_of_different_modes_alternate(tmp_path):
    modes = [None, "pcsampling", None, "pcsampling:interval=65536", "pcsampling"] * 4
    roots = profile(
        tmp_path,
        f"""
        x = torch.rand(1024 * 264, device="cuda")
        for i, mode in enumerate({modes}):
            session = proton.start(f"session{{i}}", mode=mode)
            run(x, 300)
            proton.finalize(session)
            run(x, i % 3)
        """,
        *(f"session{i}" for i in range(len(modes))),
    )
    for mode, root in zip(modes, roots):
        assert at(root, "hot")["metrics"]["count"] == 300
        assert (samples(at(root, "hot")) > 1000) == bool(mode)


def test_modules_are_sampled_that_were_loaded_before_the_session(tmp_path):
    (root,) = profile(
        tmp_path,
        """
        x = torch.rand(1024 * 264, device="cuda")
        run(x, 10)
        torch.cuda.synchronize()
        session = proton.start("test", mode="pcsampling")
        run(x, 1000)
        proton.finalize(session)
        """,
    )
    kernel = at(root, "hot")
    assert sum(lines(kernel).get(line, 0) for line in HOT_LINES) >= 0.95 * samples(kernel) > 1000


def test_windows_open_and_close_while_modules_are_loaded(tmp_path):
    (root,) = profile(
        tmp_path,
        """
        import time
        x = torch.rand(1024 * 264, device="cuda")
        session = proton.start("test", mode="pcsampling:windows=20ms/60ms")
        end = time.monotonic() + 3
        while time.monotonic() < end:
            run(x, 100)
            (x * time.monotonic()).half().cumsum(0).sort()  # loads modules at first
            torch.cuda.synchronize()
        proton.finalize(session)
        """,
    )
    counters = root["proton"]["counters"]
    expected = int(root["proton"]["info"]["pc_sampling_expected"])
    assert counters["PC samples"] > 10_000
    assert counters["PC samples"] < 1.2 * expected


def test_upstream_default_interval_samples_a_short_program(tmp_path):
    (root,) = profile(
        tmp_path,
        """
        x = torch.rand(1024 * 264, device="cuda")
        session = proton.start("test", mode=proton.mode.PCSampling())
        run(x, 100)
        proton.finalize(session)
        """,
    )
    assert samples(at(root, "hot")) > 10_000
    assert root["proton"]["info"]["pc_sampling_interval"] == "1024"
