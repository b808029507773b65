"""The committed calibration kernel has the records that the pass makes now."""


import pytest
from support import run_command

triton = pytest.importorskip("triton")
import calibrate_kernel as made  # noqa: E402
from intra_support import NVIDIA_TOOLS, TOOL  # noqa: E402

needs_tool = pytest.mark.skipif(not TOOL.exists(), reason="tests/tools/run_pass is not built")
AGAIN = "run tests/python/calibrate_kernel.py, then read the difference"


@needs_tool
def test_kernel_records_as_the_pass_does():
    kernel, committed_layout, _, _ = made.read_kernel()
    ptx, layout, _ = made.generate()
    assert made.pattern(kernel) == made.pattern(ptx), AGAIN
    assert committed_layout == layout, AGAIN
    header = made.PTX.with_suffix(".h").read_text()
    assert f"CALIBRATE_FEW {made.FEW}u" in header and f"CALIBRATE_MANY {made.MANY}u" in header
    assert f'CALIBRATE_NAME "{made.NAME}"' in header and f".entry {made.NAME}(" in kernel


@needs_tool
def test_kernel_ends_as_the_pass_ends_kernels():
    """The whole text; other versions of Triton number registers differently."""
    kernel, _, committed_shared, version = made.read_kernel()
    if version != triton.__version__:
        pytest.skip(f"made by Triton {version}")
    ptx, _, shared = made.generate()
    assert kernel == ptx, AGAIN
    assert committed_shared == shared, AGAIN


def test_pattern_has_every_record():
    """Clock reads without a store, or other stores, would be noticed above."""
    pattern = made.pattern(made.read_kernel()[0])
    scopes = made.FEW + made.MANY + 2
    assert sum(line.startswith("mov.u32 %r, %clock") for line in pattern) == 2 * scopes - 1
    assert sum(line.startswith("st.shared.v2.b32 [%r+") for line in pattern) == scopes - 1


# From the first supported architecture to the latest that the assembler knows.
@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_it_assembles_without_spills(arch, tmp_path):
    source = tmp_path / "calibrate.ptx"
    source.write_text(made.read_kernel()[0])
    tool = NVIDIA_TOOLS / ("ptxas-blackwell" if arch in ("sm_100", "sm_120") else "ptxas")
    if not tool.exists():
        tool = NVIDIA_TOOLS / "ptxas"
    done = run_command(
        [str(tool), "-v", f"-arch={arch}", str(source), "-o", str(tmp_path / "out.cubin")]
    )
    assert "0 bytes spill stores" in done.stderr
