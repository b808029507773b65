"""The fake libraries of the build (tests/fake), for tests of programs."""

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from built import FAKES
from cmd_support import environment
from support import run_command

ROOT = Path(__file__).resolve().parents[2]
CC = shutil.which(os.environ.get("CC", "cc"))
INCLUDES = [f"-I{ROOT / name}" for name in ("src", "tests", "include")]


def _build(path: Path, source: str) -> None:
    path.with_suffix(".c").write_text(source)
    subprocess.run(
        [CC, "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-w", "-shared", "-fPIC", "-pthread"]
        + ["-fvisibility=hidden", *INCLUDES, "-o", path, path.with_suffix(".c")],
        check=True,
        timeout=300,
    )


def _copy(**libraries: str) -> Path:
    """A new folder with fakes of the build (by key) under their own names (values)."""
    directory = Path(tempfile.mkdtemp(prefix="proton-fake-"))
    for fake, name in libraries.items():
        shutil.copy(FAKES / f"libfake_{fake}.so", directory / name)
    return directory


@functools.lru_cache(maxsize=None)
def hip_library() -> Path:
    """A libamdhip64 under its own name."""
    directory = _copy(hip="libamdhip64.so")
    shutil.copy(FAKES / "librocprofiler-register.so.0", directory)
    return directory / "libamdhip64.so"


@functools.lru_cache(maxsize=None)
def sdk_library() -> Path:
    """A librocprofiler-sdk under its own name."""
    return _copy(rocprofiler_sdk="librocprofiler-sdk.so.1") / "librocprofiler-sdk.so.1"


def libraries() -> dict[str, str]:
    """Where the backend and programs find them: variables of the environment."""
    names = ("cuda", "cupti")
    return {f"PROTON_{name.upper()}_PATH": str(FAKES / f"libfake_{name}.so") for name in names}


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
    _build(directory / "launcher.so", LAUNCHER)
    return str(directory / "launcher.so")


# struct fake_launch in Python; its size is fake_launch_bytes of the libraries.
LAUNCH_STRUCT = """
class Launch(ctypes.Structure):
    _fields_ = [
        ("call", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        ("context", ctypes.c_void_p),
        ("device", ctypes.c_uint32),
        ("stream", ctypes.c_uint32),
        ("records", ctypes.c_uint32),
        ("start_ns", ctypes.c_uint64),
        ("end_ns", ctypes.c_uint64),
        ("unseen", ctypes.c_bool),
        ("node_id", ctypes.c_uint64),
        ("captures", ctypes.c_uint64),
        ("result", ctypes.c_int),
        ("config", ctypes.c_uint32 * 9),
        ("function", ctypes.c_void_p),
        ("takes_us", ctypes.c_uint32),
        ("inside", ctypes.c_void_p),
    ]
"""

# The same for struct fake_pc.
PC_STRUCT = """
class Pc(ctypes.Structure):
    _fields_ = [
        ("crc", ctypes.c_uint64),
        ("function", ctypes.c_char_p),
        ("reason", ctypes.c_char_p),
        ("offset", ctypes.c_uint32),
        ("samples", ctypes.c_uint32),
        ("not_issued", ctypes.c_uint32),
        ("correlation", ctypes.c_uint32),
        ("is_of_graph", ctypes.c_bool),
    ]
"""


def fake_environment(**changes: str | None) -> dict[str, str]:
    """This process's environment, on a machine that has the fake driver."""
    changes.setdefault("PROTON_BACKEND", None)
    changes.setdefault("CUDA_INJECTION64_PATH", None)
    return environment(**{**libraries(), **changes})


def run_python(
    folder: Path, *words: str, status: int | None = 0, **changes: str | None
) -> subprocess.CompletedProcess[str]:
    """Run Python on that machine, in `folder`. It may import modules of the folder and of this one,
    and compiles into a cache of the folder."""
    environ = fake_environment(**{"TRITON_CACHE_DIR": str(folder / "cache"), **changes})
    places = [str(folder), str(Path(__file__).parent), environ.get("PYTHONPATH", "")]
    environ["PYTHONPATH"] = os.pathsep.join(places)
    return run_command([sys.executable, *words], cwd=folder, env=environ, status=status)


def run_program(
    folder: Path, text: str, *words: str, status: int | None = 0, **changes: str | None
) -> subprocess.CompletedProcess[str]:
    """The same with a program's text."""
    (folder / "program.py").write_text(text)
    return run_python(folder, "program.py", *words, status=status, **changes)


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


@functools.lru_cache(maxsize=None)
def hip_libraries() -> dict[str, str]:
    """A machine with ROCm 6 and a GPU: variables of the environment."""
    directory = _copy(roctracer="libroctracer64.so", roctx="libroctx64.so")
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
    }


def hip_environment(**changes: str | None) -> dict[str, str]:
    """This process's environment, on that machine."""
    changes.setdefault("PROTON_BACKEND", None)
    return environment(**{**hip_libraries(), **changes})
