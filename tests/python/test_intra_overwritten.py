"""Enclosing scopes with overwritten records, from Triton's compiler to the profile.

Triton compiles the kernels; the test writes the records of warps, more than their ring buffer
holds.
"""

import json

import pytest
from fake_driver import run_program

pytest.importorskip("triton")

import intra_kernels as kernels  # noqa: E402

from triton_proton import _instrument  # noqa: E402


pytestmark = pytest.mark.usefixtures("own_cache")


def nesting_of(kernel, arch: str, mode: str) -> tuple[dict, dict]:
    """By scope: the one that always is around it, and all that may be."""
    _instrument.start(mode)
    layout = kernels.compile(kernel, arch).metadata.proton_layout
    words = [line.split(" ", 1) for line in layout.splitlines()[1:]]
    names = [value.partition("@")[0] for key, value in words if key == "scope"]
    parents = {name: None for name in names}
    around = {}
    for key, value in words:
        if key == "parent":
            scope, parent = map(int, value.split())
            parents[names[scope]] = names[parent]
        elif key == "around":
            scope, *others = map(int, value.split())
            around[names[scope]] = {names[other] for other in others}
    return parents, around


@pytest.mark.parametrize("arch", ["sm_90", "gfx942"])
def test_nesting_of_scopes_in_the_source(arch):
    parents, around = nesting_of(kernels.marked_add, arch, "default")
    assert parents == {"kernel": None, "load 1 %": "kernel", "copy": None}
    assert around == {"kernel": set(), "load 1 %": {"kernel"}}  # copy is an event


def test_nesting_across_a_noinline_function():
    parents, _ = nesting_of(kernels.calling, "sm_90", "default")
    assert parents == {"kernel": None, "sum": "kernel"}


def test_nesting_in_a_pipelined_loop():
    """Copies are in its prologue too: that they may run in the loop is all there is to say."""
    parents, around = nesting_of(kernels.matmul, "sm_90", "default:auto=all:budget=off")
    assert parents["dot"] == "loop"
    assert parents["async_copy"] is None and around["async_copy"] == {"loop"}
    assert parents["store"] is None and around["store"] == set()


def test_nesting_in_partitions():
    """A loop that all partitions have is in none of them always."""
    parents, around = nesting_of(kernels.specialized, "sm_90", "default:auto=all:budget=off")
    assert parents["loop"] is None
    assert around["loop"] == {"default", "partition0", "partition1"}
    assert parents["tma_load"] == "load #1"
    assert around["partition0"] == around["partition1"] == around["default"] == set()


PROGRAM = r"""
import ctypes, struct, sys
import triton, triton_proton as proton
from triton import knobs
from triton.runtime import _allocation
import intra_kernels as kernels

FUNCTION, STREAM = 0x77, 7
START, END, SCOPE = 1, 2, 0


class Metadata:
    data = {"name": "marked_add", "function": FUNCTION, "stream": STREAM}

    def get(self):
        return self.data


def write_records(address, layout):
    words = [line.split(" ", 1) for line in layout.splitlines()[1:]]
    keys = dict(words)
    names = [value for key, value in words if key == "scope"]
    codes = [tuple(map(int, value.split())) for key, value in words if key == "code"]
    kernel, load = names.index("kernel"), names.index("load 1 %")
    code_of = {pair: code for code, pair in enumerate(codes, 1)}
    units = len(keys["units"].split())
    ring, slack = int(keys["ring"]), int(keys["slack"])
    for unit in range(units):
        # Warp 0 has two loads, the others more than there is room for.
        loads = 2 if unit == 0 else 100
        records = [(1000, code_of[kernel, START] << 24)]
        for i in range(loads):
            records.append((2000 + 200 * i, code_of[load, SCOPE] << 24 | 100))
        records.append((2000 + 200 * loads, code_of[kernel, END] << 24))
        header = struct.pack(
            "<IIIIQQQQ16x", 0x314f5250, 0, len(records), 10, 10**18, 900, 10**18 + 50000, 100900)
        ctypes.memmove(address + unit * 64, header, 64)
        for i, record in enumerate(records):
            at = address + units * 64 + unit * (ring + slack) + 8 * i % ring
            ctypes.memmove(at, struct.pack("<II", *record), 8)


proton.start("a", backend="instrumentation", data=sys.argv[1], mode="default:buffer_size=512")
kernel = kernels.compile(kernels.marked_add, "sm_90")
knobs.runtime.kernel_load_end_hook(None, FUNCTION, "marked_add", kernel.metadata_group, "hash")
address = _allocation._profile_allocator(kernel.metadata.profile_scratch_size, 128, STREAM)
knobs.runtime.launch_enter_hook(Metadata())
write_records(address, kernel.metadata.proton_layout)
knobs.runtime.launch_exit_hook(Metadata())
proton.finalize()
"""
SPACE = 16  # records of each of four warps


def run(tmp_path, data: str) -> str:
    return run_program(tmp_path, PROGRAM, data).stderr


def test_tree_keeps_the_scope_around_remaining_records(tmp_path):
    printed = run(tmp_path, "tree")
    (kernel,) = json.loads((tmp_path / "a.hatchet").read_text())[0]["children"]
    assert kernel["frame"]["name"] == "marked_add"
    (outer,) = (child for child in kernel["children"] if child["frame"]["name"] != "<warps>")
    (load,) = outer["children"]
    assert (outer["frame"]["name"], load["frame"]["name"]) == ("kernel", "load 1 %")
    assert load["metrics"]["executions"] == 2 + 3 * (SPACE - 1)
    assert "partial_executions" not in load["metrics"]
    # From the oldest load to the end, in three of four warps.
    assert outer["metrics"]["cycles"] == 1400 + 3 * (SPACE - 1) * 200
    assert outer["metrics"]["executions"] == 4
    assert outer["metrics"]["partial_executions"] == 3
    assert outer["metrics"]["min_cycles"] == outer["metrics"]["max_cycles"] == 1400
    assert outer["metrics"]["cycles"] >= load["metrics"]["cycles"]
    assert "3 of kernel" in printed and "lower bound" in printed


def test_trace_flags_partly_known_slices(tmp_path):
    run(tmp_path, "trace")
    events = json.loads((tmp_path / "a.chrome_trace").read_text())["traceEvents"]
    outer = [e for e in events if e["name"] == "kernel" and e["ph"] == "X"]
    loads = [e for e in events if e["name"] == "load 1 %" and e["ph"] == "X"]
    partial = [e for e in outer if e.get("args", {}).get("partial")]
    assert (len(outer), len(partial), len(loads)) == (4, 3, 2 + 3 * (SPACE - 1))
    for load in loads:  # on the line of the scope around it, inside of it
        (around,) = (e for e in outer if (e["pid"], e["tid"]) == (load["pid"], load["tid"]))
        assert around["ts"] <= load["ts"]
        assert load["ts"] + load["dur"] <= around["ts"] + around["dur"] + 0.002
