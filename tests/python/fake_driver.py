"""The fake libcuda, libcupti and libamdhip64 (tests/fake), built for tests of programs."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cmd_support import environment

ROOT = Path(__file__).resolve().parents[2]
FAKE = ROOT / "tests" / "fake"
CC = shutil.which(os.environ.get("CC", "cc"))
INCLUDES = [f"-I{ROOT / name}" for name in ("src", "tests", "include")]


def _build(path: Path, sources: list[Path], *options: str) -> None:
    subprocess.run(
        [CC, "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-w", "-shared", "-fPIC", "-pthread"]
        + ["-fvisibility=hidden", *INCLUDES, *options, "-o", path, *sources],
        check=True,
    )


def _calibration_kernel(directory: Path) -> Path:
    """The C source of the calibration kernel, which is embedded at build time."""
    intra = ROOT / "src" / "backend" / "intra"
    source = directory / "calibrate_kernel.c"
    command = [sys.executable, intra / "embed_ptx.py", intra / "calibrate_kernel.ptx", source]
    subprocess.run(command, check=True)
    return source


@functools.lru_cache(maxsize=None)
def hip_library() -> Path:
    """A libamdhip64 under its own name."""
    directory = Path(tempfile.mkdtemp(prefix="proton-fake-"))
    path = directory / "libamdhip64.so"
    names = ("faults", "hip", "hip_launch", "cuda_append", "cuda_calibrate", "cuda_memory")
    sources = [FAKE / f"{name}.c" for name in names] + [_calibration_kernel(directory)]
    _build(path, sources, f"-Wl,--version-script,{FAKE / 'hip.map'}")
    return path


@functools.lru_cache(maxsize=None)
def libraries() -> dict[str, str]:
    """Where the backend and programs find them: variables of the environment."""
    directory = Path(tempfile.mkdtemp(prefix="proton-fake-"))
    found = {}
    kernel = _calibration_kernel(directory)
    symbols = {"cuda": "driver/cuda_functions.def", "cupti": "backend/cuda/cupti_symbols.def"}
    for library, definition in symbols.items():
        entries = directory / f"{library}_entries.c"
        subprocess.run(
            [sys.executable, FAKE / "make_entries.py", ROOT / "src" / definition, entries],
            check=True,
        )
        path = directory / f"libfake_{library}.so"
        _build(path, [FAKE / "faults.c", *sorted(FAKE.glob(f"{library}*.c")), entries, kernel])
        found[f"PROTON_{library.upper()}_PATH"] = str(path)
    return found


LAUNCHER = """
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "fake/fake_cupti.h"

__attribute__((visibility("default"))) void launch(const char *name, unsigned long long nanoseconds)
{
    static unsigned long long now_ns = 1000;
    char *kept = strdup(name); /* the fake hands over the pointer with the record, later */
    struct fake_launch one = {.call = CUPTI_CALL_LAUNCH_KERNEL, .name = kept, .context = &one,
                              .stream = 7, .records = 1};
    void *library = dlopen(getenv("PROTON_CUPTI_PATH"), RTLD_NOW);
    ((int (*)(unsigned))dlsym(dlopen(getenv("PROTON_CUDA_PATH"), RTLD_NOW), "cuInit"))(0);
    one.start_ns = now_ns;
    one.end_ns = now_ns += nanoseconds;
    ((unsigned (*)(const struct fake_launch *))dlsym(library, "fake_launch"))(&one);
}
"""


@functools.lru_cache(maxsize=None)
def launcher() -> str:
    """A library for ctypes: launch(b"kernel", 1000) launches a kernel that takes 1000 ns."""
    directory = Path(tempfile.mkdtemp(prefix="proton-fake-"))
    (directory / "launcher.c").write_text(LAUNCHER)
    _build(directory / "launcher.so", [directory / "launcher.c"])
    return str(directory / "launcher.so")


def fake_environment(**changes: str | None) -> dict[str, str]:
    """This process's environment, on a machine that has the fake driver."""
    changes.setdefault("PROTON_BACKEND", None)
    changes.setdefault("CUDA_INJECTION64_PATH", None)
    return environment(**{**libraries(), **changes})
