"""Instrumented kernels on AMD, from Triton's own launcher on, beside a fake libamdhip64.

Triton compiles a kernel for gfx942, loads and launches it through its HIP driver; the fake
library calls the test, which writes what the kernel would write to the buffer that it was given.
"""

import json

import pytest
from fake_driver import hip_library, run_program

from triton_proton import _libproton
from triton_proton._stages import KernelStages, Passes

pytest.importorskip("triton.backends.amd.driver")

PROGRAM = r"""
import ctypes, sys
import triton, triton_proton as proton
import triton.language as tl
from triton.runtime.jit import MockTensor
import intra_kernels as kernels
from fake_hip import STREAM, Driver, store_wave, write_waves

CTAS, PROFILE_SCRATCH = 3, 5  # the last parameter: after four and global scratch

triton.runtime.driver.set_active(Driver())
target = triton.runtime.driver.active.get_current_target()
assert (target.backend, target.arch, target.warp_size) == ("hip", "gfx942", 64), target
library = ctypes.CDLL(sys.argv[1])


def wave(at, ring, number, unit, codes):
    clock, records = 5000, []
    for code, (scope, kind) in enumerate(codes, 1):
        if kind == 0:
            records.append((clock, code << 24 | 100))
            clock += 200
    # The wave's own number is in HW_ID.
    store_wave(at, ring, unit, unit | (4 + number) << 8 | 1 << 13, records)


@ctypes.CFUNCTYPE(
    None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint64, ctypes.POINTER(ctypes.c_void_p))
def kernel(ctas, threads, stream, parameters):
    scratch = ctypes.cast(parameters[PROFILE_SCRATCH], ctypes.POINTER(ctypes.c_uint64))[0]
    assert (ctas, threads, stream) == (CTAS, 4 * 64, STREAM)
    buffers.append(scratch)
    if not scratch:
        return
    assert "vendor amd" in compiled.metadata.proton_layout.splitlines()
    write_waves(compiled.metadata.proton_layout, scratch, ctas, wave)


def launch():
    global compiled
    tensor = MockTensor(tl.float32)
    grid, arguments = (CTAS,), (tensor, tensor, tensor, 8)
    if compiled is None:
        compiled = kernels.marked_add.warmup(*arguments, BLOCK=64, num_warps=4, grid=grid)
    kernels.marked_add[grid](*arguments, BLOCK=64, num_warps=4)


library.fake_set_kernel(kernel)
for data in ("tree", "trace"):
    buffers, compiled = [], None
    proton.start("a", backend="instrumentation", data=data, hook="triton")
    with proton.scope("step"):
        launch()
    proton.deactivate()
    launch()
    proton.activate()
    launch()
    proton.finalize()
    launch()
    assert [bool(buffer) for buffer in buffers] == [True, False, True, False], buffers
assert library.hipGetLastError() == 0
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The directory with the tree and the trace of the program."""
    directory = tmp_path_factory.mktemp("hip")
    library = str(hip_library())
    changes = {
        "TRITON_LIBHIP_PATH": library,
        "PROTON_CUDA_PATH": "/nonexistent/libcuda.so.1",
        "PROTON_HIP_PATH": None,  # found because Triton has loaded it
    }
    run_program(directory, PROGRAM, library, **changes)
    return directory


@pytest.mark.parametrize("arch, size", [("sm_90", 256), ("gfx942", 256), ("gfx1250", 512)])
def test_room_for_every_cta_of_a_cluster(monkeypatch, arch, size):
    """Triton's launcher asks for the grid times this on AMD, for the CTAs times this on NVIDIA."""
    made = {"text": "", "shared": 0, "requested": 256, "alignment": 128}
    made |= {"ring_bytes": 0, "layout": "", "ignored": 0}
    monkeypatch.setattr(_libproton, "instrument_llvm", lambda *_: made)
    ctas = 2 if size == 512 or arch == "sm_90" else 1
    metadata = {"num_warps": 4, "num_ctas": ctas, "shared": 0}
    stages = {"llir": lambda src, metadata: src}
    is_amd = arch.startswith("gfx")
    KernelStages(stages, Passes("default", has_autos=False), arch, is_amd, 32, print)
    stages["llir"]('"// proton.record start a"', metadata)
    assert metadata["profile_scratch_size"] == size


def children(node):
    return {child["frame"]["name"]: child for child in node["children"]}


def test_tree(place):
    root, devices = json.loads((place / "a.hatchet").read_text())
    for above in (children(root)["step"], root):
        metrics = children(children(above)["marked_add"])["load 1 %"]["metrics"]
        assert metrics["cycles"] == 3 * 4 * 100  # CTAs, waves
        assert metrics["executions"] == 12
        assert metrics["device_id"] == "0" and metrics["device_type"] == "HIP"
    assert devices["HIP"]["0"]["arch"] == "gfx942"
    assert devices["HIP"]["0"]["num_sms"] == 304


def test_trace(place):
    events = json.loads((place / "a.chrome_trace").read_text())["traceEvents"]
    assert {e["pid"] for e in events} == {f"marked_add XCC6 SE1 CU{4 + i} CTA{i}" for i in range(3)}
    inside = [e for e in events if e["name"] == "load 1 %"]
    assert len(inside) == 2 * 3 * 4
    assert all(e["dur"] == pytest.approx(0.05) for e in inside)  # 2 GHz
