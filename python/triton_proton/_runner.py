"""The session that the `proton` command owns: begun before the script, ended after it.

Not for users to import: `_launch/sitecustomize.py` calls `start` in the process of the script.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys

EXIT_NOT_RUN = 2  # as src/cli/proton_main.c: the recorder did not start and the script did not run
EXIT_NO_PROFILE = 1


def start(options: dict[str, str]) -> None:
    """Start the session described by the options of the command line, or leave the process."""
    try:
        _start(options)
    except Exception as error:
        _say(_sentence(error))
        # Not an exception: at this point of the start-up Python would make a fatal error of it.
        os._exit(EXIT_NOT_RUN)


def _start(options: dict[str, str]) -> None:
    from triton_proton import _libproton, install_as_triton_profiler
    from triton_proton.profile import _start_owned

    quiet = options.get("quiet") == "1"
    install_as_triton_profiler()
    # A PID comes with CUDA_INJECTION64_PATH: the driver then tells the recorder when a process,
    # this one or a child forked from it, initialises CUDA.
    if "pid" in options and os.environ.get("CUDA_INJECTION64_PATH"):
        _libproton.await_driver()
    session = _start_owned(
        options.get("name"),
        context=options.get("context", "shadow"),
        data=options.get("data", "tree"),
        backend=options.get("backend"),
        mode=options.get("mode"),
        hook=options.get("hook"),
        memory=options.get("memory") == "1",
        output_format=options.get("format"),
        quiet=quiet,
    )
    if session is None:
        _leave_children_alone()
        if not quiet:
            _say("TRITON_PROTON_DISABLE is set: nothing is recorded")
        return
    _libproton.finalize_on_signals()
    # Registered before anything of the script's: exit functions run last in, first out, so what
    # the script does in its own is still recorded.
    atexit.register(_finish, os.getpid(), quiet, options.get("viewer", "proton-viewer"))


def _leave_children_alone() -> None:
    """Take out of the environment what would let the driver record child processes."""
    prefix = "PROTON_RUN_"
    if prefix + "PID" in os.environ:
        os.environ.pop("CUDA_INJECTION64_PATH", None)
    for name in [name for name in os.environ if name.startswith(prefix)]:
        del os.environ[name]


def _finish(owner: int, quiet: bool, viewer: str) -> None:
    """End the session at the end of the process; print where the profile is."""
    if os.getpid() != owner:
        return  # a forked child runs the exit functions too, but owns no session
    try:
        _finish_once(quiet, viewer)
    except KeyboardInterrupt:
        _finish_once(quiet, viewer)  # what has been done already is not done again
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)


def _finish_once(quiet: bool, viewer: str) -> None:
    from triton_proton import _libproton

    # So that our line comes after the script's output when both go to one file.
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass  # Python meets the same error once more and reports it as it always does
    try:
        _libproton.finalize_owned()
    except Exception as error:
        _say(_sentence(error))
        # The only way left to tell whoever waits for the profile that there is none.
        os._exit(EXIT_NO_PROFILE)
    if not quiet:
        summary = _libproton.last_summary()
        if summary:
            _say(summary.replace("view it with: proton-viewer", f"view it with: {viewer}"))


def _sentence(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _say(text: str) -> None:
    line = f"proton: {text}\n"
    if sys.__stderr__ is None:
        return  # it was closed at the start: its number may be that of a file of the script's
    try:
        os.write(2, line.encode("utf-8", "backslashreplace"))
    except OSError:
        pass
