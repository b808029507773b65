"""Instrumented kernels are accepted by the real assemblers and cost no memory they had not used.

Every kernel of intra_shapes.py for every architecture it is for, without a GPU: Triton's front end
and its LLVM, our pass, and ptxas or LLVM's assembler for AMD. The pass is run by the program
tests/tools/run_pass of the Meson build.
"""

import re
from dataclasses import replace
from urllib.parse import unquote

import pytest

triton = pytest.importorskip("triton")
from intra_shapes import CASES  # noqa: E402
from intra_oracle import instrument_by_triton  # noqa: E402
from intra_support import (  # noqa: E402
    MARKER,
    NEWER,
    SHARED,
    TOOL,
    Compiled,
    compile_to_llvm,
    instrument,
    instrument_as_sessions,
    instrument_now,
    is_for,
    is_old_pipeliner,
    without_markers,
)

pytestmark = pytest.mark.skipif(not TOOL.exists(), reason="tests/tools/run_pass is not built")

# Registers up to here cost no occupancy: of NVIDIA's 65536 for 2048 threads, of the 512 of AMD's
# SIMD for eight waves.
FREE_REGISTERS = {"sm": 32, "gfx": 64}
# Registers that records may cost beyond; none costs memory. Addresses in global memory take two.
COST = {"shared": 6, "global": 8}
# Events, which the passes of Triton 3.6 to 3.8 do not have.
EVENTS = {"async_events": {"copy"}, "gluon_tma_wgmma": {"tma"}}
NAMES = {case.name: case for case in CASES}


PAIRS = [(case.name, arch) for case in CASES for arch in SHARED if is_for(case, arch)]


def compiled(name: str, arch: str) -> Compiled:
    return compile_to_llvm(NAMES[name], arch)


def test_enough_is_tried():
    assert len(CASES) >= 25
    for arch in SHARED:
        assert sum(arch == a for _, a in PAIRS) >= 20


@pytest.mark.parametrize("name, arch", PAIRS)
def test_an_instrumented_kernel_assembles(name, arch, record_property):
    kernel = compiled(name, arch)
    result, after = instrument_as_sessions(kernel)
    assert result.records > 0
    assert result.ignored == 0 and not MARKER.search(result.text)
    assert result.shared <= SHARED[arch][0]
    assert int(result.layout["cta"][0]) % 128 == 0
    before = kernel.assemble(without_markers(kernel.text), kernel.metadata["shared"])
    record_property("registers", f"{before['registers']} -> {after['registers']}")
    for key, amount in before.items():
        if key not in ("registers", "scalars"):
            assert after[key] <= amount, f"{key}: {before} -> {after}"
    free = FREE_REGISTERS["gfx" if kernel.is_amd else "sm"]
    cost = COST[result.buffer] * (4 if is_old_pipeliner(arch) else 1)  # more, shorter scopes
    maximum = max(free, before["registers"] + cost)
    assert after["registers"] <= maximum, (before, after)


@pytest.mark.parametrize("arch", NEWER)
@pytest.mark.parametrize("name", ["add", "branches", "reductions", "matmul_1", "attention"])
def test_a_newer_architecture_assembles(name, arch):
    try:
        kernel = compiled(name, arch)
    except Exception as error:
        pytest.skip(f"this Triton does not compile for it: {error}")
    result = instrument(kernel)
    assert result.records > 0 and result.ignored == 0
    before = kernel.assemble(without_markers(kernel.text), kernel.metadata["shared"])
    after = kernel.assemble(result.text, result.shared)
    for key in ("local", "spills", "scalar spills"):
        assert after[key] <= before[key]


def test_a_clock_of_20_bits_is_refused():
    kernel = compiled("add", "gfx942")
    with pytest.raises(AssertionError, match="gfx1100 is not supported: its cycle counter"):
        instrument(Compiled(kernel.text, kernel.metadata, kernel.stages, "gfx1100"))


@pytest.mark.parametrize("name, arch", [p for p in PAIRS if p[1] in ("sm_90", "gfx942")])
def test_without_markers_the_text_stays(name, arch):
    kernel = compiled(name, arch)
    plain = Compiled(without_markers(kernel.text), kernel.metadata, kernel.stages, arch)
    result = instrument(plain)
    assert result.text == plain.text
    assert result.records == 0 and result.shared == kernel.metadata["shared"]


@pytest.mark.parametrize("arch", SHARED)
@pytest.mark.parametrize(
    "options",
    [
        {"buffer": "global"},
        {"buffer": "global", "stride": 7, "sampled": 5},
        {"stride": 3, "sampled": 2, "barriers": 1},
        {"unit": 4, "bytes": 65536},
        {"bytes": 32},
    ],
    ids=lambda options: " ".join(f"{k}={v}" for k, v in options.items()),
)
@pytest.mark.parametrize("name", ["attention", "nested_callees", "callees_in_loops"])
def test_every_option_assembles(name, arch, options):
    kernel = compiled(name, arch)
    result = instrument(kernel, **options)
    before = kernel.assemble(without_markers(kernel.text), kernel.metadata["shared"])
    after = kernel.assemble(result.text, result.shared)
    assert after["local"] == before["local"]
    if options.get("buffer") == "global":
        assert result.buffer == "global" and result.shared == kernel.metadata["shared"]
    units = result.layout["units"][0].split()
    assert len(units) == {5: 2, 2: 1}.get(options.get("sampled"), 1 if "unit" in options else 4)


def test_without_space_in_shared_memory_ring_buffers_are_in_global_memory():
    kernel = compiled("matmul_large", "sm_90")
    result = instrument(kernel, limit=kernel.metadata["shared"] + 256)
    assert result.buffer == "global" and result.shared == kernel.metadata["shared"]
    assert kernel.assemble(result.text, result.shared)["local"] == 0


def test_each_warp_of_partitions_has_its_ring_buffer():
    result = instrument(compiled("gluon_partitions", "sm_90"))
    assert len(result.layout["units"][0].split()) == 12  # 4 + 4 + 1, rounded up to groups of 4
    assert [re.split(r"\W+", s)[0] for s in result.layout["scope"]]
    assert set(result.layout["scope"]) == {"whole", "default", "worker", "small"}


def test_names_come_back_decoded():
    assert "load #1" in instrument(compiled("nested_scopes", "sm_90")).layout["scope"]


# ------------------------------------------------------------------ other printing

CALL = r"(?:tail )?call i32 asm"
# Texts that another version of LLVM might print for the same kernel: no scope is lost.
SAME = {
    "attribute of the result": (CALL, "call noundef range(i32 0, 5) i32 asm"),
    "kind of call": (CALL, "notail call i32 asm"),
    "calling convention": (CALL, "tail call fastcc i32 asm"),
    "type of the function": (CALL, "call i32 () asm"),
    "keyword after asm": (r'i32 asm sideeffect "', 'i32 asm sideeffect unwind alignstack "'),
    "attributes of the call": (r'("=[rv]"\(\)) #\d+', r"\1 nounwind memory(none)"),
    "no attributes": (r'("=[rv]"\(\)) #\d+', r"\1"),
    "metadata": (r'("=[rv]"\(\)[^\n]*)', r"\1, !srcloc !0"),
    "comments": (r'("=[rv]"\(\)[^\n]*)', r"\1 ; a comment"),
    "line ends in the assembly": (r'"(// proton[^"]*)"', r'"\\0A\\09\1\\0A"'),
    "linkage": (r"^define (ptx|amdgpu)_kernel", r"define dso_local \1_kernel"),
    "attributes of parameters": (r"captures\(none\) ", "captures(ret: address) new dead(1, 2) "),
    "attributes of the kernel": (r"(_kernel [^\n]*) (#\d+[^\n]*\{)", r'\1 new(none) "a"="{" \2'),
    "blank lines": (r"^(  %)", r"\n\1"),
    "records of debug info": (r"^(  %)", r"    #dbg_new(i32 0, !1)\n\1"),
}
# Texts in which scopes cannot be found: a message gives the reason.
REPORTED = {
    "type": (CALL, "call i64 asm", "cannot parse the marker in line"),
    "no result": (r"%\d+ = " + CALL, "call void asm", "cannot parse the marker in line"),
    "assembly": (r'"// proton', '"nop // proton', "cannot parse the marker in line"),
    "words": (r"(// proton\.\w+) (start|end)", r"\1 new \2", "cannot parse the marker in line"),
    "kernel": (r"(ptx|amdgpu)_kernel", "gpu_kernel", "the module contains no kernel"),
    "parameter": (
        r"(_kernel [^\n]* %\d+)(\) [^\n]*\{)", r"\1, ptr addrspace(1) %new\2",
        "so the one for the profile's buffer is unknown",
    ),
    "instruction": (r"^  (br|ret) ", r"  new \1 ", "cannot parse line"),
}


def reported(kernel: Compiled, text: str) -> tuple[set[str], str]:
    """The scopes that the pass finds in `text`, and its message."""
    other = replace(kernel, text=text)
    try:
        result = instrument_now(other)
    except AssertionError as error:
        return set(), str(error)
    return set(result.layout.get("scope", [])), " ".join(result.layout.get("#reason", []))


@pytest.mark.parametrize("name, arch", [p for p in PAIRS if p[1] in ("sm_90", "gfx942")])
def test_text_printed_in_another_way_keeps_scopes_or_is_reported(name, arch):
    kernel = compiled(name, arch)
    scopes = set(instrument(kernel).layout["scope"])
    for change, (pattern, replacement) in SAME.items():
        text, count = re.subn(pattern, replacement, kernel.text, flags=re.M)
        assert count
        found, message = reported(kernel, text)
        assert found == scopes or "callee" in name and "cannot parse" in message, (change, message)
    for change, (pattern, replacement, reason) in REPORTED.items():
        text, count = re.subn(pattern, replacement, kernel.text, flags=re.M)
        found, message = reported(kernel, text)
        assert count and not found and reason in message, (change, message)


@pytest.mark.parametrize("arch", ["sm_90", "gfx942"])
@pytest.mark.parametrize("name", ["layer_norm", "matmul_3", "nested_callees"])
def test_text_printed_in_another_way_assembles(name, arch):
    kernel = compiled(name, arch)
    usual = instrument(kernel)
    needs = kernel.assemble(usual.text, usual.shared)
    for change in ("attribute of the result", "kind of call", "no attributes", "comments"):
        text = re.sub(*SAME[change], kernel.text, flags=re.M)
        result = instrument(replace(kernel, text=text))
        assert kernel.assemble(result.text, result.shared) == needs, change


# ------------------------------------------------------------------ Triton's own profiler

# More registers than the passes of Triton's profiler need, up to those that cost no occupancy.
MORE_THAN_TRITON = {
    # Theirs puts 8 bytes per thread into local memory, with less work for the address of a record.
    ("grouped_matmul", "sm_90"): 4,
    # Theirs puts 16 bytes per thread into scratch memory.
    ("attention", "gfx942"): 6,
}


@pytest.mark.parametrize("name, arch", [p for p in PAIRS if p[1] in ("sm_90", "gfx942")])
def test_scopes_cost_no_more_than_those_of_tritons_profiler(name, arch):
    """The same scopes are found, and neither registers nor memory are more than with its passes."""
    kernel = compiled(name, arch)
    try:
        names, theirs = instrument_by_triton(kernel)
    except RuntimeError:
        assert "callee" in name  # it refuses noinline functions
        return
    result, ours = instrument_as_sessions(kernel)
    scopes = set(result.layout["scope"])
    assert {unquote(name) for name in names} == scopes - EVENTS.get(name, set())
    for key, amount in theirs.items():
        if key not in ("registers", "scalars"):
            assert ours[key] <= amount, (key, ours, theirs)
    free = FREE_REGISTERS["gfx" if kernel.is_amd else "sm"]
    allowed = theirs["registers"] + MORE_THAN_TRITON.get((name, arch), 0)
    if triton.__version__ < "3.9":  # with another ptxas, and markers that follow operations
        allowed += COST["shared"]
    assert ours["registers"] <= max(free, allowed), (ours, theirs)
