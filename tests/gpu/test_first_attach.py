"""First sessions of processes in which threads call the driver all the time. Skipped without a GPU.

    python -m pytest tests/gpu/test_first_attach.py

docs/design/other-tools.md ("Not solved") has what was measured: about 1 of 150 processes crashed
with threads of Python, and 2 of 80 with bare CUPTI and threads of C. A failure prints the native
stacks: in libcupti.so.13 of 13.0, +0x7d0e1 reads a table that does not exist yet, and +0x87d88 is a
launch in a context that CUPTI has half added.
"""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import crash_stack
import gpus
import pytest
from test_leaving import storm_library  # noqa: F401

gpus.need(gpus.NVIDIA, "CUPTI")

PROCESSES = 80
AT_A_TIME = 4
# Of storm_sessions.py, without PC sampling: one process at a time samples a GPU.
OPTIONS = "0,2,3,6"


@pytest.mark.parametrize("command", [[], ["proton", "-b", "cupti", "-o", "none", "--wait"]])
def test_threads_survive_the_first_session(tmp_path: Path, storm_library, command):  # noqa: F811
    environment = crash_stack.environment(tmp_path)
    storm = str(Path(__file__).parent / "storm_sessions.py")
    python = [sys.executable]
    if command:  # primed as the driver is initialized
        python = [str(Path(sys.executable).parent / command[0]), *command[1:]]

    def run(seed: int) -> str:
        directory = tmp_path / str(seed)
        directory.mkdir()
        done = subprocess.run(
            [*python, storm, storm_library, "python", "1", str(seed), "--options", OPTIONS],
            cwd=directory, env=environment, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        return "" if done.returncode == 0 else f"seed {seed}: {done.returncode}\n{done.stderr}"

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        failed = [text for text in pool.map(run, range(1, PROCESSES + 1)) if text]
    assert not failed, f"{len(failed)} of {PROCESSES}\n" + "\n".join(failed)[:20000]
