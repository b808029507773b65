"""Command `proton attach`: make a Python program listen that was not started under `proton`.

The program runs a short script, which calls `listen` and writes its result into a file. Python 3.14
does so by itself (`sys.remote_exec`); older ones are asked by gdb. The main thread runs it between
two lines of the program, so nothing is called while a lock is held.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NoReturn

from ._message import message

_INTERRUPT_S = 5  # for gdb to end by itself
_REMOTE = "import sys\nsys.remote_exec(int(sys.argv[1]), sys.argv[2])"
_WAIT = "start it with proton --wait"

_SCRIPT = """
import os, sys
text, path = "", list(sys.path)
sys.path.append({place!a})
try:
    import triton_proton
    triton_proton.listen({name!a})
except BaseException as error:
    text = f"{{type(error).__name__}}: {{error}}"
sys.path[:] = path
with open({result!a} + ".new", "w", encoding="utf-8", errors="backslashreplace") as file:
    file.write(text)
os.rename({result!a} + ".new", {result!a})
"""

# gdb reads the symbols of two libraries only: all would take long, and the program waits. It stops
# a thread that enters one of the functions. There no system call is interrupted, and only general
# registers have to be kept; gdb's own calls write all registers, which fails on processors that it
# does not know. An interrupt ends the first wait anywhere. mmap() makes space for the text.
# Py_AddPendingCall() may be called on any thread.
_GDB = """
set auto-load off
set auto-solib-add off
handle all nostop noprint pass
attach {pid}
sharedlibrary /libpython3
sharedlibrary /libc\\.so
break *PyObject_Malloc
break *PyEval_RestoreThread
continue
delete
if (long)$pc != (long)&PyObject_Malloc && (long)$pc != (long)&PyEval_RestoreThread
  quit 1
end
eval "break *%ld thread %d", (long)$pc, $_thread
set $stack = (long)$rsp
{keep}
define call_function
set $rsp = (($stack - 256) & ~15) - 8
set {{long}}$rsp = $kept_rip
set $rip = $arg0
while (long)$pc != $kept_rip
  continue
end
set $result = $rax
set $rsp = $stack
{restore}
end
{mmap}
call_function (long)mmap
if $result < 0 && $result > -4096
  quit 1
end
set $text = $result
set var *(char (*)[{size}])$text = "{text}"
{run}
call_function (long)Py_AddPendingCall
detach
quit (int)$result != 0
"""
_REGISTERS = "rip rax rdi rsi rdx rcx r8 r9 r10 r11".split()


def _set(**values: object) -> str:
    return "\n".join(f"set ${name} = {value}" for name, value in values.items())


def _fail(text: str) -> NoReturn:
    message(text)
    sys.exit(1)


def _run(program: str, *words: str, end: float) -> tuple[int, str]:
    """The status and output of a tool with nothing of our environment; gdb can be interrupted."""
    keys = dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    with subprocess.Popen(words, executable=program, env=dict(LC_ALL="C"), **keys) as tool:
        try:
            output, _ = tool.communicate(timeout=max(end - time.monotonic(), 0))
            return tool.returncode, output.decode(errors="replace")
        except subprocess.TimeoutExpired:
            tool.send_signal(signal.SIGINT)
        try:
            tool.communicate(timeout=_INTERRUPT_S)
        except subprocess.TimeoutExpired:
            tool.kill()
        return 1, "none of its threads has run Python code"


def _ask_gdb(pid: int, script: Path, end: float) -> tuple[int, str]:
    gdb = shutil.which("gdb")
    if gdb is None or platform.machine() != "x86_64":
        return 1, "its Python is older than 3.14, which needs gdb, on x86-64"
    read = f"with open({str(script)!a}) as file: exec(file.read(), {{}})"
    text = f"try:\n exec({read!a}, {{}})\nexcept BaseException: pass\n"
    commands = script.with_suffix(".gdb")
    commands.write_text(
        _GDB.format(
            pid=pid,
            size=len(text) + 1,
            text=text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"'),
            keep=_set(**{f"kept_{name}": f"(long)${name}" for name in _REGISTERS}),
            restore=_set(**{name: f"$kept_{name}" for name in _REGISTERS}),
            mmap=_set(rdi=0, rsi=4096, rdx=3, rcx=34, r8=-1, r9=0),
            run=_set(rdi="(long)&PyRun_SimpleString", rsi="$text"),
        )
    )
    return _run(gdb, "gdb", "-nx", "-batch", "-x", str(commands), end=end)


def _attach(pid: int, script: Path, end: float) -> None:
    """The program has been asked to run the script; else the command ends with a message."""
    python, status, output = os.readlink(f"/proc/{pid}/exe"), 1, ""
    # A program that contains Python would not run the code.
    if os.path.basename(python).startswith("python"):
        words = (python, "-I", "-S", "-c", _REMOTE, str(pid), str(script))
        status, output = _run(f"/proc/{pid}/exe", *words, end=end)
    if status and "PermissionError" not in output:
        status, output = _ask_gdb(pid, script, end)
    if status and ("PermissionError" in output or "not permitted" in output):
        _fail(
            f"the system does not allow attaching to {pid}; set kernel.yama.ptrace_scope to 0, "
            f"give the container the capability SYS_PTRACE, or {_WAIT}"
        )
    if status:
        _fail(f"cannot attach to {pid}: {(output.splitlines() or [''])[-1]}; {_WAIT}")


def _check(pid: int) -> None:
    try:
        is_own = os.stat(f"/proc/{pid}").st_uid == os.geteuid()
        maps = Path(f"/proc/{pid}/maps").read_text(errors="replace") if is_own else ""
    except FileNotFoundError:
        _fail(f"there is no process {pid}")
    except OSError as error:
        _fail(f"not allowed to look into {pid}: {error.strerror}; {_WAIT}")
    if not is_own:
        _fail(f"{pid} belongs to another user")
    if "/python3" not in maps and "/libpython3" not in maps:
        _fail(f"{pid} is not a Python program; {_WAIT} -- PROGRAM")


def main() -> None:
    text = "Make a running Python program listen, as with proton --wait, for proton ctl."
    parser = argparse.ArgumentParser(prog="proton attach", description=text)
    add = parser.add_argument
    add("pid", metavar="PID", type=int)
    add("-n", "--name", metavar="PATH", default="proton", help="output path without suffix")
    add("--timeout", metavar="SECONDS", type=float, default=60, help="how long to wait (60)")
    options = parser.parse_args()
    pid, end = options.pid, time.monotonic() + options.timeout
    _check(pid)
    with tempfile.TemporaryDirectory(prefix="proton-attach-") as directory:
        script, result = Path(directory, "script.py"), Path(directory, "result")
        place = str(Path(__file__).resolve().parents[1])
        name = os.path.abspath(options.name)
        code = _SCRIPT.format(place=place, name=name, result=str(result))
        script.write_text(f"exec({code!a}, {{}})\n")  # leaves no names in __main__
        _attach(pid, script, end)
        while not result.exists() and time.monotonic() < end:
            time.sleep(0.01)
        # It runs nothing later: the script is gone.
        if not result.exists():
            _fail(f"the main thread of {pid} has run no Python code; use --timeout, or {_WAIT}")
        text = result.read_text(encoding="utf-8")
    if text:
        _fail(f"{pid} does not listen: {text}; triton_proton must be installed for its Python")
    print(f"{pid} listens; record with: proton ctl {pid} start")


if __name__ == "__main__":
    main()
