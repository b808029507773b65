"""Jobs of many ranks: one profile of all of them, made when the program ends.

    import triton_proton as proton
    proton.start("out")
    ...
    proton.ranks.finalize()

writes `out.ranks.proton`, which `proton-viewer --ranks` shows. `proton --ranks merge` does the same
without a change of the program.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import Any, Optional

from . import _reduce
from ._message import message, warn
from .flags import flags
from .profile import _stems
from .profile import finalize as _finalize

__all__ = ["finalize"]

TIMEOUT_S = 60.0

_SUFFIXES = (".proton", ".hatchet", ".hatchet_msgpack")
_RANKED = re.compile(r"(.*)\.ranks/\d+-\d+/rank\d+(?:\.attempt\d+)?$", re.DOTALL)

_serial = 0
_asked: Optional[tuple[Any, Optional[float], bool]] = None


def finalize(
    group: Any = None, timeout: Optional[float] = None, *, keep: bool = False
) -> Optional[str]:
    """End every session, and merge the profiles of all ranks into NAME.ranks.proton.

    Every rank has to call it. The result is the one of `proton-merge`, and its path is returned on
    the rank that has written it, the first one. The files of the ranks are then removed.

    group: a process group of torch.distributed; by default all ranks.

    timeout: seconds to wait for the other ranks; by default PROTON_RANKS_TIMEOUT, or 60. Those that
    have not come by then are missing in the result.

    keep: keep the files of the ranks. They are always kept if merging fails, which a message
    reports.

    Without a process group, the sessions are ended as by `finalize`. Under the `proton` command the
    profiles are merged when the program ends.
    """
    global _asked
    if flags.command_line:
        _asked = (group, timeout, keep)
        return None
    job = _reduce.find_job(group)
    _finalize(output_format="proton" if job else "")
    return _merge_all(job, timeout, keep)


def merge_at_exit() -> bool:
    """Merge the files of the ended sessions if that is wanted.

    False: it is not, or this rank's file is where it was.
    """
    wanted = os.environ.get("PROTON_RANKS", "").lower()
    if _asked is None and wanted not in ("merge", "merge-keep"):
        return False
    group, timeout, keep = _asked or (None, None, False)
    keep = keep or wanted == "merge-keep"
    job = _reduce.find_job(group)
    _merge_all(job, timeout, keep)
    return job is not None and not _stems


def _timeout(timeout: Optional[float]) -> float:
    if timeout is not None:
        return max(float(timeout), 0.0)
    text = os.environ.get("PROTON_RANKS_TIMEOUT", "")
    try:
        return max(float(text), 0.0) if text else TIMEOUT_S
    except ValueError:
        text = f'"{text}" is not a number of seconds; using {TIMEOUT_S:g}'
        warn(f"PROTON_RANKS_TIMEOUT: {text}", repeats=True)
        return TIMEOUT_S


def _merge_all(job: Optional[_reduce.Job], timeout: Optional[float], keep: bool) -> Optional[str]:
    result = None
    stems = list(_stems.values())
    if job is None:
        warn(
            "there is no process group of torch.distributed: the ranks are not merged; use "
            "proton-merge",
            repeats=True,
        )
        _stems.clear()
        return None
    for session, stem in list(_stems.items()):
        written = _merge_one(job, stem, _timeout(timeout), keep)
        if written is not None:
            del _stems[session]
            result = written or result
    if not stems:
        warn("nothing was recorded: this rank has no profile to merge", repeats=True)
    return result


# ---------------------------------------------------------------------- files


def _files_of(stem: str) -> list[str]:
    """The profiles of this rank: its own, and in the directory of a job those of its children."""
    own = [stem + suffix for suffix in _SUFFIXES if os.path.exists(stem + suffix)][:1]
    if not _RANKED.match(stem):
        return own
    directory, base = os.path.split(stem)
    child = re.compile(re.escape(base) + r"(\.\d+)+\.proton")
    with contextlib.suppress(OSError):
        names = [name for name in os.listdir(directory) if child.fullmatch(name)]
        names.sort(key=lambda name: [int(part) for part in re.findall(r"\.(\d+)", name)])
        return [os.path.join(directory, name) for name in names] + own
    return own


def _output_of(stem: str) -> str:
    match = _RANKED.match(stem)
    # Another rank may have had the name first: output.c.
    return (match[1] if match else re.sub(r"\.rank\d{6}$", "", stem)) + ".ranks.proton"


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _shown(path: str) -> str:
    here = os.path.join(os.getcwd(), "")
    return path.removeprefix(here)


def _merge_one(job: _reduce.Job, stem: str, timeout: float, keep: bool) -> Optional[str]:
    """The path of the result, or "" on another rank; None: it failed."""
    global _serial
    output = _output_of(stem)
    paths = _files_of(stem)
    _serial += 1
    try:
        # Names with the rank, for proton-merge.
        files = [(f"rank{job.rank:06}{path[len(stem) :]}", _read(path)) for path in paths]
        lines = _reduce.reduce(job, _serial, files, output, timeout)
    except (RuntimeError, OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        kept = ", ".join(_shown(path) for path in paths)
        message(f"cannot merge this rank with the others: {reason}; its profile is {kept}")
        return None
    if not keep:
        _remove(paths)
    for line in lines or []:
        warn(line.replace(output, _shown(output)), repeats=True)
    return "" if lines is None else output


def _remove(paths: list[str]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            os.unlink(path)
    for path in paths[:1]:
        if _RANKED.match(os.path.splitext(path)[0]):
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(path))
                os.rmdir(os.path.dirname(os.path.dirname(path)))
