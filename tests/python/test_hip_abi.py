"""src/driver/hip_abi.h against HIP's own header, which Triton's wheels bring along."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ABI = os.path.join(ROOT, "src", "driver", "hip_abi.h")

CONSTANTS = {
    "HIP_E_OUT_OF_MEMORY": "hipErrorOutOfMemory",
    "HIP_E_DEINITIALIZED": "hipErrorDeinitialized",
    "HIP_E_INVALID_CONTEXT": "hipErrorInvalidContext",
    "HIP_E_NOT_READY": "hipErrorNotReady",
    "HIP_E_NOT_SUPPORTED": "hipErrorNotSupported",
    "HIP_CAPTURE_RELAXED": "hipStreamCaptureModeRelaxed",
    "HIP_STREAM_NON_BLOCKING": "hipStreamNonBlocking",
    "HIP_EVENT_BLOCKING_SYNC": "hipEventBlockingSync",
    "HIP_EVENT_DISABLE_TIMING": "hipEventDisableTiming",
    "HIP_HOST_PORTABLE": "hipHostMallocPortable",
    "HIP_COPY_TO_DEVICE": "hipMemcpyHostToDevice",
    "HIP_POINTER_DEVICE": "HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL",
    "HIP_ATTRIBUTE_CLOCK_RATE": "hipDeviceAttributeClockRate",
    "HIP_ATTRIBUTE_BUS_WIDTH": "hipDeviceAttributeMemoryBusWidth",
    "HIP_ATTRIBUTE_MEMORY_CLOCK_RATE": "hipDeviceAttributeMemoryClockRate",
    "HIP_ATTRIBUTE_PROCESSORS": "hipDeviceAttributeMultiprocessorCount",
    "HIP_ATTRIBUTE_WALL_CLOCK_RATE": "hipDeviceAttributeWallClockRate",
}
# Enumerations, handles and pointers to them, as the header has them and as we do.
TYPES = {
    "hipError_t": "int",
    "hipDevice_t": "int",
    "hipDeviceAttribute_t": "int",
    "hipStreamCaptureMode": "int",
    "hipStreamCaptureStatus": "int",
    "hipMemcpyKind": "int",
    "hipStream_t": "void *",
    "hipEvent_t": "void *",
    "hipDeviceptr_t": "void *",
    "hipDeviceProp_t": "struct hip_properties",
    "unsigned int": "unsigned",
}


def _include() -> str:
    path = os.path.join(sysconfig.get_paths()["purelib"], "triton", "backends", "amd", "include")
    if not os.path.exists(os.path.join(path, "hip", "hip_runtime_api.h")):
        pytest.skip("no Triton with HIP's headers")
    return path


def _compiler() -> str:
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if found is None:
        pytest.skip("no C compiler")
    return found


def _compile(tmp_path, text: str) -> None:
    source = tmp_path / "abi.c"
    source.write_text(text)
    made = subprocess.run(
        [_compiler(), "-std=gnu11", "-fsyntax-only", "-I", _include(), str(source)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert made.returncode == 0, made.stderr


HEAD = f"""
#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>
#include "{ABI}"
"""


def test_constants(tmp_path):
    defined = set(re.findall(r"^#define (HIP_[A-Z_]+) \d", open(ABI).read(), re.MULTILINE))
    assert defined == set(CONSTANTS)
    checks = (f'_Static_assert({o} == {t}, "{o}");' for o, t in CONSTANTS.items())
    _compile(tmp_path, HEAD + "\n".join(checks))


def test_properties(tmp_path):
    """Their macro makes hipDeviceProp_t the structure that hipGetDevicePropertiesR0600 fills."""
    _compile(
        tmp_path,
        HEAD
        + """
        _Static_assert(offsetof(hipDeviceProp_t, gcnArchName) ==
                       offsetof(struct hip_properties, arch), "arch");
        _Static_assert(sizeof(((hipDeviceProp_t *)0)->gcnArchName) ==
                       sizeof(((struct hip_properties *)0)->arch), "arch");
        _Static_assert(sizeof(hipDeviceProp_t) <= sizeof(struct hip_properties), "room");
        int (*properties)(struct hip_properties *, int) =
            (int (*)(struct hip_properties *, int))hipGetDeviceProperties;
        """,
    )
    made = subprocess.run(
        [_compiler(), "-E", "-I", _include(), "-x", "c", "-"],
        input=HEAD + "int name = sizeof(hipGetDeviceProperties);",
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert "sizeof(hipGetDevicePropertiesR0600)" in made.stdout


def _plain(arguments: str) -> list[str]:
    """Types of parameters, as ours are written."""
    types = []
    for one in arguments.split(","):
        one = re.sub(r"\b(const|enum|struct(?! hip_properties))\b", "", one)
        one = re.sub(r"__dparm\(\d+\)", "", one)
        one = re.sub(r"\bhipGetDevicePropertiesR0600\b", "", one)
        words = re.findall(r"\w+|\*", one)
        if words and words[-1] != "*" and len(words) > 1:
            words.pop()  # the name
        text = " ".join(words)
        for theirs, ours in TYPES.items():
            text = re.sub(rf"\b{theirs}\b", ours, text)
        types.append(text.replace(" ", ""))
    return types


def test_prototypes(tmp_path):
    made = subprocess.run(
        [_compiler(), "-E", "-P", "-I", _include(), "-x", "c", "-"],
        input=HEAD,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    text = re.sub(r"\s+", " ", made.stdout)
    ours = re.findall(r"\tX\((\w+),\s+\(([^)]*)\)\)", open(ABI).read().replace("\\\n", ""))
    assert len(ours) > 20
    for name, arguments in ours:
        found = re.search(rf"hipError_t {name}\(([^()]*(?:\([^()]*\)[^()]*)*)\)", text)
        assert found, name
        theirs = found.group(1).replace("hipDeviceProp_tR0600", "hipDeviceProp_t")
        assert _plain(arguments) == _plain(theirs), name
