"""Find and become the native programs `proton` and `proton-viewer`."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from typing import NoReturn, Optional


def _directories() -> list[str]:
    """Where an installation of this package puts programs, most likely first."""
    directories = [os.path.dirname(sys.executable)] if sys.executable else []
    for scheme in (None, "posix_user"):
        try:
            path = (
                sysconfig.get_path("scripts", scheme) if scheme else sysconfig.get_path("scripts")
            )
        except KeyError:
            continue
        if path:
            directories.append(path)
    return directories


def find_program(name: str) -> Optional[str]:
    """The path of the program beside this Python, else on PATH, else None."""
    for directory in _directories():
        path = os.path.join(directory, name)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return shutil.which(name)


def become(name: str) -> NoReturn:
    """Replace this process by the program, with this process's arguments."""
    path = find_program(name)
    if path is None:
        message = f"proton: the program '{name}' is not installed beside {sys.executable}"
        print(message, file=sys.stderr)
        sys.exit(2)
    environment = dict(os.environ, PROTON_PYTHON=sys.executable)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execve(path, [path, *sys.argv[1:]], environment)
    except OSError as error:
        print(f"proton: cannot run {path}: {error.strerror}", file=sys.stderr)
        sys.exit(2)
