"""The session of the `proton` command: started before the script, ended after it.

Internal: `_launch/sitecustomize.py` calls `start` in the process of the script.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from typing import Any

EXIT_NOT_RUN = 2  # as in src/cli/proton_main.c: the script did not run
EXIT_NO_PROFILE = 1


def start(options: dict[str, str]) -> None:
    """Start the session described by the command-line options, or exit the process."""
    try:
        _start(options)
    except Exception as error:
        _write_message(_sentence(error))
        # Not an exception: during start-up Python would turn it into a fatal error.
        os._exit(EXIT_NOT_RUN)


def _start(options: dict[str, str]) -> None:
    from triton_proton import _libproton, _rocm, install_as_triton_profiler
    from triton_proton.profile import _start_owned

    quiet = options.get("quiet") == "1"
    install_as_triton_profiler()
    # A PID is set together with CUDA_INJECTION64_PATH or ROCP_TOOL_LIBRARIES: the recorder is then
    # notified when a process, this one or a child forked from it, initializes CUDA or HIP.
    by_driver = os.environ.get("CUDA_INJECTION64_PATH") or _rocm.is_loaded_by_hip()
    if "pid" in options and by_driver:
        _libproton.await_driver()
    texts = ("name", "backend", "mode", "hook")
    chosen: dict[str, Any] = {name: options.get(name) for name in texts}
    for name in ("memory", "backward", "modules", "torch_ops", "shapes", "quiet"):
        chosen[name] = options.get(name) == "1"
    chosen["context"] = options.get("context", "shadow")
    chosen["data"] = options.get("data", "tree")
    chosen["output_format"] = options.get("format")
    if "wait" in options:
        _listen(chosen, options["wait"])
        return
    session = _start_owned(**chosen)
    if session is None:
        _leave_children_alone()
        if not quiet:
            _write_message("TRITON_PROTON_DISABLE is set: nothing is recorded")
        return
    _libproton.finalize_on_signals()
    if not quiet:
        atexit.register(_report_unused, [name for name in _NEED_TORCH if chosen[name]])
    # Registered before the script's exit functions. They run in reverse order, so work in the
    # script's exit functions is still recorded.
    atexit.register(_finish, os.getpid(), quiet, options.get("viewer", "proton-viewer"))


_NEED_TORCH = ("modules", "torch_ops", "shapes", "backward")


def _report_unused(names: list[str]) -> None:
    """Name the options that could do nothing, because the program did not use PyTorch."""
    if names and "torch" not in sys.modules:
        options = ", ".join("--" + name.replace("_", "-") for name in names)
        _write_message(f"{options} had no effect: the program did not import torch")


def _listen(chosen: dict[str, Any], times: str) -> None:
    """Record nothing until `proton ctl` starts a session, or its time has come."""
    from triton_proton import _control, _libproton
    from triton_proton.profile import report_at_exit

    if not chosen["quiet"]:
        report_at_exit()
    _control.listen(**chosen)
    _libproton.finalize_on_signals()
    if times.startswith("@"):
        _libproton.listen_range(times[1:])
        return
    after, length = times.split()
    if after != "-":
        _libproton.listen_timed(float(after), float(length))


def _leave_children_alone() -> None:
    """Remove the environment variables that let the driver record child processes."""
    from triton_proton import _rocm

    prefix = "PROTON_RUN_"
    if prefix + "PID" in os.environ:
        _rocm.leave_children_alone()
        os.environ.pop("CUDA_INJECTION64_PATH", None)
    for name in [name for name in os.environ if name.startswith(prefix)]:
        del os.environ[name]


def _finish(owner: int, quiet: bool, viewer: str) -> None:
    """End the session when the process exits; print the output path."""
    if os.getpid() != owner:
        return  # a forked child runs the exit functions too, but has no session
    try:
        _finish_once(quiet, viewer)
    except KeyboardInterrupt:
        _finish_once(quiet, viewer)  # completed steps are not repeated
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)


def _finish_once(quiet: bool, viewer: str) -> None:
    from triton_proton import _compiled, _libproton, ranks

    # Makes the message appear after the script's output if both go to one file.
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass  # Python gets the same error again and reports it
    try:
        _libproton.finalize_owned()
    except Exception as error:
        _write_message(_sentence(error))
        # Only the exit status is left to report that no profile exists.
        os._exit(EXIT_NO_PROFILE)
    if not quiet:
        _compiled.report()
    is_merged = ranks.merge_at_exit()
    if not quiet and not is_merged:
        summary = _libproton.last_summary()
        if summary:
            name = f"view it with: {viewer}"
            _write_message(summary.replace("view it with: proton-viewer", name))


def _sentence(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _write_message(text: str) -> None:
    line = f"proton: {text}\n"
    if sys.__stderr__ is None:
        return  # it was closed at start-up: its number may belong to a file of the script
    try:
        os.write(2, line.encode("utf-8", "backslashreplace"))
    except OSError:
        pass
