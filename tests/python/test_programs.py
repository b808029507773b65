"""`python -m triton_proton.proton` and `python -m triton_proton.viewer`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from triton_proton import _programs


def fake_program(directory: Path, name: str) -> Path:
    path = directory / name
    path.write_text('#!/bin/sh\necho "$0" "$PROTON_PYTHON" "$@"\nexit 7\n')
    path.chmod(0o755)
    return path


def run(module: str, *arguments: str, python: str = sys.executable, **env: str):
    return subprocess.run(
        [python, "-m", module, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
    )


@pytest.fixture
def environment_of_its_own(tmp_path):
    """A Python beside which we can put programs, that sees the installed package."""
    directory = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
    package = Path(_programs.__file__).parent.parent
    (site,) = (directory / "lib").glob("python3*/site-packages")
    # A copy: the programs beside the package that is tested are not to be found.
    shutil.copytree(package / "triton_proton", site / "triton_proton")
    return directory / "bin"


@pytest.mark.parametrize(
    "module, name", [("triton_proton.proton", "proton"), ("triton_proton.viewer", "proton-viewer")]
)
def test_the_program_beside_this_python_takes_over(environment_of_its_own, module, name):
    program = fake_program(environment_of_its_own, name)
    python = str(environment_of_its_own / "python")
    result = run(module, "-x", "a b", python=python, PYTHONPATH="")
    assert result.stdout.split("\n")[0] == f"{program} {python} -x a b"
    assert result.returncode == 7
    program.write_bytes(b"\x7fELFnot a program")
    result = run(module, python=python, PYTHONPATH="")
    assert result.returncode == 2
    assert result.stderr.startswith("proton: cannot run ")


def test_a_program_that_is_not_installed_is_one_sentence(environment_of_its_own, tmp_path):
    python = str(environment_of_its_own / "python")
    result = run("triton_proton.viewer", python=python, PYTHONPATH="", PATH=str(tmp_path))
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr == (
        f"proton: the program 'proton-viewer' is not installed beside {python}\n"
    )


def test_on_path_it_is_found_too(environment_of_its_own, tmp_path):
    program = fake_program(tmp_path, "proton")
    python = str(environment_of_its_own / "python")
    result = run("triton_proton.proton", python=python, PYTHONPATH="", PATH=f"{tmp_path}:/bin")
    assert result.stdout.startswith(str(program))


def test_the_script_that_triton_installs_is_not_ours(environment_of_its_own, tmp_path):
    script = environment_of_its_own / "proton"
    script.write_text("#!/usr/bin/python3\nimport sys\nfrom triton.profiler.proton import main\n")
    script.chmod(0o755)
    program = fake_program(tmp_path, "proton")
    python = str(environment_of_its_own / "python")
    result = run("triton_proton.proton", python=python, PYTHONPATH="", PATH=f"{tmp_path}:/bin")
    assert result.stdout.startswith(str(program))
