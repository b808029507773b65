"""Measure inside kernels whose source stays as it is, by editing what Triton compiles.

    python -m triton_proton.intra dump DIR COMMAND...     keep the TTGIR of the kernels it compiles
    python -m triton_proton.intra insert DIR [OPTIONS]    put records into those files
    python -m triton_proton.intra run DIR COMMAND...      run with the files instead

A command that begins with a Python file is run by this Python. In the last step it has to
instrument kernels: by `proton.start(backend="instrumentation")` in its code, or because it is
`proton -b instrumentation ...`. Files can be edited by hand between the steps; their syntax
is in docs/guide/intra-kernel.md.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn, Optional

from . import _libproton
from ._message import message, printable
from .mode import automatic_scopes

# Further files of Triton's dump, apart from TTGIR.
_OTHER_STAGES = {
    ".amdgcn", ".cubin", ".glir", ".hsaco", ".json", ".llir", ".ptx", ".sass", ".source",
    ".spv", ".ttir",
}  # fmt: skip


class _Refused(Exception):
    """A request that cannot be fulfilled; the text is the error message."""


def _command(words: list[str]) -> list[str]:
    if words and words[0] == "--":
        words = words[1:]
    if not words:
        raise _Refused("no command is given")
    return [sys.executable, *words] if words[0].endswith(".py") else words


def _environment(**variables: str) -> dict[str, str]:
    return dict(os.environ, TRITON_ALWAYS_COMPILE="1", **variables)


def _files(directory: str) -> list[Path]:
    files = sorted(Path(directory).rglob("*.ttgir"))
    if not files:
        raise _Refused(f"no .ttgir files in {directory}; run the dump step first")
    return files


# ---------------------------------------------------------------------- dump and run


def dump(directory: str, words: list[str]) -> int:
    """Run a command and keep the TTGIR of each kernel in `directory`; returns the command's exit
    status.
    """
    environment = _environment(TRITON_KERNEL_DUMP="1", TRITON_DUMP_DIR=os.path.abspath(directory))
    command = _command(words)
    try:
        status = subprocess.run(command, env=environment, check=False).returncode
    except OSError as error:
        raise _Refused(f"cannot run {command[0]}: {error.strerror}") from None
    kept = 0
    for path in Path(directory).rglob("*"):
        if path.suffix in _OTHER_STAGES and path.is_file():
            path.unlink()
        kept += path.suffix == ".ttgir"
    if kept:
        message(f"{kept} kernel{'s' if kept > 1 else ''} in {directory}")
    else:
        message(f"no kernels in {directory}: the command compiled none")
    return status


def run(directory: str, words: list[str]) -> NoReturn:
    """Replace this process by a command that compiles kernels from the files in `directory`."""
    command = _command(words)
    _files(directory)
    environment = _environment(
        TRITON_KERNEL_OVERRIDE="1", TRITON_OVERRIDE_DIR=os.path.abspath(directory)
    )
    if sys.stdout is not None:
        sys.stdout.flush()
    try:
        os.execvpe(command[0], command, environment)
    except OSError as error:
        raise _Refused(f"cannot run {command[0]}: {error.strerror}") from None


# ---------------------------------------------------------------------- insert


_RECORD = re.compile(r"^\s*(%[\w$.-]+ = )?proton\.\w+\b")
_OPERATION = re.compile(r"^\s*(?:%[^=]*= )?\"?((?!arith\.|math\.|proton\.)[a-z]\w*\.\w+)")
_SHOWN_MAX = 24
_Scope = tuple[str, Optional[str], Optional[str]]  # a name, and the texts of its two ends


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _body(lines: list[str]) -> tuple[int, int]:
    """The first and the last line of the kernel's body."""
    begin = next((i for i, line in enumerate(lines) if "tt.func public " in line), None)
    if begin is None:
        raise _Refused("it contains no kernel (tt.func public)")
    end = begin + 1
    while end < len(lines) and not lines[end].startswith("  }"):
        end += 1
    if end == begin + 1 or end == len(lines):
        raise _Refused("the kernel has no body")
    return begin + 1, end - 1


def _put_scope(lines: list[str], name: str, first: Optional[str], last: Optional[str]) -> str:
    """Put a scope around the lines from the first that contains `first` to the last with `last`.

    Returns the reason if that is not possible, else "".
    """
    begin, end = _body(lines)
    body = range(begin, end + 1)
    start, stop = begin, end
    if first is not None:
        holds = [i for i in body if first in lines[i]]
        ends = [i for i in body if (last or first) in lines[i]]
        if not holds or not ends:
            return f'no line contains "{last if holds else first}"'
        if ends[-1] < holds[0]:
            return f'every line that contains "{last}" is before those that contain "{first}"'
        start, stop = holds[0], ends[-1]
    level = _indent(lines[start])
    if any(_indent(line) < level for line in lines[start : stop + 1]):
        raise _Refused(f"scope {name}: its start and end are in different blocks")
    # An operation with a body ends at its closing brace; a terminator must stay last in its block.
    while _indent(lines[stop]) > level or lines[stop].rstrip().endswith("{"):
        stop += 1
    is_last = re.match(r"\s*(tt\.return|scf\.yield|ttg\.warp_(yield|return))\b", lines[stop])
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    lines.insert(stop if is_last else stop + 1, f'{" " * level}proton.record end "{quoted}"')
    lines.insert(start, f'{" " * level}proton.record start "{quoted}"')
    return ""


def _split_scope(text: str) -> _Scope:
    name, _, place = text.partition("=")
    first, _, last = place.partition("..")
    if not name:
        raise _Refused(f"--scope {text} is not of the form NAME, NAME=TEXT or NAME=TEXT..TEXT")
    return name, first or None, last or None


def _operations(lines: list[str]) -> str:
    """The operations that a scope could surround: those of a kernel, except arithmetic."""
    begin, end = _body(lines)
    found = {match[1] for line in lines[begin : end + 1] if (match := _OPERATION.match(line))}
    names = sorted(found)
    more = f" and {len(names) - _SHOWN_MAX} more" if len(names) > _SHOWN_MAX else ""
    return ", ".join(names[:_SHOWN_MAX]) + more


class _Places:
    """The scopes that were placed in a file, and why others were not."""

    def __init__(self, scopes: Iterable[str]) -> None:
        self.scopes = [_split_scope(scope) for scope in scopes]
        self.found: set[_Scope] = set()
        self.reasons: dict[_Scope, str] = {}

    def put(self, path: Path, lines: list[str]) -> None:
        for scope in self.scopes:
            reason = _put_scope(lines, *scope)
            if not reason:
                self.found.add(scope)
            elif scope not in self.reasons:
                there = f"; operations in {path}: {_operations(lines)}"
                self.reasons[scope] = f"scope {scope[0]}: {reason}{there}"

    def report_missing(self) -> bool:
        """Report the scopes that no file could place; True if there are any."""
        missing = [scope for scope in self.scopes if scope not in self.found]
        for scope in missing:
            if scope in self.reasons:
                message(self.reasons[scope])
        return bool(missing)


def _edit(path: Path, places: _Places, auto: Optional[str], clear: bool) -> int:
    """Put scopes into a file; returns its number of records."""
    lines = path.read_text(encoding="utf-8").split("\n")
    if clear:
        lines = [line for line in lines if not _RECORD.match(line)]
    places.put(path, lines)
    text = "\n".join(lines)
    if auto:
        mode = f"default:buffer_type=global:budget=off:auto={auto}"
        made, _, left_out, *_ = _libproton.instrument_ttgir(text, mode, False, True)
        if left_out:
            message(left_out)
        text = made or text
    path.write_text(text, encoding="utf-8")
    return sum(1 for line in text.split("\n") if _RECORD.match(line))


def insert(
    directory: str,
    scopes: Iterable[str] = (),
    auto: Optional[str] = None,
    kernels: Iterable[str] = (),
    clear: bool = False,
) -> int:
    """Put records into the files of `directory`; returns 0, or 1 if one of them fits no file.

    scopes: "NAME" for the whole kernel, "NAME=TEXT" around the lines that contain TEXT, or
    "NAME=TEXT..TEXT" from the first line that contains the first to the last that contains the
    second. auto: kinds of automatic scopes, as in a mode. kernels: only these. clear: remove
    existing records first.
    """
    files = _files(directory)
    wanted = set(kernels)
    unknown = wanted - {path.stem for path in files}
    if unknown:
        there = ", ".join(sorted({path.stem for path in files}))
        names = ", ".join(sorted(unknown))
        message(f"no file for kernel {names} in {directory}; available: {there}")
    scopes = list(scopes)
    if not scopes and not auto and not clear:
        scopes = ["kernel"]
    places = _Places(scopes)
    total = 0
    for path in files:
        if wanted and path.stem not in wanted:
            continue
        try:
            records = _edit(path, places, auto, clear)
        except _Refused as error:
            raise _Refused(f"{path}: {error}") from None
        print(f"{printable(str(path))}: {records} records")
        total += records
    is_missing = places.report_missing() or bool(unknown)
    return 0 if (total or clear) and not is_missing else 1


# ---------------------------------------------------------------------- the command


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m triton_proton.intra",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    steps = parser.add_subparsers(dest="step", required=True)
    for name, about in (
        ("dump", "run a command and keep the TTGIR of its kernels"),
        ("run", "run a command with the edited files in place of Triton's own TTGIR"),
    ):
        step = steps.add_parser(name, help=about, description=about)
        step.add_argument("directory", help="directory of the files")
        step.add_argument(
            "command", nargs=argparse.REMAINDER, help="PROGRAM.py [ARGS], or any other command"
        )
    about = "put records into the files: by default a scope around each kernel"
    step = steps.add_parser("insert", help="put records into the files", description=about)
    step.add_argument("directory", help="directory of the files")
    step.add_argument(
        "--scope",
        action="append",
        default=[],
        metavar="NAME[=TEXT[..TEXT]]",
        help="scope from the first to the last line that contains TEXT (or to the last line that "
        "contains the second TEXT); "
        "without TEXT, the whole kernel; repeatable",
    )
    kinds = ",".join(automatic_scopes[:-1])
    step.add_argument("--auto", metavar="KINDS", help=f"{kinds} or {automatic_scopes[-1]}")
    step.add_argument(
        "--kernel",
        action="append",
        default=[],
        metavar="NAME",
        help="only in this kernel; repeatable",
    )
    step.add_argument("--clear", action="store_true", help="remove existing records first")
    return parser


def main(arguments: Optional[list[str]] = None) -> int:
    """Run the command line; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        if options.step == "dump":
            return dump(options.directory, options.command)
        if options.step == "run":
            run(options.directory, options.command)
        return insert(
            options.directory, options.scope, options.auto, options.kernel, options.clear
        )
    except (_Refused, ValueError, OSError, _libproton.ProtonError) as error:
        message(str(error))
        return 2


if __name__ == "__main__":
    sys.exit(main())
