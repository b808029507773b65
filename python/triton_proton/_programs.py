"""Search for and execution of the native programs `proton` and `proton-viewer`."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn, Optional, Type

from ._message import message


def _directories() -> Iterator[str]:
    """Directories in which this package may have installed programs, most likely first."""
    # The wheel's own directory: packages that install the same names cannot replace its files.
    yield str(Path(__file__).resolve().parent / "bin")
    if sys.executable:
        yield os.path.dirname(sys.executable)
    for scheme in (sysconfig.get_default_scheme(), "posix_user"):
        try:
            path = sysconfig.get_path("scripts", scheme)
        except KeyError:
            continue
        if path:
            yield path
    # PREFIX/lib/python3.x/site-packages/triton_proton, or DIRECTORY/triton_proton (pip --target)
    for above in list(Path(__file__).resolve().parent.parents)[:4]:
        yield str(above / "bin")
    yield from os.environ.get("PATH", os.defpath).split(os.pathsep)


def is_tritons(path: str) -> bool:
    """True for Triton's script of the same name, which runs another profiler."""
    try:
        with open(path, "rb") as file:
            head = file.read(4096)
    except OSError:
        return False
    return head.startswith(b"#!") and b"triton.profiler" in head


def find_program(name: str) -> Optional[str]:
    """The path of the program in this package, else next to this Python, else on PATH."""
    for directory in _directories():
        path = os.path.join(directory, name)
        if os.access(path, os.X_OK) and not os.path.isdir(path) and not is_tritons(path):
            return path
    return None


def need_program(name: str, error: Type[Exception] = RuntimeError) -> str:
    """The same; raises `error` if there is none."""
    path = find_program(name)
    if path is None:
        raise error(f"'{name}' is not installed next to {sys.executable}")
    return path


def become(name: str) -> NoReturn:
    """Replace this process by the program, with this process's arguments."""
    try:
        path = need_program(name)
    except RuntimeError as error:
        message(str(error))
        sys.exit(2)
    environment = dict(os.environ, PROTON_PYTHON=sys.executable)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    try:
        os.execve(path, [path, *sys.argv[1:]], environment)
    except OSError as error:
        message(f"cannot run {path}: {error.strerror}")
        sys.exit(2)
