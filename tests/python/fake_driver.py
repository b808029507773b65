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
        timeout=300,
    )


def _parts(prefix: str) -> list[Path]:
    """The sources of a profiling library of AMD's, with what these share."""
    return [path for name in (prefix, "amd_") for path in sorted(FAKE.glob(f"{name}*.c"))]


def _calibration_kernel(directory: Path) -> Path:
    """The C source of the calibration kernel, which is embedded at build time."""
    intra = ROOT / "src" / "backend" / "intra"
    source = directory / "calibrate_kernel.c"
    command = [sys.executable, intra / "embed_ptx.py", intra / "calibrate_kernel.ptx", source]
    subprocess.run(command, check=True, timeout=300)
    return source


@functools.lru_cache(maxsize=None)
def hip_library() -> Path:
    """A libamdhip64 under its own name."""
    directory = Path(tempfile.mkdtemp(prefix="proton-fake-"))
    path = directory / "libamdhip64.so"
    names = ("faults", "cuda_append", "cuda_calibrate", "cuda_memory")
    sources = [FAKE / f"{name}.c" for name in names] + sorted(FAKE.glob("hip*.c"))
    sources.append(_calibration_kernel(directory))
    _build(path, sources, f"-Wl,--version-script,{FAKE / 'hip.map'}")
    name = "librocprofiler-register.so.0"
    _build(directory / name, [FAKE / "register.c"], f"-Wl,-soname,{name}")
    return path


@functools.lru_cache(maxsize=None)
def sdk_library() -> Path:
    """A librocprofiler-sdk under its own name."""
    directory = Path(tempfile.mkdtemp(prefix="proton-fake-"))
    entries = directory / "entries.c"
    symbols = ROOT / "src" / "backend" / "amd" / "sdk_symbols.def"
    command = [sys.executable, FAKE / "make_entries.py", symbols, entries, "rocprofiler_"]
    subprocess.run(command, check=True, timeout=300)
    path = directory / "librocprofiler-sdk.so.1"
    _build(path, [FAKE / "faults.c", *_parts("sdk_"), entries])
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
            timeout=300,
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

/* The program loads HIP, if that is what it has. */
__attribute__((visibility("default"))) void load(void)
{
    if (getenv("FAKE_LAUNCHES"))
        dlopen(getenv("PROTON_HIP_PATH"), RTLD_NOW);
}

/* A session that began before HIP was loaded has found it: roctracer's backend looks for it. */
__attribute__((visibility("default"))) int is_found(void)
{
    void *library = dlopen(getenv("FAKE_LAUNCHES"), RTLD_NOW);
    unsigned (*calls)(const char *) = dlsym(library, "fake_calls");

    return calls("roctracer_enable_op_activity_expl") != 0;
}

__attribute__((visibility("default"))) void launch(const char *name, unsigned long long nanoseconds)
{
    static unsigned long long now_ns = 1000;
    char *kept = strdup(name); /* the fake hands over the pointer with the record, later */
    struct fake_launch one = {.call = CUPTI_CALL_LAUNCH_KERNEL, .name = kept, .context = &one,
                              .stream = 7, .records = 1};
    const char *cuda = getenv("PROTON_CUDA_PATH");
    const char *amd = getenv("FAKE_LAUNCHES"); /* the fake of an AMD library */
    void *library = dlopen(amd ? amd : getenv("PROTON_CUPTI_PATH"), RTLD_NOW);
    if (!amd)
        ((int (*)(unsigned))dlsym(dlopen(cuda, RTLD_NOW), "cuInit"))(0);
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


def machine(backend: str, **changes: str | None) -> dict[str, str]:
    """This process's environment, on a machine on which `backend` is the default.

    launcher() launches there.
    """
    if backend == "cupti":
        return fake_environment(**changes)
    if backend == "roctracer":
        path = hip_libraries()["PROTON_ROCTRACER_PATH"]
        return hip_environment(FAKE_LAUNCHES=path, **changes)
    found = {
        "PROTON_BACKEND": None,
        "PROTON_ROCPROFILER_SDK_PATH": str(sdk_library()),
        "PROTON_HIP_PATH": str(hip_library()),
        "FAKE_LAUNCHES": str(sdk_library()),
    }
    return environment(**{**found, **changes})


HIP_LAUNCHER = """
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "fake/fake_roctracer.h"

static void *find(const char *variable, const char *name)
{
    return dlsym(dlopen(getenv(variable), RTLD_NOW), name);
}

FAKE_EXPORT void load_hip(void)
{
    dlopen(getenv("PROTON_HIP_PATH"), RTLD_NOW);
}

FAKE_EXPORT int is_recorded(void)
{
    uint32_t (*calls)(const char *) = find("PROTON_ROCTRACER_PATH", "fake_calls");

    return calls("roctracer_enable_op_activity_expl") != 0;
}

FAKE_EXPORT void launch(const char *name, unsigned long long nanoseconds, unsigned records)
{
    struct fake_hip_launch one = {.call = "hipModuleLaunchKernel", .name = name, .node = 1,
                                  .records = records};
    uint64_t (*fake)(const struct fake_hip_launch *) =
        find("PROTON_ROCTRACER_PATH", "fake_hip_call");

    one.start_ns = ((uint64_t (*)(void))find("PROTON_ROCTRACER_PATH", "fake_now"))();
    one.end_ns = one.start_ns + nanoseconds;
    fake(&one);
}

FAKE_EXPORT void push(const char *name)
{
    ((int (*)(const char *))find("PROTON_ROCTX_PATH", "roctxRangePushA"))(name);
}

FAKE_EXPORT void pop(void)
{
    ((int (*)(void))find("PROTON_ROCTX_PATH", "roctxRangePop"))();
}
"""


@functools.lru_cache(maxsize=None)
def hip_libraries() -> dict[str, str]:
    """A machine with ROCm 6 and a GPU: variables of the environment."""
    directory = Path(tempfile.mkdtemp(prefix="proton-fake-"))
    entries = directory / "roctracer_entries.c"
    symbols = ROOT / "src" / "backend" / "amd" / "roctracer_symbols.def"
    command = [sys.executable, FAKE / "make_entries.py", symbols, entries]
    subprocess.run(command, check=True, timeout=300)
    sources = [FAKE / "faults.c", *_parts("roctracer")]
    _build(directory / "libroctracer64.so", [*sources, entries])
    _build(directory / "libroctx64.so", [FAKE / "roctx.c"])
    (directory / "launcher.c").write_text(HIP_LAUNCHER)
    _build(directory / "launcher.so", [directory / "launcher.c"])
    for node, properties in enumerate(("simd_count 0", "simd_count 1216")):
        place = directory / "nodes" / str(node)
        place.mkdir(parents=True)
        (place / "name").write_text("\n")
        (place / "gpu_id").write_text(f"{node}\n")
        (place / "properties").write_text(f"{properties}\n")
    return {
        "PROTON_HIP_PATH": str(hip_library()),
        "PROTON_ROCTRACER_PATH": str(directory / "libroctracer64.so"),
        "PROTON_ROCTX_PATH": str(directory / "libroctx64.so"),
        "PROTON_KFD_TOPOLOGY": str(directory),
        "HIP_LAUNCHER": str(directory / "launcher.so"),
    }


def hip_environment(**changes: str | None) -> dict[str, str]:
    """This process's environment, on that machine."""
    changes.setdefault("PROTON_BACKEND", None)
    return environment(**{**hip_libraries(), **changes})
