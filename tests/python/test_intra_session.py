"""Sessions with the backend "instrumentation" from Python, beside a fake driver.

The test is Triton's launcher and the kernel: it loads a kernel that the compiler has instrumented,
asks for its buffer, writes records there and calls the launch hooks.
"""

import json

import pytest
from fake_driver import run_program, run_python

pytest.importorskip("triton")

PROGRAM = r"""
import ctypes, json, struct, sys
import triton, triton_proton as proton
from triton import knobs
from triton.runtime import _allocation
from triton_proton.flags import flags
import intra_kernels as kernels

FUNCTION, STREAM, CTAS = 0x77, 7, 3

class Metadata:
    def __init__(self, name, function):
        self.data = {"name": name, "function": function, "stream": STREAM}
        self.extras = []
    def get(self):
        return self.data

def write_records(address, layout, ctas):
    words = [line.split(" ", 1) for line in layout.splitlines()[1:]]
    keys = dict(words)
    scopes = [value for key, value in words if key == "scope"]
    codes = [tuple(map(int, value.split())) for key, value in words if key == "code"]
    units = len(keys["units"].split())
    cta, ring, slack = (int(keys[key]) for key in ("cta", "ring", "slack"))
    for number in range(ctas):
        for unit in range(units):
            records, clock = [], 5000
            for code, (scope, kind) in enumerate(codes, 1):
                if kind == 0:
                    records.append((clock, code << 24 | 100))
                    clock += 200
            at = address + number * cta
            header = struct.pack(
                "<IIIIQQQQ16x", 0x314f5250, number, len(records), 10,
                10**18, 4000, 10**18 + 50000, 104000)
            ctypes.memmove(at + unit * 64, header, 64)
            data = b"".join(struct.pack("<II", *record) for record in records)
            ctypes.memmove(at + units * 64 + unit * (ring + slack), data, len(data))

def launch(kernel, name="marked_add"):
    size = kernel.metadata.profile_scratch_size
    answer = _allocation._profile_allocator(CTAS * size, 128, STREAM)
    metadata = Metadata(name, FUNCTION)
    knobs.runtime.launch_enter_hook(metadata)
    if answer:
        write_records(answer, kernel.metadata.proton_layout, CTAS)
    knobs.runtime.launch_exit_hook(metadata)
    return answer

def load(kernel):
    knobs.runtime.kernel_load_end_hook(
        None, FUNCTION, "marked_add", kernel.metadata_group, "hash")

mode = sys.argv[2] if len(sys.argv) > 2 else None
proton.start("a", backend="instrumentation", data=sys.argv[1], mode=mode)
kernel = kernels.compile(kernels.marked_add, "sm_90")
load(kernel)
with proton.scope("step"):
    assert launch(kernel)
proton.deactivate()
assert flags.instrumentation_on is False
assert _allocation._profile_allocator(100, 128, STREAM) == 0
proton.activate()
launch(kernel)
proton.finalize()
# Kernels that the program kept are launched without a session: they get no buffer.
assert _allocation._profile_allocator(CTAS * 128, 128, STREAM) == 0
# The same process again: the kernel is loaded already, and no hook reports it.
proton.start("b", backend="instrumentation", hook="triton")
assert launch(kernel)
proton.finalize()
"""


@pytest.fixture
def run(tmp_path):
    def go(data: str, *mode: str, **variables: str) -> None:
        run_program(tmp_path, PROGRAM, data, *mode, **variables)

    return go


def children(node):
    return {child["frame"]["name"]: child for child in node["children"]}


def test_tree(run, tmp_path):
    run("tree")
    root, devices = json.loads((tmp_path / "a.hatchet").read_text())
    assert not root["metrics"]  # nothing that would add up
    for above in (children(root)["step"], root):
        scope = children(children(above)["marked_add"])["load 1 %"]
        metrics = scope["metrics"]
        assert metrics["cycles"] == 3 * 4 * 100  # CTAs, warps
        assert metrics["normalized_cycles"] == 100
        assert metrics["executions"] == 12
        assert metrics["executions_per_warp"] == 1
        assert metrics["p99_cycles"] == 100
        # Readers written for Triton's profiler look up the device by id in the table.
        assert metrics["device_id"] == "0" and metrics["device_type"] == "CUDA"
        assert not children(above)["marked_add"]["metrics"]
    assert list(devices) == ["CUDA"] and list(devices["CUDA"]) == ["0"]
    device = devices["CUDA"]["0"]
    assert list(device) == ["arch", "bus_width", "clock_rate", "memory_clock_rate", "num_sms"]
    assert device["arch"] == "90"
    again = json.loads((tmp_path / "b.hatchet").read_text())[0]
    assert "load 1 %" in children(children(again)["marked_add"])


@pytest.mark.parametrize("given, cycles", [(None, 98), ("7,16", 93), ("0,0", 100)])
def test_time_shift(run, tmp_path, given, cycles):
    """A reading of the fake device's clock takes two cycles."""
    variables = {"PROTON_INSTRUMENT_COST": given} if given else {}
    run("tree", "default:optimizations=time_shift", **variables)
    root = json.loads((tmp_path / "a.hatchet").read_text())[0]
    scope = children(children(root)["marked_add"])["load 1 %"]
    assert scope["metrics"]["normalized_cycles"] == cycles


def test_trace(run, tmp_path):
    run("trace")
    events = json.loads((tmp_path / "a.chrome_trace").read_text())["traceEvents"]
    assert {e["pid"] for e in events} == {f"marked_add Core{i} CTA{i}" for i in range(3)}
    inside = [e for e in events if e["name"] == "load 1 %"]
    assert len(inside) == 2 * 3 * 4
    assert all(e["dur"] == pytest.approx(0.05) for e in inside)  # 2 GHz


COMMAND = r"""
import ctypes, struct
import triton
from triton import knobs
from triton.runtime import _allocation
import triton_proton as proton
from triton_proton.flags import flags
from triton_proton.hooks.hook import HookManager
import intra_kernels as kernels

assert flags.command_line and flags.instrumentation_on
assert proton.start("of the program", backend="instrumentation", mode="default:auto=all") is None
names = [type(hook).__name__ for hook in HookManager.active_hooks]
assert sorted(names) == ["InstrumentationHook", "LaunchHook"], names
assert "auto" in knobs.compilation.instrumentation_mode
kernel = kernels.compile(kernels.add, "sm_90")
assert "load@intra_kernels.py:" in kernel.metadata.proton_layout
knobs.runtime.kernel_load_end_hook(None, 0x77, "add", kernel.metadata_group, "hash")

class Metadata:
    data = {"name": "add", "function": 0x77, "stream": 7}
    extras = []
    def get(self):
        return self.data

size = kernel.metadata.profile_scratch_size
answer = _allocation._profile_allocator(size, 128, 7)
knobs.runtime.launch_enter_hook(Metadata())
# One warp that has ended and recorded nothing.
ctypes.memmove(answer, struct.pack("<IIIIQQQQ", 0x314f5250, 0, 0, 0, 1, 1, 100, 100), 48)
knobs.runtime.launch_exit_hook(Metadata())
"""


@pytest.mark.parametrize("data", ["tree", "trace"])
def test_the_command_instruments(tmp_path, data):
    (tmp_path / "program.py").write_text(COMMAND)
    options = ["-n", "named", "-b", "instrumentation", "-m", "default:auto=loads", "-k", "triton"]
    command = ["-m", "triton_proton.proton", *options, "-d", data, "program.py"]
    done = run_python(tmp_path, *command)
    suffix = {"tree": "hatchet", "trace": "chrome_trace"}[data]
    assert (tmp_path / f"named.{suffix}").exists()
    hint = {
        "tree": "; view it with: proton-viewer named.hatchet",
        "trace": "; open in ui.perfetto.dev: named.chrome_trace",
    }[data]
    assert hint in done.stderr and "recorded 1 instrumented launch in " in done.stderr
    assert not list(tmp_path.glob("of the program*"))


NOTHING = """
import triton_proton as proton
proton.start("a", backend="instrumentation")
proton.finalize()
"""


@pytest.mark.parametrize("command", [[], ["-m", "triton_proton.proton", "-b", "instrumentation"]])
def test_how_to_add_scopes_is_reported_once(tmp_path, command):
    (tmp_path / "program.py").write_text(NOTHING)
    done = run_python(tmp_path, *command, "program.py")
    assert done.stderr.startswith("proton: ") and done.stderr.count("\n") == 1
    assert "no kernel with scopes was launched; add scopes with triton_proton" in done.stderr


def test_the_interpreter_is_reported_to_have_no_scopes(tmp_path):
    done = run_program(tmp_path, NOTHING, TRITON_INTERPRET="1")
    printed = "proton: TRITON_INTERPRET is set: interpreted kernels have no scopes inside\n"
    assert done.stderr.startswith(printed)
