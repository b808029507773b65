"""Instrumented kernels are accepted by the real assemblers and cost no memory they had not used.

Every kernel of intra_shapes.py for every architecture it is for, without a GPU: Triton's front end
and its LLVM, our pass, and ptxas or LLVM's assembler for AMD. The pass is run by the program
tests/tools/instrument of the Meson build.
"""

from __future__ import annotations

import functools
import re

import pytest

pytest.importorskip("triton")
from intra_shapes import CASES  # noqa: E402
from intra_support import (  # noqa: E402
    MARKER,
    NEWER,
    SHARED,
    TOOL,
    Compiled,
    compile_to_llvm,
    instrument,
    is_for,
    is_old_pipeliner,
    without_markers,
)

pytestmark = pytest.mark.skipif(not TOOL.exists(), reason="tests/tools/instrument is not built")

# Registers up to here cost no occupancy: of NVIDIA's 65536 for 2048 threads, of the 512 of AMD's
# SIMD for eight waves.
FREE_REGISTERS = {"sm": 32, "gfx": 64}
# Registers that records may cost beyond; none costs memory. Addresses in global memory take two.
COST = {"shared": 6, "global": 8}
NAMES = {case.name: case for case in CASES}


PAIRS = [(case.name, arch) for case in CASES for arch in SHARED if is_for(case, arch)]


@functools.lru_cache(maxsize=None)
def compiled(name: str, arch: str) -> Compiled:
    return compile_to_llvm(NAMES[name], arch)


def test_enough_is_tried():
    assert len(CASES) >= 25
    for arch in SHARED:
        assert sum(arch == a for _, a in PAIRS) >= 20


@pytest.mark.parametrize("name, arch", PAIRS)
def test_an_instrumented_kernel_assembles(name, arch, record_property):
    kernel = compiled(name, arch)
    result = instrument(kernel)
    assert result.records > 0
    assert result.ignored == 0 and not MARKER.search(result.text)
    assert result.shared <= SHARED[arch][0]
    assert int(result.layout["cta"][0]) % 128 == 0
    before = kernel.assemble(without_markers(kernel.text), kernel.metadata["shared"])
    after = kernel.assemble_records(result.text, result.shared)
    record_property("registers", f"{before['registers']} -> {after['registers']}")
    for key, amount in before.items():
        if key not in ("registers", "scalars"):
            assert after[key] <= amount, f"{key}: {before} -> {after}"
    free = FREE_REGISTERS["gfx" if kernel.is_amd else "sm"]
    cost = COST[result.buffer] * (4 if is_old_pipeliner(arch) else 1)  # more, shorter scopes
    if name == "unrolled_sum":
        cost += 40  # vectorized additions after all markers: docs/design/intra-kernel-pass.md
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
