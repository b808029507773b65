#!/usr/bin/env python3
"""Golden tests: what commands and passes print and how they end, compared byte by byte.

A case is a file NAME.case:

    # what it is about
    $ proton-viewer -m time/ms cuda.hatchet
    -- status 0
    -- stdout
    ...
    -- stderr
    ...

The command is given to the shell in tests/data/viewer, with the tested programs first in PATH.
Lines between it and "-- status" are its standard input; of several commands, one per "$" line, each
gets that input. A section that is empty is left out. $TMPDIR is a directory for what a case writes.
Lines "% NAME=VALUE" before the command set variables of the environment, and "% tty COLUMNS" makes
standard output a terminal of that width.

    run.py --bin DIR CASE...             compare
    run.py --bin DIR --refresh CASE...   write what comes out into the cases; then read the diff

A CASE may be a directory. The output is TAP. With --wrapper the named program runs in front of
each tested program (valgrind, for example).
"""

import argparse
import difflib
import fcntl
import os
import pathlib
import pty
import struct
import subprocess
import sys
import tempfile
import termios
from dataclasses import dataclass, field

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "viewer"
TIMEOUT_S = 60


@dataclass
class Case:
    path: pathlib.Path
    head: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    stdin: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    columns: int | None = None
    expected: str = ""


def read_case(path: pathlib.Path) -> Case:
    case = Case(path)
    lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines(keepends=True)
    for number, line in enumerate(lines):
        text = line.rstrip("\n")
        if text.startswith("$ "):
            case.commands.append(text[2:])
        elif case.commands:
            case.stdin, mark, expected = "".join(lines[number:]).partition("-- status ")
            case.head.append(case.stdin)
            case.expected = mark + expected
            return case
        elif text.startswith("% tty "):
            case.columns = int(text.split()[2])
        elif text.startswith("% "):
            name, _, value = text[2:].partition("=")
            case.environment[name] = value
        elif text and not text.startswith("#"):
            raise SystemExit(f"{path}: line {number + 1} is neither '#', '%' nor '$'")
        case.head.append(line)
    if case.commands:
        return case  # a new one, for --refresh
    raise SystemExit(f"{path}: no command")


def read_all(descriptor: int) -> bytes:
    parts = []
    while True:
        try:
            part = os.read(descriptor, 65536)
        except OSError:  # a terminal whose other side is closed
            part = b""
        if not part:
            return b"".join(parts)
        parts.append(part)


def run(case: Case, binaries: str, scratch: str) -> str:
    environment = {
        "TMPDIR": scratch,
        "PATH": binaries + os.pathsep + os.environ["PATH"],
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm-256color",
        "TZ": "UTC",
    }
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "LD_LIBRARY_PATH"):
        if name in os.environ:
            environment[name] = os.environ[name]
    environment.update(case.environment)
    status, stdout, stderr = 0, b"", b""
    for command in case.commands:
        one = run_command(command, case, environment)
        status, stdout, stderr = status or one[0], stdout + one[1], stderr + one[2]
    result = f"-- status {status}\n"
    for name, data in (("stdout", stdout), ("stderr", stderr)):
        if data:
            text = data.decode("utf-8", errors="surrogateescape")
            result += f"-- {name}\n{text}" + ("" if text.endswith("\n") else "\n-- no newline\n")
    return result


def run_command(command: str, case: Case, environment: dict[str, str]) -> tuple[int, bytes, bytes]:
    arguments = dict(cwd=DATA, env=environment, stderr=subprocess.PIPE)
    if case.columns is None:
        done = subprocess.run(
            ["sh", "-c", command], input=case.stdin.encode(errors="surrogateescape"),
            stdout=subprocess.PIPE, timeout=TIMEOUT_S, **arguments,
        )
        return done.returncode, done.stdout, done.stderr
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, case.columns, 0, 0))
    arguments |= dict(stdin=subprocess.DEVNULL, stdout=theirs)
    with subprocess.Popen(["sh", "-c", command], **arguments) as process:
        os.close(theirs)
        stdout = read_all(ours).replace(b"\r\n", b"\n").replace(b"\033", b"\\e")
        stderr = process.stderr.read()
        status = process.wait(timeout=TIMEOUT_S)
    os.close(ours)
    return status, stdout, stderr


def find_cases(arguments: list[str]) -> list[pathlib.Path]:
    paths: list[pathlib.Path] = []
    for argument in arguments:
        path = pathlib.Path(argument)
        paths += sorted(path.glob("*.case")) if path.is_dir() else [path]
    return paths


def make_wrappers(wrapper: str, binaries: str, scratch: str) -> str:
    directory = pathlib.Path(scratch) / "bin"
    directory.mkdir()
    for program in pathlib.Path(binaries).iterdir():
        if program.is_file() and os.access(program, os.X_OK):
            script = directory / program.name
            script.write_text(f'#!/bin/sh\nexec {wrapper} "{program}" "$@"\n')
            script.chmod(0o755)
    return str(directory)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run golden tests.")
    parser.add_argument("--bin", required=True, help="directory of the programs to test")
    parser.add_argument("--refresh", action="store_true", help="rewrite the cases")
    parser.add_argument(
        "--wrapper", default=os.environ.get("MESON_EXE_WRAPPER"),
        help="program to run them under; Meson names the emulator of a cross build",
    )
    parser.add_argument("cases", nargs="+")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="proton-golden-") as scratch:
        return run_all(options, scratch)


def run_all(options: argparse.Namespace, scratch: str) -> int:
    binaries = os.path.abspath(options.bin)
    if options.wrapper:
        binaries = make_wrappers(options.wrapper, binaries, scratch)
    paths = find_cases(options.cases)
    failures = 0
    print(f"1..{len(paths)}")
    for number, path in enumerate(paths, 1):
        case = read_case(path)
        actual = run(case, binaries, scratch)
        if options.refresh:
            path.write_text("".join(case.head) + actual, encoding="utf-8", errors="surrogateescape")
        elif actual != case.expected:
            failures += 1
            print(f"not ok {number} - {path.stem}")
            for line in difflib.unified_diff(
                case.expected.splitlines(), actual.splitlines(), "expected", "actual", lineterm=""
            ):
                text = line.encode("utf-8", errors="backslashreplace").decode()
                print(f"# {text}")
            continue
        print(f"ok {number} - {path.stem}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
