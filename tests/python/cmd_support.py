"""Support for tests of the `proton` command: finding and running it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from support import run_command


def executable(name: str) -> str:
    """Path of a command: in $PROTON_TEST_BIN, beside this Python, where pip puts it, or on PATH."""
    places = [os.environ.get("PROTON_TEST_BIN"), str(Path(sys.executable).parent), None]
    for place in places if places[0] else places[1:]:
        path = shutil.which(name, path=place)
        if path:
            return path
    raise AssertionError(f"{name} is not installed next to {sys.executable} and not on PATH")


def environment(**changes: str | None) -> dict[str, str]:
    """This process's environment, with this Python as the one that runs targets; None removes."""
    env = dict(os.environ)
    env["PROTON_PYTHON"] = sys.executable
    env.pop("PROTON_QUIET", None)  # conftest.py sets it; here we want to see what users see
    for name, value in changes.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return env


def run(
    command: list[str], cwd: Path, *, env: dict[str, str] | None = None, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `command` in `cwd`; text of both streams and the status, whatever it is."""
    environ = environment() if env is None else env
    return run_command(command, cwd=cwd, env=environ, stdin=stdin, status=None)


def proton(*arguments: str, cwd: Path, **keywords) -> subprocess.CompletedProcess[str]:
    """Run `proton` with these arguments."""
    return run([executable("proton"), *arguments], cwd, **keywords)


def own_lines(stderr: str) -> list[str]:
    """The lines that proton wrote, without their prefix, and without the note on the backend."""
    mark = "proton: "
    lines = [line[len(mark) :] for line in stderr.splitlines() if line.startswith(mark)]
    return [line for line in lines if not line.endswith("(backend 'host')")]


def without_own_lines(stderr: str) -> str:
    """The output of the target."""
    lines = stderr.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("proton: "))


def temporary_name(base: str) -> str:
    """A name that a killed writer of `base` leaves (src/base/replace.c)."""
    name = f".{base}.01234567"
    check = 0xCBF29CE484222325
    for byte in name.encode():
        check = (check ^ byte) * 0x100000001B3 % 2**64
    return f"{name}{check % 2**32:08x}.tmp"
