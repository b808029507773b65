"""NVIDIA's assembler and disassemblers, of Triton's wheel or a toolkit, and our own reader."""

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest
from built import TOOL

CODE_OBJECT_TOOL = TOOL.with_name("code_object")


def find(name: str) -> str | None:
    triton = importlib.util.find_spec("triton")
    if triton and triton.origin:
        program = Path(triton.origin).parent / "backends/nvidia/bin" / name
        if program.exists():
            return str(program)
    return shutil.which(name)


def run(name: str, *arguments: object) -> str:
    """The output of a tool; the test is skipped without it."""
    program = find(name)
    if program is None:
        pytest.skip(f"no {name}")
    command = [program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, check=True, timeout=300)
    return done.stdout.decode()


def assemble(ptx: str, arch: str, path: Path) -> None:
    """Machine code of `ptx` with line information."""
    source = path.with_suffix(".ptx")
    source.write_text(ptx)
    run("ptxas", "-lineinfo", f"-arch={arch}", source, "-o", path)


def code_object_tool(*paths: Path) -> list[list[str]]:
    """The columns of each line of tests/tools/code_object."""
    if not CODE_OBJECT_TOOL.exists():
        pytest.skip("ninja -C build test-programs")
    done = subprocess.run([CODE_OBJECT_TOOL, *paths], capture_output=True, check=True, timeout=300)
    return [line.split("\t") for line in done.stdout.decode().splitlines()]
