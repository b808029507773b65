"""The PTX of src/backend/cuda/append_kernel.h against NVIDIA's assembler, where there is one."""

import re
from pathlib import Path

import pytest
from nvidia_tools import find
from support import run_command

ROOT = Path(__file__).resolve().parents[2]


def constant(source: str, name: str) -> int:
    return int(re.search(rf"#define {name} (\d+)u", source).group(1))


def test_the_kernel_and_the_host_agree_about_the_ring_buffer():
    cuda = ROOT / "src" / "backend" / "cuda"
    kernel = (cuda / "append_kernel.h").read_text(encoding="utf-8")
    host = (cuda / "append.c").read_text(encoding="utf-8")
    slots, slot_bytes = constant(host, "SLOT_COUNT"), constant(host, "SLOT_BYTES")
    assert set(re.findall(r"setp\.gt\.u64 %full, %t, (\d+)", kernel)) == {str(slots)}
    masks = {m for m in re.findall(r"and\.b32 %\w+, %\w+, (\d+)", kernel) if m != "3"}
    assert masks == {str(slots * slot_bytes - 1)}
    assert f"add.u64 %ring, %ring, {constant(host, 'HEADER_BYTES')};" in kernel
    assert f".maxntid {constant(host, 'THREADS')}, 1, 1" in kernel


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
def test_the_kernel_assembles(architecture, tmp_path):
    assembler = find("ptxas")
    if not assembler:
        pytest.skip("needs ptxas, which comes with triton's wheel or a CUDA toolkit")
    header = (ROOT / "src" / "backend" / "cuda" / "append_kernel.h").read_text(encoding="utf-8")
    lines = re.findall(r'^\t"(.*)\\n";?$', header, re.MULTILINE)
    source = tmp_path / "append.ptx"
    source.write_text("\n".join(line.replace("\\t", "\t") for line in lines) + "\n")
    result = run_command(
        [assembler, f"-arch={architecture}", str(source), "-o", str(tmp_path / "out.cubin")]
    )
