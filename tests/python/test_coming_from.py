"""docs/guide/coming-from.md: its program and its commands, run unchanged."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from pathlib import Path

import pytest

from cmd_support import executable
from fake_driver import CC, fake_environment, launcher

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "coming-from.md"

# Left to the reader of the page: kernels, each with its time in microseconds.
MODEL = """
import ctypes
import os

gpu = ctypes.CDLL(os.environ["TEST_LAUNCHER"])
SOFTMAX = 45


def forward():
    for name, time in [(b"matmul", 120), (b"softmax", SOFTMAX), (b"matmul", 110)]:
        gpu.launch(name, time * 1000)


def backward():
    for name, time in [(b"softmax_backward", 60), (b"matmul", 230), (b"matmul", 240)]:
        gpu.launch(name, time * 1000)


def update():
    gpu.launch(b"adam", 30 * 1000)
"""

pytestmark = [
    pytest.mark.skipif(CC is None, reason="no C compiler"),
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton"),
]


def blocks(language: str) -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for name, block in fences if name == language]


def steps() -> list[tuple[str, str]]:
    """Commands with their outputs, in the order of the page."""
    found = []
    for block in blocks(""):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = step.partition("\n")
            found.append((command, output.rstrip("\n")))
    return found


def without_what_varies(output: str) -> str:
    """Without the line that tells what was run, and how long recording took."""
    lines = [line for line in output.rstrip("\n").split("\n") if " · CUDA 0 " not in line]
    return re.sub(r"contexts, [\d.]+ s;", "contexts, T s;", "\n".join(lines))


def test_every_command_prints_the_output_of_the_page(tmp_path: Path) -> None:
    (program,) = blocks("python")
    (tmp_path / "train.py").write_text(program)
    path = os.pathsep.join([str(Path(executable("proton")).parent), os.environ["PATH"]])
    env = fake_environment(TEST_LAUNCHER=launcher(), PATH=path)
    commands = steps()
    assert len(commands) == 9
    for command, output in commands:
        is_faster = "-n after" in command  # the page says that softmax was changed
        model = MODEL.replace("= 45", "= 20") if is_faster else MODEL
        (tmp_path / "model.py").write_text(model)
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env={**env, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        assert without_what_varies(done.stdout) == without_what_varies(output), command
        assert done.returncode == 0, command
    assert (tmp_path / "timeline.chrome_trace").stat().st_size > 0
