"""Triton's modules as MLIR text, and the scope markers in it.

Markers are moved around compiler passes that drop or reject them.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, Optional
from urllib.parse import unquote

from . import _libproton
from ._imports import triton_of
from ._message import warn

_MARK = re.compile(r'"(?:\s|\\0[9AD])*// proton\.(?:record|event) (?:start|end) ([^"\\\s]+)')
_RECORD = re.compile(r'"(?:\s|\\0[9AD])*// proton\.record (start|end) ([^"\\\s]+)')
_NAMES_MAX = 8

# An MLIR operation and its location; a location in a file.
_OPERATION = re.compile(r"(\s.*\S) loc\(.*\)")
_PLACE = re.compile(r'loc\("[^"\n]*":\d')

# enum ttgir_take_out
_FROM_PARTITIONS, _FROM_LOOPS, _ALWAYS = range(3)


def markers_of(text: str) -> set[str]:
    """The names of the scopes and events with markers in MLIR or LLVM IR text; still encoded."""
    return set(_MARK.findall(text)) if "// proton." in text else set()


def empty_scopes(text: str) -> set[str]:
    """Scopes that contain no operation wherever they are in MLIR text."""
    begun: set[str] = set()  # with nothing but markers since
    empty, filled = set(), set()
    for line in text.split("\n"):
        if found := _RECORD.search(line):
            if found[1] == "start":
                begun.add(found[2])
            elif found[2] in begun:
                begun.discard(found[2])
                empty.add(found[2])
        elif not _MARK.search(line):
            filled |= begun
            begun.clear()
    return empty - filled


def put_back(metadata: dict[str, Any], kept: dict[str, Any]) -> None:
    """Make a kernel's metadata what it was."""
    metadata.clear()
    metadata.update(kept)


def removed_markers(before: set[str], after: set[str]) -> str:
    """A message that names the scopes that a compiler stage removed; empty if it kept all."""
    if not before - after:
        return ""
    names = _names(before - after)
    return f"Triton's compiler removed these scopes, which are not recorded: {names}"


def carry_markers(inner: Callable[..., Any], arch: str) -> Callable[..., Any]:
    """The stage from TTIR to TTGIR, with markers moved around it if it does not support them."""

    def stage(src: Any, metadata: dict[str, Any], *more: Any, **named: Any) -> Any:
        before = str(src)
        markers = markers_of(before)
        if not markers:
            return inner(src, metadata, *more, **named)
        before = _located(before)
        when = _FROM_LOOPS if _refuses_loops(triton_of(src), arch) else _FROM_PARTITIONS
        plain = _without_markers(before, src, when)
        if plain is None:
            kept = dict(metadata)
            try:
                made = inner(src, metadata, *more, **named)
                after = str(made)
                if emptied := empty_scopes(after) - empty_scopes(before):
                    moved = around_operations(src, before, kept, *more, **named)
                    if moved is not None:
                        put_back(metadata, moved[1])
                        return moved[0]
                    warn(f"{name_of(made)}: Triton's compiler moved all operations out of these "
                        f"scopes, which measure nothing: {_names(emptied)}")
                if removed := removed_markers(markers, markers_of(after)):
                    warn(f"{name_of(made)}: {removed}")
                return made
            except Exception:
                # Perhaps because of the markers: profiling must not make a program fail.
                plain = _without_markers(before, src, _ALWAYS)
                if plain is None:
                    raise
                put_back(metadata, kept)
        return _put_back(before, inner(plain, metadata, *more, **named), markers)

    def around_operations(
        src: Any, before: str, metadata: dict[str, Any], *more: Any, **named: Any
    ) -> Optional[tuple[Any, dict[str, Any]]]:
        """The module compiled without markers, with all scopes around what became of theirs.

        Also its metadata; None if this loses a scope.
        """
        after = dict(metadata)
        try:
            plain = _libproton.instrument_take_out(before, _ALWAYS)
            made = inner(parse_instead(plain, src), after, *more, **named)
            text = _libproton.instrument_relocate(before, str(made)) or ""
            if markers_of(before) - markers_of(text) or empty_scopes(text) - empty_scopes(before):
                return None
            return parse_instead(text, made), after
        except Exception:  # there is the module with markers
            return None

    return stage


def _refuses_loops(package: str, arch: str) -> bool:
    """True if this Triton fails at markers in a loop, when it predicates pipelined operations.

    Applies to versions before 3.8, for AMD and for Blackwell with tensor memory ("pipeliner doesn't
    know how to predicate this op").
    """
    triton = importlib.import_module(package)
    version = [int(part) for part in re.findall(r"\d+", triton.__version__)[:2]]
    return version < [3, 9] and arch.startswith(("gfx", "sm_10", "sm_11"))


def _located(text: str) -> str:
    """TTIR with locations on its operations: its own line numbers, if Triton provides none.

    Triton provides none with TRITON_DISABLE_LINE_INFO=1.
    """
    if _PLACE.search(text):
        return text
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if operation := _OPERATION.fullmatch(line):
            lines[number] = f'{operation[1]} loc("ttir":{number + 1}:1)'
    return "\n".join(lines)


def _without_markers(text: str, module: Any, when: int) -> Any:
    """The module without its markers; None if they can stay or cannot be parsed."""
    try:
        plain = _libproton.instrument_take_out(text, when)
        return None if plain is None else parse_instead(plain, module)
    except Exception as error:
        warn(f"{name_of(module)}: Triton's compiler may remove scopes, because the markers "
            f"cannot be moved around its passes: {error}")
        return None


def without_markers(text: str, module: Any) -> Any:
    """The module of `text`, which a stage may have changed since, without its markers."""
    plain = _libproton.instrument_take_out(text, _ALWAYS)
    return parse_instead(text if plain is None else plain, module)


def _put_back(before: str, made: Any, markers: set[str]) -> Any:
    """A module with the scopes of `before` around their compiled operations."""
    kernel, found = name_of(made), set()
    try:
        text = _libproton.instrument_relocate(before, str(made))
        if text is not None:
            made = parse_instead(text, made)
            found = markers_of(text)
    except Exception as error:
        warn(f"{kernel}: none of its scopes are recorded: {error}")
        return made
    if markers - found:
        warn(
            f"{kernel}: these scopes are not recorded: {_names(markers - found)}; where Triton's "
            "passes do not support markers, a scope must contain an operation and start and end "
            "in the same block"
        )
    return made


def _names(markers: set[str]) -> str:
    names = sorted(unquote(name) for name in markers)
    more = len(names) - _NAMES_MAX
    return ", ".join(names[:_NAMES_MAX]) + (f" and {more} more" if more > 0 else "")


# ---------------------------------------------------------------------- modules

def parse_instead(text: str, module: Any) -> Any:
    """The module parsed from `text`, in place of `module`."""
    ir = importlib.import_module(f"{triton_of(module)}._C.libtriton").ir
    with temporary_file(text, ".mlir") as path:
        made = ir.parse_mlir_module(path, module.context)
    made.context = module.context
    return made


def name_of(module: Any) -> str:
    """The name of the kernel in a module, for messages."""
    try:
        return str(module.get_entry_func_name())
    except Exception:
        return "a kernel"


def arguments_of(module: Any, name: str) -> int:
    """The number of arguments of the kernel `name` in a module; -1 if unknown."""
    try:
        return int(module.get_function(name).get_num_args())
    except Exception:
        return -1


@contextlib.contextmanager
def temporary_file(text: str, suffix: str) -> Iterator[str]:
    """A temporary file with `text`, because Triton's parser reads only files."""
    descriptor, path = tempfile.mkstemp(suffix=suffix, prefix="proton-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        yield path
    finally:
        os.unlink(path)
