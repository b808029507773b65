"""`%%proton` of IPython and Jupyter, after `%load_ext triton_proton`."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
from typing import Any, NoReturn, Optional

from . import _libproton
from .profile import finalize, start
from .reader import Profile, load

_NAME = "proton"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        from IPython.core.error import UsageError  # type: ignore[import-not-found]

        raise UsageError(f"%%proton: {message}; see %%proton --help")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="%%proton", description="Profile this cell and show its profile, which is also _."
    )
    add = parser.add_argument
    add("-c", "--context", default="shadow", help="shadow: scopes; python: Python call stack")
    add("-d", "--data", default="tree", help="tree: totals; trace: timeline")
    add("-b", "--backend", help="by default the one that fits the machine")
    add("-m", "--mode", help="mode of the backend")
    add("-k", "--hook", help="triton: record the launch_metadata of kernels")
    add("-n", "--name", help="keep the profile as NAME.proton")
    return parser


def _hide_callers() -> None:
    """The frames above the cell belong to the notebook."""
    frame, names = sys._getframe(1), set()
    while frame is not None:
        names.add(frame.f_code.co_filename)
        frame = frame.f_back
    _libproton.hide_frames(sorted(names))


def run_cell(shell: Any, line: str, cell: str) -> Optional[Profile]:
    """Run a cell in a new session; IPython shows the result."""
    try:
        options = _parser().parse_args(shlex.split(line))
    except SystemExit:  # after --help
        return None
    _hide_callers()
    folder = None if options.name else tempfile.TemporaryDirectory(prefix="proton-")
    path = options.name or os.path.join(folder.name, "cell")
    session = start(
        path, context=options.context, data=options.data, backend=options.backend,
        mode=options.mode, hook=options.hook,
    )
    try:
        done = shell.run_cell(cell)
    finally:
        finalize(session, "proton")
    # The cell's error is printed already; its profile up to there is kept if it has a name.
    return load(f"{path}.proton") if session is not None and done.success else None


def register(shell: Any) -> None:
    """Add the magic to a shell of IPython."""

    def proton(line: str, cell: str) -> Optional[Profile]:
        return run_cell(shell, line, cell)

    proton.__doc__ = _parser().format_help()
    shell.register_magic_function(proton, "cell", _NAME)
