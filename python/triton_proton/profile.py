"""Sessions: start, activate, deactivate, finalize, and the decorator `profile`."""

from __future__ import annotations

import atexit
import contextlib
import functools
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Optional, Union

from . import _autograd, _command, _compiled, _interpreter, _kineto, _libproton, _modules, _replays
from ._imports import end_session
from ._message import message, warn
from .flags import flags, is_disabled, is_true, knob
from .hooks.hook import Hook, HookManager
from .hooks.instrumentation import InstrumentationHook
from .hooks.launch import LaunchHook
from .mode import BaseMode

DEFAULT_PROFILE_NAME = "proton"

_HOST = "host"
_INSTRUMENTATION = "instrumentation"

_reports_at_exit = False
_exit_is_registered = False
_stems: dict[int, str] = {}  # output paths without suffix, for ranks.py
_newest = -1  # the highest number of a session started here; a higher one is a new session


# ---------------------------------------------------------------------- environment


def _note_kernel_cache() -> None:
    """Name to the recorder a cache directory that was set in Python only."""
    directory = knob("cache", "dir")
    if isinstance(directory, str) and directory != os.environ.get("TRITON_CACHE_DIR"):
        _libproton.kernel_cache_add(directory.encode(errors="replace").decode())


def _instrumentation_hook(data: Optional[str], mode: Any) -> InstrumentationHook:
    """Raises ValueError for a trace without records."""
    text = "" if mode is None else str(mode)
    is_trace = (data or "").lower() == "trace"
    if is_trace and _libproton.instrument_mode(text)["tree"] == "sums":
        raise ValueError(
            'mode: tree=sums keeps no single executions, which a trace needs; use data="tree", '
            "or tree=records"
        )
    return InstrumentationHook(mode, is_trace)


def _is_interpreting() -> bool:
    interpret = knob("runtime", "interpret")
    return is_true("TRITON_INTERPRET") if interpret is None else bool(interpret)


def _select_backend() -> str:
    """The name of the default backend, as in Triton's profiler."""
    return _default_backend() or _libproton.default_backend() or _HOST


def _default_backend() -> Optional[str]:
    """The default backend; None leaves the choice to the recorder."""
    return _HOST if _is_interpreting() and not os.environ.get("PROTON_BACKEND") else None


def _report_default(backend: str) -> None:
    if backend != _HOST:
        return
    why = "TRITON_INTERPRET is set" if _is_interpreting() else "no usable GPU driver found"
    warn(f"{why}; recording CPU kernels only (backend 'host')")


# ---------------------------------------------------------------------- starting


def _hook_of(hook: Union[None, str, Hook]) -> Optional[Hook]:
    if hook is None or isinstance(hook, Hook):
        return hook
    if hook == "triton":
        return LaunchHook()
    raise ValueError(f"Unsupported hook: {hook}; expected triton or a Hook")


def _follow_torch(
    session: int, context: Optional[str], backward: bool, modules: bool, torch_ops: bool,
    shapes: bool
) -> None:
    if (context or "").lower().startswith("python"):
        _autograd.follow()
    elif backward or modules:
        _autograd.follow_scopes(session)
    if torch_ops:
        _autograd.follow_operators(session)
    if modules:
        _modules.follow(session)
    if shapes:
        _compiled.show_shapes(session)


def _start(
    name: Any, *, context: Any = "shadow", data: Any = "tree", backend: Any = None,
    mode: Any = None, hook: Any = None, memory: bool = False, backward: bool = False,
    modules: bool = False, torch_ops: bool = False, shapes: bool = False, counters: Any = None,
    quiet: bool = False, output_format: Any = None, ranks: bool = False
) -> int:
    """Start a session for any owner. On failure nothing is left active."""
    global _newest
    chosen_hook = _hook_of(hook)
    if counters is not None:
        if mode is not None:
            raise ValueError("counters and mode exclude each other: counters are a mode")
        mode = f"default:counters={counters}"
    if mode is not None and not isinstance(mode, (str, BaseMode)):
        raise ValueError(f"Unknown mode: {mode!r}")
    if modules and (context or "").lower() == "python":
        raise ValueError('modules: context "python" has no scopes; use "python+scopes"')
    path = DEFAULT_PROFILE_NAME if name is None else os.fspath(name)
    is_default = backend is None and not os.environ.get("PROTON_BACKEND")
    nvtx = knob("proton", "enable_nvtx")  # before Triton is imported, TRITON_ENABLE_NVTX
    if nvtx is not None:
        _libproton.nvtx_enable(bool(nvtx))
    _note_kernel_cache()
    wanted = _default_backend() if backend is None else backend
    session = _libproton.start(
        path,
        context,
        data,
        wanted,
        None if mode is None else str(mode),
        (_libproton.QUIET if quiet else 0)
        | (_libproton.MEMORY if memory else 0)
        | (_libproton.RANKS if ranks or name is None else 0),
        output_format,
    )
    is_new = session > _newest
    if stem := _libproton.session_path(session):
        _stems[session] = stem
    try:
        used = _libproton.session_backend(session) or ""
        if used == _HOST:
            _interpreter.install(session)
        _kineto.follow(session, used)
        _replays.follow(str(mode))
        _follow_torch(session, context, backward, modules, torch_ops, shapes)
        if used == _INSTRUMENTATION:
            HookManager.register(_instrumentation_hook(data, mode), session)
            if _is_interpreting() and not quiet:
                text = "TRITON_INTERPRET is set: interpreted kernels have no scopes inside"
                warn(text)
        if chosen_hook is not None:
            HookManager.register(chosen_hook, session)
        else:
            HookManager.activate(session)  # a live session was started again
        _register_exit()
        if is_default and not quiet:
            _report_default(used)
    except BaseException:
        if is_new:
            _forget(session)
            _stems.pop(session, None)
            _libproton.finalize(session, "none")
        raise
    _newest = max(_newest, session)
    return session


def start(
    name: Union[None, str, os.PathLike[str]] = None,
    *,
    context: Optional[str] = "shadow",
    data: Optional[str] = "tree",
    backend: Optional[str] = None,
    mode: Union[None, str, BaseMode] = None,
    hook: Union[None, str, Hook] = None,
    memory: bool = False,
    backward: bool = False,
    modules: bool = False,
    torch_ops: bool = False,
    shapes: bool = False,
    counters: Optional[str] = None,
) -> Optional[int]:
    """Start profiling and return the session's number.

    name: output path without suffix, "proton" by default; "" or "-" is standard output. Starting a
    live name activates that session again. In a job of several ranks the default is
    "proton.ranks/000-999/rank000123", as a .proton file; a given name is used unchanged.

    context: "shadow" attributes kernels to scopes, "python" to the Python call stack, and
    "python+scopes" to the call stack with each scope below the frame that entered it.

    data: "tree" sums by context; "trace" also keeps the start and end of each scope, launch and
    kernel.

    backend: by default the one that fits the machine; "host" (the CPU, for Triton's interpreter)
    without a GPU or if TRITON_INTERPRET is set.

    mode: the backend's mode, as text or an object of `triton_proton.mode`.

    hook: "triton" calls each kernel's launch_metadata function and records its result; or a Hook.

    backward: with context "shadow", attribute kernels of PyTorch's backward passes to the scopes of
    the forward operators, below "<backward>". Contexts with "python" always do so.

    modules: make each PyTorch module a scope when its model is first called (see `annotate`), with
    `backward`. Needs a context with scopes.

    torch_ops: attribute kernels below the operators of PyTorch that launch them ("aten::addmm").

    shapes: name the operators of compiled code with the shapes of their inputs, with context
    "shadow" too, below their modules.

    memory: also record GPU memory copies and memsets, below the context that called them, with
    their sizes as the metric "memory_bytes".

    counters: "roofline" measures operations, bytes and occupancy of a few launches of each kernel
    with the hardware counters of an NVIDIA GPU.

    Returns None and does nothing under the `proton` command, which has its own session, and if
    TRITON_PROTON_DISABLE is set. Raises ValueError for unknown values and ProtonError if profiling
    cannot start; nothing is left active then. A profile that is still being recorded when the
    interpreter exits is written at that point.
    """
    given = dict(locals())
    if is_disabled():
        return None
    if flags.command_line:
        _command.ask(os.fspath(name) if name is not None else DEFAULT_PROFILE_NAME)
        return None
    return _start(**given)


def _start_owned(**options: Any) -> Optional[int]:
    """For the `proton` command: start the session that calls in the script cannot end."""
    if is_disabled():
        return None
    session = _start(ranks=True, **options)
    flags.command_line = True
    _libproton.own_sessions()
    return session


# ---------------------------------------------------------------------- running sessions


def _chosen(session: Optional[int], session_id: Optional[int], verb: str) -> Optional[int]:
    """The requested session, by either parameter name; under the command only 0."""
    if session is not None and session_id is not None:
        raise TypeError("session and session_id mean the same; only one of them can be given")
    session = session if session_id is None else session_id
    if flags.command_line and session not in (None, 0):
        raise ValueError(f"Only one session can be {verb} when running from the command line.")
    return session


def activate(session: Optional[int] = None, *, session_id: Optional[int] = None) -> None:
    """Resume recording into `session` or into every session. Repeated calls are harmless.

    session_id: another name of `session`.
    """
    session = _chosen(session, session_id, "activated/deactivated")
    _command.pause(False)
    _libproton.activate(session)
    HookManager.activate(session)


def deactivate(
    session: Optional[int] = None, flushing: bool = False, *, session_id: Optional[int] = None
) -> None:
    """Stop recording, into `session` or into every session, until `activate`.

    flushing: wait for the work launched so far, so that `data.get` sees all of it.
    session_id: another name of `session`.
    """
    session = _chosen(session, session_id, "activated/deactivated")
    _command.pause(True)
    _libproton.deactivate(session, flushing)
    HookManager.deactivate(session)


def finalize(
    session: Optional[int] = None,
    output_format: Optional[str] = "",
    *,
    session_id: Optional[int] = None,
) -> None:
    """End `session`, or every session, and write its output.

    output_format: "hatchet" (default), "hatchet_msgpack", "proton" (keep the working file) or
    "none"; for traces also "chrome_trace" (their default) and "perfetto". An unknown format is a
    ValueError and ends nothing. If the output cannot be written, ProtonError names the remaining
    file; if the backend could record nothing, it says why. Under the `proton` command nothing
    happens: the profile is written when the script has ended. session_id: another name of
    `session`.
    """
    session = _chosen(session, session_id, "finalized")
    _note_kernel_cache()
    if flags.command_line:
        return
    try:
        _libproton.finalize(session, output_format)
    except ValueError:
        raise  # unknown format; every session stays live
    except BaseException:
        _forget(session)
        raise
    _forget(session)


def _forget(session: Optional[int]) -> None:
    HookManager.unregister(session)
    end_session(session)
    _compiled.report()


# ---------------------------------------------------------------------- end of the process


def _register_exit() -> None:
    global _exit_is_registered
    if not _exit_is_registered:
        _exit_is_registered = True
        atexit.register(_at_exit)


def report_at_exit() -> None:
    """Print a line about a session that the end of the program writes, as `proton` does."""
    global _reports_at_exit
    _reports_at_exit = True


def _at_exit() -> None:
    """Write the live sessions when the program exits, normally or not."""
    from . import ranks

    if flags.command_line or not flags.profiling_on:
        return
    try:
        finalize()
        if _reports_at_exit and _libproton.last_summary():
            message(_libproton.last_summary())
        ranks.merge_at_exit()
    except Exception as error:
        warn(str(error) or type(error).__name__)


def _after_fork_in_child() -> None:
    """The recorder is inert in the child; Python's state of the sessions is removed too."""
    HookManager._reset_in_child()
    end_session()


os.register_at_fork(after_in_child=_after_fork_in_child)


# ---------------------------------------------------------------------- decorator


def _profiling(function: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    lock = threading.Lock()
    running = 0

    @contextlib.contextmanager
    def recording() -> Iterator[None]:
        nonlocal running
        with lock:
            session = start(**options)
            running += 1
        try:
            yield
        finally:
            with lock:
                running -= 1
                # A recursive call, or one on another thread, is still being profiled.
                if session is not None and running == 0:
                    # IndexError: the function has finalized the session itself.
                    with contextlib.suppress(IndexError):
                        deactivate(session)

    if inspect.isasyncgenfunction(function):
        raise TypeError("profile cannot decorate an asynchronous generator")

    def plain(*args: Any, **kwargs: Any) -> Any:
        with recording():
            return function(*args, **kwargs)

    def generator(*args: Any, **kwargs: Any) -> Any:
        with recording():
            return (yield from function(*args, **kwargs))

    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        with recording():
            return await function(*args, **kwargs)

    is_coroutine = inspect.iscoroutinefunction(function)
    is_generator = inspect.isgeneratorfunction(function)
    return functools.wraps(function)(
        coroutine if is_coroutine else generator if is_generator else plain
    )


def profile(
    func: Optional[Callable[..., Any]] = None,
    *,
    name: Union[None, str, os.PathLike[str]] = None,
    context: Optional[str] = "shadow",
    data: Optional[str] = "tree",
    backend: Optional[str] = None,
    mode: Union[None, str, BaseMode] = None,
    hook: Union[None, str, Hook] = None,
    memory: bool = False,
) -> Callable[..., Any]:
    """Profile each call of a function; the options are those of `start`.

    The first call starts the session; it is paused between calls, even if a call raises. A call of
    a generator or coroutine lasts until that has ended. `finalize` (or the end of the program)
    writes the profile.

        @proton.profile(name="step")
        def step(): ...

        proton.profile(step, name="step")()
    """
    options = dict(locals())
    del options["func"]
    if func is not None:
        return _profiling(func, options)
    return lambda function: _profiling(function, options)
