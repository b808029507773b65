"""tools/check_tidy.sh analyzes what .ci/analyzed does not note."""

import os
import shutil
from pathlib import Path

import pytest

from built import ROOT
from support import run_command

# The sources that the analyzer looks at; it finds something in those that contain "bad", and a leak
# of x in those that contain "leak".
CLANG_TIDY = """#!/bin/sh
echo "$*" >arguments
case $* in
*--version*) echo "LLVM version $TIDY_VERSION" && exit ;;
*-clang-analyzer-*) exit ;;
esac
while [ $# != 0 ]; do
    case $1 in
    src/*)
        echo "$1"
        ! grep bad "$1" || exit 1
        ! grep -q leak "$1" || leaks=$1
        ;;
    esac
    shift
done
[ -n "$leaks" ] || exit 0
echo "/build/../$leaks:2:1: error: Potential leak of memory pointed to by 'x' [unix.Malloc]"
exit 1
"""
NINJA = """#!/bin/sh
for name in one two; do
    printf 'src/%s.o: #deps 2 (VALID)\\n    ../src/%s.c\\n    ../src/%s.h\\n\\n' $name $name $name
done
"""


@pytest.fixture
def check(tmp_path, monkeypatch):
    """A function that runs the tool in a repository of two sources."""
    for folder in ("src", "tools", ".ci", "bin"):
        Path(folder).mkdir()
    for name in ("one.c", "one.h", "two.c", "two.h"):
        Path("src", name).write_text(name)
    Path("meson.build").write_text("")
    shutil.copy(ROOT / "tools" / "check_tidy.sh", "tools")
    for name, text in (("clang-tidy", CLANG_TIDY), ("ninja", NINJA)):
        Path("bin", name).write_text(text)
        Path("bin", name).chmod(0o755)
    run_command(["git", "init", "-q"])
    run_command(["git", "add", "src", "tools", "meson.build"])

    def sources(*options: str, status: int = 0, version: str = "14.0") -> list[str]:
        path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
        env = {**os.environ, "PATH": path, "TIDY_VERSION": version}
        done = run_command(["tools/check_tidy.sh", "build", *options], env=env, status=None)
        assert bool(done.returncode) == bool(status), done.stderr
        return sorted(line for line in done.stdout.split() if line.startswith("src/"))

    return sources


def test_what_is_noted_is_left_out(check) -> None:
    both = ["src/one.c", "src/two.c"]
    assert check() == check("--note") == both and check() == []
    Path("src/one.h").write_text("new")
    assert check() == check() == ["src/one.c"]
    Path("src/two.c").write_text("also new")
    assert check("--note") == both and check() == []
    assert check(version="15.0") == both
    Path("meson.build").write_text("flags")
    assert check() == both


def test_what_is_noted_was_looked_at_deeper(check) -> None:
    check()
    assert "max-nodes=75000" in Path("arguments").read_text()
    check("--note")
    assert "max-nodes=225000" in Path("arguments").read_text()


def test_a_finding_is_not_noted(check) -> None:
    check("--note")
    Path("src/one.c").write_text("bad")
    assert check("--note", status=1) == check(status=1) == ["src/one.c"]


def test_a_leak_of_what_is_freed_at_the_end_of_its_block_is_none(check) -> None:
    Path("src/one.c").write_text("leak\nAUTO_FREE char *x = malloc(1);")
    assert check("--note") == ["src/one.c", "src/two.c"] and check() == []
    Path("src/one.c").write_text("leak\nAUTO_FREE char *y = malloc(1);")
    check(status=1)
