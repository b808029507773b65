"""Which Python `proton` runs a script with, where there are several.

The interpreters are scripts that answer the command's question as told, and print their own path
when they are to run the script.
"""

import shutil
import subprocess
from pathlib import Path

import pytest
from cmd_support import environment, executable, own_lines

import triton_proton
from support import run_command

# By increasing detail.
VERDICTS = ["broken", "old", "missing", "deaf", "module"]
SENTENCES = {
    "broken": "{} is not a working Python interpreter; "
    "set PROTON_PYTHON to a Python with triton_proton",
    "old": "{} is too old: triton_proton needs Python 3.10 or later",
    "missing": "triton_proton is not installed for {}; install it with pip, "
    "or set PROTON_PYTHON to a Python that has it",
    "deaf": "{} ignores PYTHONPATH (option -I, -E or -S), "
    "which proton needs to start the recorder",
    "module": "{} has no module named 'some.module'",
}
# In the order in which they are asked.
PLACES = ["own/python3", "own/python", "first/python3", "second/python"]


def interpreter(path: Path, verdict: str) -> None:
    path.parent.mkdir(exist_ok=True)
    answer = f"""printf '{verdict}\\0%s\\0{Path(triton_proton.__file__).parent}\\0' "$0" >&"$3" """
    if verdict == "broken":
        answer = "exit 0"
    path.write_text(f'#!/bin/sh\nif [ "$1" = -c ]; then\n{answer}\nexit\nfi\necho "$0"\n')
    path.chmod(0o755)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the command, alone in its directory."""
    for name in ("own", "first", "second"):
        (tmp_path / name).mkdir()
    shutil.copy(executable("proton"), tmp_path / "own" / "proton")
    return tmp_path


def run(folder: Path, named: str | None = None) -> subprocess.CompletedProcess[str]:
    path = f"{folder}/first:{folder}/second"
    command = [str(folder / "own" / "proton"), "--module", "some.module"]
    env = environment(PROTON_PYTHON=named, PATH=path)
    return run_command(command, cwd=folder, env=env, status=None)


def chosen(folder: Path, named: str | None = None) -> str:
    result = run(folder, named)
    assert result.returncode == 0, result.stderr
    assert own_lines(result.stderr) == []
    return str(Path(result.stdout.strip()).relative_to(folder))


def refusal(folder: Path, named: str | None = None) -> str:
    result = run(folder, named)
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = own_lines(result.stderr)
    return line


@pytest.mark.parametrize("good", range(len(PLACES)))
def test_the_first_that_has_the_package_is_taken(good, folder):
    for i, place in enumerate(PLACES):
        interpreter(folder / place, "good" if i >= good else VERDICTS[i])
    assert chosen(folder) == PLACES[good]


def test_missing_interpreters_are_skipped(folder):
    (folder / "own" / "python3").mkdir()
    (folder / "first" / "python3").write_text("not executable\n")
    interpreter(folder / "second" / "python3", "missing")
    interpreter(folder / "second" / "python", "good")
    assert chosen(folder) == "second/python"


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("place", PLACES)
def test_the_refusal_with_the_most_detail_is_given_with_its_python(verdict, place, folder):
    worst = VERDICTS.index(verdict)
    for i, other in enumerate(PLACES):
        if other == place:
            interpreter(folder / other, verdict)
        elif worst:
            interpreter(folder / other, VERDICTS[i % worst])
    assert refusal(folder) == SENTENCES[verdict].format(folder / place)


def test_of_equal_refusals_the_first_is_given(folder):
    for place in PLACES:
        interpreter(folder / place, "old")
    assert refusal(folder).startswith(f"{folder / PLACES[0]} is too old")


def test_without_any_python_the_variable_is_named(folder):
    assert refusal(folder) == (
        "no python3 on PATH; set PROTON_PYTHON to the Python that has triton_proton"
    )


def test_the_named_one_is_the_only_one(folder):
    for place in PLACES:
        interpreter(folder / place, "good")
    interpreter(folder / "second" / "other", "good")
    assert chosen(folder, str(folder / "second" / "other")) == "second/other"
    assert chosen(folder, "other") == "second/other"
    assert chosen(folder, "") == PLACES[0]
    interpreter(folder / "second" / "other", "deaf")
    assert refusal(folder, "other") == SENTENCES["deaf"].format(f"{folder}/second/other")
    assert refusal(folder, "none") == ("cannot run PROTON_PYTHON='none': program not found")
