"""The kernel that measures what a record costs is one that the pass would make today."""

from __future__ import annotations

import subprocess

import pytest

triton = pytest.importorskip("triton")
import calibrate_kernel as made  # noqa: E402
from intra_support import NVIDIA_TOOLS, TOOL  # noqa: E402

needs_tool = pytest.mark.skipif(not TOOL.exists(), reason="tests/tools/instrument is not built")
AGAIN = "run tests/python/calibrate_kernel.py, then read the difference"


@needs_tool
def test_it_records_as_the_pass_does():
    committed = made.read_header()
    ptx, layout, shared = made.generate()
    assert made.pattern(committed["calibrate_kernel"]) == made.pattern(ptx), AGAIN
    assert committed["calibrate_layout"] == layout, AGAIN
    assert (int(committed["FEW"]), int(committed["MANY"])) == (made.FEW, made.MANY)
    assert f".entry {committed['NAME']}(" in committed["calibrate_kernel"]


@needs_tool
def test_it_ends_as_the_pass_ends_kernels():
    """All of it, which the decoder has to understand; other Tritons number registers otherwise."""
    committed = made.read_header()
    if committed["triton"] != triton.__version__:
        pytest.skip(f"made by Triton {committed['triton']}")
    ptx, _, shared = made.generate()
    assert committed["calibrate_kernel"] == ptx, AGAIN
    assert int(committed["SHARED_BYTES"]) == shared, AGAIN


def test_the_pattern_is_what_a_record_is():
    """Readings without a store, or stores of something else, would be noticed above."""
    pattern = made.pattern(made.read_header()["calibrate_kernel"])
    scopes = made.FEW + made.MANY + 2
    assert sum(line.startswith("mov.u32 %r, %clock") for line in pattern) == 2 * scopes - 1
    assert sum(line.startswith("st.shared.v2.b32 [%r+") for line in pattern) == scopes - 1


# From the first that it is for to the latest that the assembler knows.
@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_it_assembles_without_spills(arch, tmp_path):
    source = tmp_path / "calibrate.ptx"
    source.write_text(made.read_header()["calibrate_kernel"])
    tool = NVIDIA_TOOLS / ("ptxas-blackwell" if arch in ("sm_100", "sm_120") else "ptxas")
    if not tool.exists():
        tool = NVIDIA_TOOLS / "ptxas"
    done = subprocess.run(
        [str(tool), "-v", f"-arch={arch}", str(source), "-o", str(tmp_path / "out.cubin")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "0 bytes spill stores" in done.stderr
