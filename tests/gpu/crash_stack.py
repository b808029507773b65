"""A library for LD_PRELOAD that prints the native stack of a thread that crashes.

PC sampling runs in CUPTI's and Proton's threads, of which Python's faulthandler shows nothing.
"""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

SOURCE = r"""
#include <execinfo.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static void print_stack(int number)
{
    void *frames[64];

    (void)!write(2, "native stack:\n", 14);
    backtrace_symbols_fd(frames, backtrace(frames, 64), 2);
    signal(number, SIG_DFL);
    raise(number);
}

__attribute__((constructor)) static void install(void)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    struct sigaction action = {.sa_handler = print_stack, .sa_flags = SA_NODEFER};
    void *frames[1];

    backtrace(frames, 1); /* it loads libgcc, which a handler must not */
    for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        sigaction(numbers[i], &action, 0);
}
"""


def environment(directory: Path) -> dict[str, str]:
    """The environment of a program that prints a stack when it crashes, if there is a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        return dict(os.environ)
    (directory / "crash_stack.c").write_text(SOURCE)
    library = directory / "crash_stack.so"
    command = [compiler, "-shared", "-fPIC", "-o", str(library), str(directory / "crash_stack.c")]
    subprocess.run(command, check=True, timeout=300)
    others = os.environ.get("LD_PRELOAD")
    return {**os.environ, "LD_PRELOAD": f"{library}:{others}" if others else str(library)}


def run(command: list[str], directory: Path, seconds: int) -> None:
    """Runs a program that must succeed. One that takes too long is ended with its stack."""
    process = subprocess.Popen(
        command, cwd=directory, env=environment(directory), stderr=subprocess.PIPE, text=True
    )
    try:
        _, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        _, errors = process.communicate(timeout=seconds)
        raise AssertionError(f"the program hangs:\n{errors}") from None
    assert process.returncode == 0, f"exit status {process.returncode}:\n{errors}"
    print(errors, file=sys.stderr)
