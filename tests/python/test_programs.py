"""`python -m triton_proton.proton` and `python -m triton_proton.viewer`."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support import run_command
from triton_proton import _programs


def fake_program(directory: Path, name: str) -> Path:
    path = directory / name
    path.write_text('#!/bin/sh\necho "$0" "$PROTON_PYTHON" "$@"\nexit 7\n')
    path.chmod(0o755)
    return path


def run(module: str, *arguments: str, python: str = sys.executable, **env: str):
    return run_command([python, "-m", module, *arguments], env={**os.environ, **env}, status=None)


@pytest.fixture
def separate_environment(tmp_path):
    """A Python beside which we can put programs, that sees the installed package."""
    directory = tmp_path / "env"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", directory], check=True, timeout=300
    )
    package = Path(_programs.__file__).parent.parent
    (site,) = (directory / "lib").glob("python3*/site-packages")
    # A copy: the programs of the package that is tested are not to be found.
    shutil.copytree(
        package / "triton_proton", site / "triton_proton", ignore=shutil.ignore_patterns("bin")
    )
    return directory / "bin"


@pytest.fixture
def tritons(separate_environment) -> Path:
    """The scripts that Triton's wheel installs, where this package's programs were before."""
    for name, module in (("proton", "proton"), ("proton-viewer", "viewer")):
        script = separate_environment / name
        script.write_text(f"#!/bin/sh\nimport sys\nfrom triton.profiler.{module} import main\n")
        script.chmod(0o755)
    return separate_environment


def package_of(binaries: Path) -> Path:
    (package,) = (binaries.parent / "lib").glob("python3*/site-packages/triton_proton")
    return package


MODULES = [
    ("triton_proton", "proton"),
    ("triton_proton.proton", "proton"),
    ("triton_proton.viewer", "proton-viewer"),
]


@pytest.mark.parametrize("module, name", MODULES)
def test_program_in_the_package_comes_first(tritons, module, name):
    (package_of(tritons) / "bin").mkdir()
    program = fake_program(package_of(tritons) / "bin", name)
    result = run(module, "-x", python=str(tritons / "python"), PYTHONPATH="")
    assert result.stdout.split()[0] == str(program)
    (tritons / name).unlink()  # as the uninstallation of Triton does
    assert run(module, python=str(tritons / "python"), PYTHONPATH="").returncode == 7


@pytest.mark.parametrize("module, name", MODULES)
def test_the_program_beside_this_python_takes_over(separate_environment, module, name):
    program = fake_program(separate_environment, name)
    python = str(separate_environment / "python")
    result = run(module, "-x", "a b", python=python, PYTHONPATH="")
    assert result.stdout.split("\n")[0] == f"{program} {python} -x a b"
    assert result.returncode == 7
    program.write_bytes(b"\x7fELFnot a program")
    result = run(module, python=python, PYTHONPATH="")
    assert result.returncode == 2
    assert result.stderr.startswith("proton: cannot run ")


def test_a_program_that_is_not_installed_is_reported(separate_environment, tmp_path):
    python = str(separate_environment / "python")
    result = run("triton_proton.viewer", python=python, PYTHONPATH="", PATH=str(tmp_path))
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr == (f"proton: 'proton-viewer' is not installed next to {python}\n")


def test_on_path_it_is_found_too(separate_environment, tmp_path):
    program = fake_program(tmp_path, "proton")
    python = str(separate_environment / "python")
    result = run("triton_proton.proton", python=python, PYTHONPATH="", PATH=f"{tmp_path}:/bin")
    assert result.stdout.startswith(str(program))


def test_the_script_that_triton_installs_is_not_protons(separate_environment, tmp_path):
    script = separate_environment / "proton"
    script.write_text("#!/usr/bin/python3\nimport sys\nfrom triton.profiler.proton import main\n")
    script.chmod(0o755)
    program = fake_program(tmp_path, "proton")
    python = str(separate_environment / "python")
    result = run("triton_proton.proton", python=python, PYTHONPATH="", PATH=f"{tmp_path}:/bin")
    assert result.stdout.startswith(str(program))


def native(name: str) -> str:
    path = _programs.find_program(name)
    assert path is not None
    return path


def copied(name: str, directory: Path) -> str:
    directory.mkdir(exist_ok=True)
    return shutil.copy(native(name), directory / name)


def test_which_program_runs_is_printed(tritons, tmp_path):
    path = f"{tritons}:{os.environ['PATH']}"
    result = run("triton_proton", "--which", PATH=path, PROTON_PYTHON=str(tritons / "python"))
    lines = result.stdout.splitlines()
    assert result.returncode == 0, result.stderr
    assert lines[0].startswith("this program: ") and lines[2].startswith("package: ")
    assert f"proton: {tritons / 'proton'} (Triton's own profiler)" in lines
    assert f"proton-viewer: {tritons / 'proton-viewer'} (Triton's own profiler)" in lines
    assert result.stderr.count("\n") == 1 and f"{tritons / 'proton'} is Triton's" in result.stderr


def test_the_guide_shows_the_printed_output(tritons):
    page = Path(__file__).resolve().parents[2] / "docs" / "guide" / "which-proton.md"
    shown = page.read_text().partition("$ triton-proton --which\n")[2].partition("```")[0]
    (package_of(tritons) / "bin").mkdir()
    shutil.copy(native("proton"), package_of(tritons) / "bin" / "proton")
    shutil.copy(native("proton"), tritons / "triton-proton")
    environment = {**os.environ, "PATH": f"{tritons}:/usr/bin:/bin"}
    environment.pop("PROTON_PYTHON", None)
    done = run_command(["triton-proton", "--which"], env=environment)
    printed = (done.stdout + done.stderr).replace(str(tritons.parent), "/opt/env")
    printed = re.sub(r"python3\.\d+", "python3.11", printed)
    assert re.sub(r"\(\d+\.\d+\.\d+\)", "(0.1.0)", printed) == shown


def test_version_notes_tritons_program(tritons, tmp_path):
    ours = copied("proton", tmp_path / "ours")
    environment = {**os.environ, "PATH": f"{tmp_path / 'ours'}:/usr/bin:/bin"}
    environment.pop("PROTON_PYTHON", None)

    def version():
        return run_command([ours, "--version"], env=environment)

    assert version().stderr == ""
    environment["PATH"] = f"{tritons}:/usr/bin:/bin"
    plain = version()
    assert plain.stdout.startswith("proton ") and plain.stdout.count("\n") == 1
    assert plain.stderr.count("\n") == 1 and "triton-proton" in plain.stderr
    environment["PATH"] = "/usr/bin:/bin"
    environment["PROTON_PYTHON"] = str(tritons / "python")
    assert version().stderr == plain.stderr


def test_summary_names_protons_viewer(tritons, tmp_path):
    (tmp_path / "s.py").write_text("import triton_proton\nwith triton_proton.scope('a'): pass\n")
    for path, viewer in ((f"{tritons}:/usr/bin:/bin", "triton-proton-viewer"), ("/bin", "proton")):
        done = run_command(
            [native("proton"), "-b", "host", "s.py"], cwd=tmp_path,
            env={**os.environ, "PATH": path, "PROTON_PYTHON": sys.executable}, status=None,
        )
        assert f"view it with: {viewer}" in done.stderr
