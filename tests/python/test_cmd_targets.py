"""The first word after the options of `proton`: what runs, and what to type for the rest."""

import os
import sys
from pathlib import Path

import pytest

from cmd_support import environment, executable, own_lines, proton, run

SCRIPT = """
import sys
import triton.profiler as proton
with proton.scope("in Python"):
    print(proton.__name__, sys.argv[1:])
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a script, a module, shell scripts and a command on PATH."""
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "plain.sh").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "bare.sh").write_text("echo ran\n")
    (tmp_path / "tool").write_text("#!/usr/bin/env bash\necho ran\n")
    (tmp_path / "tool").chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/launcher").write_text(f"#!{sys.executable}\n{SCRIPT}")
    (tmp_path / "bin/launcher").chmod(0o755)
    for name in ("python", "python3.99"):
        (tmp_path / "bin" / name).symlink_to(sys.executable)
    return tmp_path


def on_path(place: Path) -> dict[str, str]:
    return environment(PATH=f"{Path(sys.executable).parent}:{place / 'bin'}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    "words",
    [
        ["python", "script.py", "a b"],
        ["python", "-u", "-X", "dev", "script.py", "a b"],
        ["python", "-Xdev", "-Wignore", "-m", "script", "a b"],
        ["python", "-c", SCRIPT, "a b"],
        [sys.executable, "-W", "ignore", "script.py", "a b"],
    ],
)
def test_interpreter_with_its_arguments_runs(words: list[str], place: Path) -> None:
    result = proton("-b", "host", "-n", "p", *words, cwd=place, env=on_path(place))
    assert result.returncode == 0, result.stderr
    assert result.stdout == "triton_proton ['a b']\n"
    (line,) = own_lines(result.stderr)
    assert line.endswith("view it with: proton-viewer p.hatchet")


@pytest.mark.parametrize("option", ["-I", "-E", "-S", "-uE"])
def test_interpreter_that_ignores_the_environment_is_refused(option: str, place: Path) -> None:
    result = proton("python", option, "script.py", cwd=place, env=on_path(place))
    assert result.returncode == 2 and result.stdout == ""
    assert "ignores PYTHONPATH" in own_lines(result.stderr)[0]


@pytest.mark.parametrize(
    "words, command",
    [
        (["launcher", "-n", "2", "x y.py"], "proton -- launcher -n 2 'x y.py'"),
        (["-q", "-n", "p", "launcher"], "proton -q -n p -- launcher"),
        (["plain.sh", "it's"], r"proton -- /bin/sh plain.sh 'it'\''s'"),
        (["bare.sh"], "proton -- sh bare.sh"),
        (["tool", "1"], "proton -- ./tool 1"),
        (["./tool"], "proton -- ./tool"),
        (["-m", "json.tool"], "proton --module json.tool"),
        (["-m", "json.tool", "script.py"], "proton --module json.tool script.py"),
        (["-m", "pytest", "no_such_dir"], "proton --module pytest no_such_dir"),
    ],
)
def test_the_error_names_the_command_to_use(words: list[str], command: str, place: Path) -> None:
    result = proton(*words, cwd=place, env=on_path(place))
    assert result.returncode == 2 and result.stdout == ""
    (line,) = own_lines(result.stderr)
    assert line.endswith(f" {command}"), line
    # It is what works, unless it was a module that cannot do anything here.
    if " -- " in command:
        words = ["bash", "-c", command.replace("proton", executable("proton"), 1)]
        assert run(words, place, env=on_path(place)).returncode == 0


@pytest.mark.parametrize(
    "text", ["#!/usr/bin/env python3\n", f"#!{sys.executable} -u\n", "#!/bin/sh\n'''exec' x\n'''\n"]
)
def test_script_of_python_without_a_suffix_runs(text: str, place: Path) -> None:
    (place / "run_me").write_text(text + SCRIPT)
    result = proton("-b", "host", "run_me", cwd=place)
    assert result.stdout == "triton_proton []\n"
