"""tools/run_tests.py adds up tests of Meson and of pytest, and runs the few that failed again."""

import sys
from pathlib import Path

import pytest

from built import ROOT
from support import run_command

PROJECT = """
project('small')
nothing = custom_target('nothing', output: 'nothing', command: ['touch', 'nothing'])
alias_target('test-programs', nothing)
foreach name, protocol : {'plain': 'exitcode', 'subtests': 'tap'}
  test(name, find_program('sh'), args: [files('test.sh'), name], protocol: protocol,
       suite: name == 'plain' ? [] : ['one', 'two'])
endforeach
"""
# A test called $1, with the outcome in the file of its name: good, bad, or a text to print before
# it fails, after which it is good.
TEST = """
cd "$(dirname "$0")"
outcome=$(cat "$1")
if [ "$outcome" != good ] && [ "$outcome" != bad ]; then
    echo "$outcome" >&2
    echo good >"$1"
fi
if [ $1 = subtests ]; then
    [ "$outcome" = good ] || printf 'not '
    printf 'ok 1 - first\\n# the reason\\nok 2 - second\\n1..2\\n'
else
    [ "$outcome" = good ]
fi
"""
PYTHON = """
import os, subprocess, pytest

@pytest.mark.parametrize("name", ["python", "other", "with-[-and-::"])
def test_it(name):
    done = subprocess.run(["sh", "test.sh", name], timeout=60, stderr=subprocess.PIPE, text=True)
    if done.stderr == "dies\\n":
        os.abort()
    assert done.returncode == 0, done.stderr
"""
NAMES = ("plain", "subtests", "python", "other", "with-[-and-::")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with two test programs and a file of Python tests."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "tests").mkdir()
    files = {"meson.build": PROJECT, "test.sh": TEST, "tests/test_small.py": PYTHON}
    for name, text in files.items():
        (folder / name).write_text(text)
    run_command([Path(sys.executable).parent / "meson", "setup", folder / "build", folder])
    return folder


def run(project: Path, outcomes: dict[str, str]) -> list[str]:
    """Run the tests; returns the lines about unstable ones and failures, and the sum."""
    for name in NAMES:
        (project / name).write_text(outcomes.get(name, "good"))
    command = [sys.executable, ROOT / "tools" / "run_tests.py", "build", "--pytest", sys.executable]
    done = run_command([*command, "--tests", "tests"], cwd=project, status=None)
    printed = done.stdout.splitlines()
    assert done.returncode == (", 0 failed" not in printed[-1]), done.stdout + done.stderr
    starts = ("run_tests: failed", "run_tests: unstable")
    return printed[next(i for i, line in enumerate(printed) if line.startswith(starts)) :]


def test_failures_that_do_not_repeat_are_unstable(project: Path) -> None:
    name = "with-[-and-::"
    printed = run(project, {"plain": "once", "subtests": "once", name: "the text"})
    assert [line for line in printed if line.startswith("run_tests: ")] == [
        f"run_tests: unstable: test_it[{name}]: passed when run alone",
        "run_tests: unstable: small:plain: passed when run alone",
        "run_tests: unstable: one+two - small:subtests: passed when run alone",
    ]
    assert "# the reason" in printed and any("AssertionError: the text" in line for line in printed)
    assert printed[-1] == "6 passed, 0 failed, 3 unstable"


def test_failures_that_repeat_are_failures(project: Path) -> None:
    printed = run(project, {"subtests": "bad", "python": "bad", "other": "once"})
    assert [line for line in printed if line.startswith("run_tests: ")] == [
        "run_tests: unstable: test_it[other]: passed when run alone",
        "run_tests: failed: tests.test_small: test_it[python]",
        "run_tests: failed: small.one+two - small:subtests: 1 - first",
        "run_tests: failed: one+two - small:subtests printed:",
    ]
    assert printed[-1] == "4 passed, 2 failed, 1 unstable"


def test_many_failures_are_not_run_again(project: Path) -> None:
    printed = run(project, {name: "once" for name in NAMES[:4]})
    assert not any("unstable" in line for line in printed) and printed[-1] == "2 passed, 4 failed"


def test_reports_of_sanitizers_and_deaths_are_failures_though_they_do_not_repeat(project) -> None:
    race, overflow = "WARNING: ThreadSanitizer: data race", "x.c:1:2: runtime error: overflow"
    printed = run(project, {"plain": race, "python": "dies", "other": overflow})
    assert race in printed and printed[-1] == "3 passed, 3 failed"
