"""Counters of kernels without a GPU: the API and the command, with the fake libcupti."""

import sys

import pytest
from fake_driver import CC, LAUNCH_STRUCT, fake_environment
from support import at, load, run_command

import triton_proton as proton

pytestmark = pytest.mark.skipif(CC is None, reason="needs a C compiler")

PROGRAM = (
    """
import ctypes, os, time
import triton_proton as proton

os.environ["FAKE_CUDA_NO_CONTEXT"] = "1"
fake = ctypes.CDLL(os.environ["PROTON_CUPTI_PATH"])
ctypes.CDLL(os.environ["PROTON_CUDA_PATH"]).cuInit(0)
context = ctypes.create_string_buffer(1)  # its device
"""
    + LAUNCH_STRUCT
    + """
def launch(name, times):
    config = (ctypes.c_uint32 * 9)(10, 1, 1, 128, 1, 1)
    for _ in range(times):
        now = time.monotonic_ns()
        work = Launch(307, name, ctypes.addressof(context), 0, 7, 1, now, now + 1000,
                      config=config, function=1234)
        fake.fake_launch(ctypes.byref(work))
"""
)
API = 'session = proton.start("test", backend="cupti", counters="roofline")\n'


def run(body: str, *command: str, status: int = 0, **changes: str) -> str:
    with open("program.py", "w", encoding="utf-8") as file:
        file.write(PROGRAM + body)
    result = run_command(
        [sys.executable, *command, "program.py"],
        env=fake_environment(PROTON_BACKEND="cupti", **changes), status=status,
    )
    return result.stderr


def check(root: dict) -> None:
    metrics = at(root, "mm_bf16")["metrics"]
    assert metrics["count"] == 17
    assert metrics["counter_launches"] == 17
    assert metrics["counter_samples"] == 3
    assert metrics["counter_flops16"] == 17 * 10 * 2e6
    assert metrics["counter_bytes"] == 17 * 10 * 6144


@pytest.fixture(autouse=True)
def directory(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def test_start_takes_counters():
    run(API + 'launch(b"mm_bf16", 20)\nproton.finalize()')
    check(load("test.hatchet"))


def test_the_command_takes_counters():
    run('launch(b"mm_bf16", 20)', "-m", "triton_proton", "-n", "test", "--counters", "roofline")
    check(load("test.hatchet"))


def test_without_permission_the_program_runs_and_is_recorded():
    text = run(
        API + 'launch(b"mm_bf16", 20)\nproton.finalize()',
        FAKE_CUPTI_FAIL="cuptiProfilerGetCounterAvailability=35",
    )
    assert text.count("counters of kernels are not read: the driver restricts profiling to") == 1
    assert text.count("kernels are recorded without them") == 1
    metrics = at(load("test.hatchet"), "mm_bf16")["metrics"]
    assert metrics["count"] == 20 and "counter_launches" not in metrics


def test_counters_are_a_mode():
    with pytest.raises(ValueError, match="counters and mode exclude each other"):
        proton.start("test", mode="pcsampling", counters="roofline")
    text = run("", "-m", "triton_proton", "--windows", "1ms/1s", "--counters", "roofline", status=2)
    assert "--counters excludes other modes (--mode, --windows, --counters)" in text
