"""Sums instead of records, from Triton's compiler to the profile and to machine code.

Triton compiles the kernels; the test writes the sums of warps.
"""

import json

import pytest
from fake_driver import run_program

pytest.importorskip("triton")

from intra_shapes import CASES  # noqa: E402
from intra_support import (  # noqa: E402
    SHARED,
    TOOL,
    compile_to_llvm,
    instrument,
    is_for,
    without_markers,
)

PROGRAM = r"""
import ctypes, struct, sys
import triton, triton_proton as proton
from triton import knobs
from triton.runtime import _allocation
import intra_kernels as kernels

FUNCTION, STREAM = 0x77, 7
EXECUTIONS = 1_000_000


class Metadata:
    data = {"name": "marked_add", "function": FUNCTION, "stream": STREAM}

    def get(self):
        return self.data


def write_sums(address, layout):
    lines = [line.split(" ", 1) for line in layout.splitlines()[1:]]
    keys = dict(lines)
    names = [value for key, value in lines if key == "scope"]
    sums = [names[int(value.split()[0])] for key, value in lines if key == "sum"]
    counts = [tuple(map(int, value.split())) for key, value in lines if key == "ends"]
    units, size = len(keys["units"].split()), int(keys["ring"])
    for unit in range(units):
        values = [0] * (size // 4)
        for which, word, times in counts:
            name = sums[which]
            values[which] = 900_000_000 if name == "kernel" else 500_000_000
            values[word] = 1 if name == "kernel" else EXECUTIONS // times
        for key, value in lines:
            if key == "extremes":
                which, low, high = map(int, value.split())
                values[low], values[high] = 400 - unit, 7000 + unit
        header = struct.pack(
            "<IIIIQQQQ16x", 0x314f5250, 0, size // 8, 10, 10**18, 900, 10**18 + 500_000_000,
            1_000_000_900)
        ctypes.memmove(address + unit * 64, header, 64)
        ctypes.memmove(address + units * 64 + unit * size, struct.pack(f"<{len(values)}I", *values),
            size)


data, mode, *more = sys.argv[1:]
proton.start("a", backend="instrumentation", data=data, mode=mode)
kernel = kernels.compile(kernels.marked_loop, "sm_90")
for data in more:
    proton.start("b", backend="instrumentation", data=data, mode=mode)
knobs.runtime.kernel_load_end_hook(None, FUNCTION, "marked_loop", kernel.metadata_group, "hash")
for launch in range(2):
    address = _allocation._profile_allocator(kernel.metadata.profile_scratch_size, 128, STREAM)
    knobs.runtime.launch_enter_hook(Metadata())
    write_sums(address, kernel.metadata.proton_layout)
    knobs.runtime.launch_exit_hook(Metadata())
proton.finalize()
"""


# Which kernels sessions of one mode get, if one of them is a trace.
SESSIONS = r"""
import triton_proton as proton
import intra_kernels as kernels


def layout(kernel=kernels.marked_loop):
    return kernels.compile(kernel, "sm_90").metadata.proton_layout


def has_sums(kernel=kernels.marked_loop):
    return "\nsum " in layout(kernel)


def start(name, data, mode="default"):
    return proton.start(name, backend="instrumentation", data=data, mode=mode)


tree = start("tree", "tree")
assert has_sums() and not has_sums(kernels.marked_copy)
first = layout()
trace = start("trace", "trace")
assert not has_sums()
recorded = layout()
proton.deactivate(trace)
assert has_sums()
proton.activate(trace)
assert layout() == recorded
proton.deactivate(tree)
assert not has_sums()
proton.activate(tree)
proton.finalize(trace)
assert layout() == first
proton.finalize(tree)

trace = start("trace", "trace", "default:tree=auto")
assert layout() == recorded
tree = start("tree", "tree", "default:tree=auto")
assert layout() == recorded
proton.finalize(trace)
assert layout() == first
proton.finalize()

start("records", "tree", "default:tree=records")
assert layout() == recorded
proton.finalize()
start("sums", "tree", "default:tree=sums")
assert has_sums(kernels.marked_copy)
"""


def run(tmp_path, *words: str, text: str = PROGRAM, status: int | None = 0):
    return run_program(tmp_path, text, *words, status=status)


@pytest.mark.parametrize("mode", ["", "default:tree=sums"])
def test_a_million_executions_are_in_the_profile(tmp_path, mode):
    done = run(tmp_path, "tree", mode)
    assert "overwritten" not in done.stderr and "lower bound" not in done.stderr
    (kernel,) = json.loads((tmp_path / "a.hatchet").read_text())[0]["children"]
    (outer,) = kernel["children"]
    (turn,) = outer["children"]
    assert (outer["frame"]["name"], turn["frame"]["name"]) == ("kernel", "turn")
    assert outer["metrics"]["executions"] == 2 * 4
    assert outer["metrics"]["cycles"] == 2 * 4 * 900_000_000
    assert turn["metrics"]["executions"] == 2 * 4 * 1_000_000
    assert turn["metrics"]["mean_cycles"] == 500
    assert turn["metrics"]["min_cycles"] == 397 and turn["metrics"]["max_cycles"] == 7003
    assert "p99_cycles" not in turn["metrics"]
    for name in ("min_cycles", "p99_cycles", "max_cycles"):  # each warp executed it once
        assert outer["metrics"][name] == pytest.approx(900_000_000, rel=0.03)
    assert "partial_executions" not in turn["metrics"]


def test_a_trace_needs_records(tmp_path):
    done = run(tmp_path, "trace", "default:tree=sums", status=None)
    assert done.returncode and "tree=sums keeps no single executions" in done.stderr


def test_a_trace_names_kernels_that_were_compiled_before_it(tmp_path):
    done = run(tmp_path, "tree", "", "trace")
    assert "proton: marked_loop: the trace omits 2 launches (totals include them)" in done.stderr
    (kernel,) = json.loads((tmp_path / "a.hatchet").read_text())[0]["children"]
    assert kernel["children"][0]["metrics"]["executions"] == 2 * 4


def test_kernels_have_records_while_a_session_is_a_trace(tmp_path):
    done = run(tmp_path, text=SESSIONS)
    assert "instead of sums" not in done.stderr


# ------------------------------------------------------------------ machine code

NO_SUMS = "it has async events", "it has scopes in noinline functions", "never ends"
# Sums may cost more registers than records where a loop has many scopes.
COST = 8


@pytest.mark.skipif(not TOOL.exists(), reason="tests/tools/run_pass is not built")
@pytest.mark.parametrize(
    "name, arch",
    [(case.name, arch) for case in CASES for arch in ("sm_90", "gfx942") if is_for(case, arch)],
)
def test_sums_assemble_and_cost_no_memory(name, arch):
    kernel = compile_to_llvm({case.name: case for case in CASES}[name], arch)
    result = instrument(kernel, sums=1)
    if "sum" not in result.layout:
        assert any(reason in result.layout["#why"][0] for reason in NO_SUMS)
        return
    assert result.ignored == 0 and result.shared <= SHARED[arch][0]
    before = kernel.assemble(without_markers(kernel.text), kernel.metadata["shared"])
    after = kernel.assemble_records(result.text, result.shared)
    for key, amount in before.items():
        if key not in ("registers", "scalars"):
            assert after[key] <= amount, f"{key}: {before} -> {after}"
    records = instrument(kernel)
    usual = kernel.assemble_records(records.text, records.shared)
    assert after["registers"] <= usual["registers"] + COST, (before, usual, after)


@pytest.mark.skipif(not TOOL.exists(), reason="tests/tools/run_pass is not built")
@pytest.mark.parametrize("arch", ["sm_80", "sm_100", "gfx90a", "gfx950"])
@pytest.mark.parametrize(
    "options", [{}, {"buffer": "global"}, {"stride": 3, "sampled": 2}, {"unit": 4}], ids=str
)
def test_sums_assemble_with_every_option(arch, options):
    kernel = compile_to_llvm({case.name: case for case in CASES}["attention"], arch)
    result = instrument(kernel, sums=1, **options)
    assert "sum" in result.layout
    assert result.buffer == options.get("buffer", result.buffer)
    before = kernel.assemble(without_markers(kernel.text), kernel.metadata["shared"])
    assert kernel.assemble(result.text, result.shared)["local"] == before["local"]
