"""Control from outside: `listen` for `proton ctl`, and snapshots of running sessions."""

from __future__ import annotations

import atexit
import os
from typing import Any, Optional, Union

from . import _libproton
from .flags import is_disabled
from .profile import DEFAULT_PROFILE_NAME, _at_exit, _hook_of, finalize
from .profile import _start as _start_session

_defaults: dict[str, Any] = {}  # options of sessions that the commands do not have
_exit_is_registered = False

_libproton.hold_threads(True)
# A thread that takes the GIL after the interpreter's end never returns.
atexit.register(_libproton.hold_threads, False)


def listen(
    name: Union[None, str, os.PathLike[str]] = None,
    *,
    context: Optional[str] = "shadow",
    data: Optional[str] = "tree",
    backend: Optional[str] = None,
    mode: Any = None,
    hook: Any = None,
    memory: bool = False,
    backward: bool = False,
    modules: bool = False,
    torch_ops: bool = False,
    shapes: bool = False,
    output_format: Optional[str] = None,
    quiet: bool = False,
) -> None:
    """Let `proton ctl` start and stop sessions in this process; until then nothing is recorded.

    The options are those of `start`, unless a command has its own. `proton ctl NAME` finds the
    process by the last part of `name`. The calling thread is the main thread of the sessions:
    threads without scopes are attributed to its scopes. Listening again changes the defaults; a
    forked child has to call it for itself.
    """
    global _exit_is_registered
    _hook_of(hook)  # raises ValueError
    _libproton.listen(
        DEFAULT_PROFILE_NAME if name is None else os.fspath(name),
        context,
        data,
        backend,
        None if mode is None else str(mode),
        (_libproton.QUIET if quiet else 0) | (_libproton.MEMORY if memory else 0),
        output_format,
        _start,
        _finalize,
    )
    _defaults.update(
        hook=hook, backward=backward, modules=modules, torch_ops=torch_ops, shapes=shapes
    )
    if not _exit_is_registered:
        _exit_is_registered = True
        atexit.register(_end)


def _start(
    name: str, context: Any, data: Any, backend: Any, mode: Any, flag_bits: int,
    output_format: Any, hook: Any
) -> int:
    """Called on the thread of the commands."""
    if is_disabled():
        raise RuntimeError("TRITON_PROTON_DISABLE is set: nothing is recorded")
    return _start_session(
        name, context=context or "shadow", data=data or "tree", backend=backend, mode=mode,
        memory=bool(flag_bits & _libproton.MEMORY), quiet=bool(flag_bits & _libproton.QUIET),
        output_format=output_format, ranks=True,
        **{**_defaults, **({} if hook is None else {"hook": hook})},
    )


def _finalize(session: int, output_format: Optional[str]) -> None:
    finalize(session, output_format or "")


def _end() -> None:
    """Before the interpreter ends: later, its functions cannot be called."""
    _libproton.listen_end()
    _at_exit()


def snapshot(
    session: Optional[int] = None,
    name: Union[None, str, os.PathLike[str]] = None,
    output_format: Optional[str] = "",
) -> str:
    """Write the data of a session so far, while it continues recording; return the path.

    session: 0, or the one of the `proton` command, by default. name: an output path without suffix;
    by default the session's with ".snapshot_1", ".snapshot_2" and so on. output_format: as in
    `finalize`. Launches do not wait for it; work launched so far is waited for.
    """
    path = None if name is None else os.fspath(name)
    return _libproton.snapshot(0 if session is None else session, path, output_format)
