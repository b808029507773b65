"""src/driver/hip_abi.h against HIP's own header, which Triton's wheels bring along."""

import re

from abi_support import (
    SRC, amd_include, assertions, compile_errors, equal, preprocess, read_types, sizes,
)

ABI = SRC / "driver" / "hip_abi.h"

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
    "hipHostFn_t": "hip_host_fn",
    "hipPointer_attribute": "int",
    "hipDeviceProp_t": "hip_properties",
    "unsigned int": "unsigned",
    # Not of the type; the last is their macro, where it stands for a name.
    r"const|__dparm\(\d+\)|hipGetDevicePropertiesR0600": "",
}
HEAD = f"""
#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>
#include "{ABI}"
"""


def _include() -> str:
    return amd_include("hip/hip_runtime_api.h")


def test_constants():
    defined = set(re.findall(r"^#define (HIP_[A-Z_]+) \d", ABI.read_text(), re.MULTILINE))
    assert defined == set(CONSTANTS)
    assert compile_errors(HEAD + assertions(equal(CONSTANTS)), _include()) == ""


def test_properties():
    """Their macro makes hipDeviceProp_t the structure that hipGetDevicePropertiesR0600 fills."""
    ours, theirs = "struct hip_properties", "hipDeviceProp_t"
    checks = sizes(ours, theirs, [("arch", "gcnArchName")])
    checks.append(f"offsetof({theirs}, gcnArchName) == offsetof({ours}, arch)")
    checks.append(f"sizeof({theirs}) <= sizeof({ours})")
    assert compile_errors(HEAD + assertions(checks), _include()) == ""
    text = preprocess(HEAD + "int name = sizeof(hipGetDeviceProperties);", _include())
    assert "sizeof(hipGetDevicePropertiesR0600)" in text


def test_prototypes():
    text = preprocess(HEAD, _include())
    ours = re.findall(r"\tX\((\w+),\s+\(([^)]*)\)\)", ABI.read_text().replace("\\\n", ""))
    assert len(ours) > 20
    for name, arguments in ours:
        found = re.search(rf"hipError_t {name}\(([^()]*(?:\([^()]*\)[^()]*)*)\)", text)
        assert found, name
        theirs = found.group(1).replace("hipDeviceProp_tR0600", "hipDeviceProp_t")
        assert read_types(arguments, TYPES) == read_types(theirs, TYPES), name
