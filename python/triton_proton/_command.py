"""Sessions that a script starts under the `proton` command, which records one session for all of
them.

Such a script gets no file of its own but may read one, as Triton's tutorials do at their end with
`viewer.parse(..., "matmul.hatchet")`. It then reads the data that the command has recorded so far.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
import time

from . import _libproton
from ._message import warn
from .flags import flags

_SESSION = 0  # the session of the command
_SUFFIX = ".hatchet"

_asked: dict[str, int] = {}  # paths of files that are not written, and the times of their sessions
_is_paused = False


def ask(name: str) -> None:
    """Remember that the script started a session with this name."""
    path = os.path.abspath(name.removesuffix(_SUFFIX) + _SUFFIX)
    _asked[path] = time.time_ns()


def pause(is_paused: bool) -> None:
    """Remember that the script deactivated or activated the session."""
    global _is_paused
    _is_paused = is_paused


def _is_newer(path: str, time_ns: int) -> bool:
    try:
        return os.stat(path).st_mtime_ns >= time_ns
    except OSError:
        return False


def readable(path: str) -> str:
    """`path`, or a copy of the recorded data if the file belongs to a session of the script."""
    asked_ns = _asked.get(os.path.abspath(path))
    if asked_ns is None or not flags.profiling_on or _is_newer(path, asked_ns):
        return path
    _libproton.deactivate(_SESSION, True)  # waits for work in flight
    if not _is_paused:
        _libproton.activate(_SESSION)
    profile = json.loads(_libproton.get_data(_SESSION, 0, "hatchet").decode("utf-8", "replace"))
    profile[0].get("proton", {}).pop("unfinished", None)  # the message mentions it
    directory = tempfile.mkdtemp(prefix="proton-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    copy = os.path.join(directory, os.path.basename(path))
    with open(copy, "w", encoding="utf-8") as file:
        json.dump(profile, file)
    name = os.path.basename(path)
    warn(
        f"{name} is not written under the proton command; reading the data recorded so far"
    )
    return copy
