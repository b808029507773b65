"""PC sampling on AMD without a GPU: Triton's code for gfx942, sampled by the fake SDK."""

import re
import subprocess
import sys

import pytest
from cmd_support import environment
from fake_driver import CC, LAUNCH_STRUCT, hip_library, sdk_library
from support import at, load, run_command, walk

triton = pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(CC is None, reason="needs a C compiler")

# Samples each 4 bytes of a kernel's code once, and its loads more often.
PROGRAM = """
import ctypes, os, sys, time
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
import triton_proton as proton


@triton.jit
def twice(v):
    return v * 2 + tl.sin(v)  # INLINED


@triton.jit
def add(x, y, n: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, n)
    v = tl.load(x + at)  # LOAD
    tl.store(y + at, twice(v))  # STORE


signature = {"x": "*fp32", "y": "*fp32", "n": "constexpr"}
source = ASTSource(fn=add, signature=signature, constexprs={"n": 1024})
code = triton.compile(source, target=GPUTarget("hip", "gfx942", 64)).asm["hsaco"]


"""
PROGRAM += LAUNCH_STRUCT
PROGRAM += """


class Sample(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_uint32),
        ("device", ctypes.c_uint32),
        ("dispatch_id", ctypes.c_uint64),
        ("code_object", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
        ("reason", ctypes.c_uint32),
        ("count", ctypes.c_uint32),
    ]


def launch():
    now = time.time_ns()
    config = (ctypes.c_uint32 * 9)(1, 1, 1, 256, 1, 1)
    work = Launch(307, b"add", None, 0, 7, 1, now, now + 1000, config=config)
    fake.fake_launch(ctypes.byref(work))
    return fake.fake_sdk_last_dispatch()


fake = ctypes.CDLL(os.environ["PROTON_ROCPROFILER_SDK_PATH"])
bytes_there = ctypes.c_uint32.in_dll(fake, "fake_launch_bytes").value
assert ctypes.sizeof(Launch) == bytes_there
fake.fake_sdk_load_code.restype = fake.fake_sdk_last_dispatch.restype = ctypes.c_uint64
fake.fake_sdk_load_code.argtypes = [
    ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p
]
session = proton.start("test", backend="rocprofiler", mode="pcsampling:interval=65536")
loaded = fake.fake_sdk_load_code(b"add", code, len(code), None)
with proton.scope("s"):
    dispatch = launch()
with proton.scope("other"):
    launch()
WAITCNT, ISSUED = 3, 16
for address in range(0, 1 << 14, 4):
    for reason, count in ((WAITCNT, 3), (ISSUED, 1)):
        sample = Sample(0, 0, dispatch, loaded, address, reason, count)
        fake.fake_sdk_sample(ctypes.byref(sample))
proton.finalize(session, sys.argv[1])
"""


def line_of(marker: str) -> int:
    return next(i for i, line in enumerate(PROGRAM.splitlines(), 1) if f"# {marker}" in line)


def run(tmp_path, output_format: str) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "program.py", output_format],
        cwd=tmp_path,
        env=environment(
            PROTON_ROCPROFILER_SDK_PATH=str(sdk_library()), PROTON_HIP_PATH=str(hip_library()),
            ROCPROFILER_PC_SAMPLING_BETA_ENABLED="1", TRITON_CACHE_DIR=str(tmp_path / "cache"),
        ),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


def test_samples_of_triton_code_are_at_their_lines(tmp_path):
    run(tmp_path, "hatchet")
    root = load(tmp_path / "test.hatchet")
    kernel = at(root, "s", "add")
    frames = {path[-1]: node["metrics"] for path, node in walk(kernel)}
    # A line has several columns, and is one node.
    assert len({path for path, _ in walk(kernel)}) == len(list(walk(kernel)))
    for marker in ("LOAD", "STORE", "INLINED"):
        [metrics] = [
            metrics
            for name, metrics in frames.items()
            if name.endswith(f"program.py:{line_of(marker)}@add")
        ]
        if marker != "STORE":  # it has the call, which is sampled by its own lines
            assert metrics["stalled_waitcnt"] == 3 * metrics["stalled_selected"] > 0
            assert metrics["num_stalled_samples"] * 4 == metrics["num_samples"] * 3
    assert "num_samples_apportioned" not in kernel["metrics"]
    # The other launch of the same kernel was not sampled.
    assert not at(root, "other", "add")["children"]


def test_viewer_prints_the_lines(tmp_path):
    run(tmp_path, "proton")
    done = run_command(
        [sys.executable, "-m", "triton_proton.viewer", "--source", "add", "test.proton"],
        cwd=tmp_path, env=environment(),
    )
    assert "waitcnt 75 %: memory accesses (s_waitcnt)" in done.stdout
    line = line_of("LOAD")
    assert re.search(rf"waitcnt 75 % +{line}  +v = tl.load", done.stdout), done.stdout
