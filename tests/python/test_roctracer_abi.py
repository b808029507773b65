"""src/backend/amd/roctracer_abi.h against the headers of roctracer and HIP in Triton's wheels."""

import os
import re

from abi_support import (
    SRC, amd_include, assertions, compile_errors, equal, preprocess, read_layouts,
    read_memory_calls, read_structs, read_types, same_fields, same_structs,
)

AMD = SRC / "backend" / "amd"

CONSTANTS = {
    "ROCTRACER_OK": "ROCTRACER_STATUS_SUCCESS",
    "ROCTRACER_E_ERROR": "ROCTRACER_STATUS_ERROR",
    "ROCTRACER_E_INVALID_DOMAIN": "ROCTRACER_STATUS_ERROR_INVALID_DOMAIN_ID",
    "ROCTRACER_E_INVALID_ARGUMENT": "ROCTRACER_STATUS_ERROR_INVALID_ARGUMENT",
    "ROCTRACER_E_NO_POOL": "ROCTRACER_STATUS_ERROR_DEFAULT_POOL_UNDEFINED",
    "ROCTRACER_E_POOL_EXISTS": "ROCTRACER_STATUS_ERROR_DEFAULT_POOL_ALREADY_DEFINED",
    "ROCTRACER_E_OUT_OF_MEMORY": "ROCTRACER_STATUS_ERROR_MEMORY_ALLOCATION",
    "ROCTRACER_E_NOT_IMPLEMENTED": "ROCTRACER_STATUS_ERROR_NOT_IMPLEMENTED",
    "ROCTRACER_MAJOR": "ROCTRACER_VERSION_MAJOR",
    "ROCTRACER_MINOR": "ROCTRACER_VERSION_MINOR",
    "ROCTRACER_DOMAIN_HIP_OPS": "ACTIVITY_DOMAIN_HIP_OPS",
    "ROCTRACER_DOMAIN_HIP_API": "ACTIVITY_DOMAIN_HIP_API",
    "ROCTRACER_DOMAIN_EXTERNAL": "ACTIVITY_DOMAIN_EXT_API",
    "ROCTRACER_DOMAIN_ROCTX": "ACTIVITY_DOMAIN_ROCTX",
    "ROCTRACER_ENTER": "ACTIVITY_API_PHASE_ENTER",
    "ROCTRACER_EXIT": "ACTIVITY_API_PHASE_EXIT",
    "ROCTRACER_OP_DISPATCH": "kHipVdiOpIdDispatch",
    "ROCTRACER_OP_COPY": "kHipVdiOpIdCopy",
    "ROCTRACER_OP_BARRIER": "kHipVdiOpIdBarrier",
    "ROCTRACER_COMMAND_KERNEL": "kHipVdiCommandKernel",
    "ROCTRACER_COMMAND_TASK": "kHipVdiCommandTask",
    "ROCTRACER_COMMAND_DTOH": "kHipVdiMemcpyDeviceToHost",
    "ROCTRACER_COMMAND_HTOD": "kHipHipVdiMemcpyHostToDevice",
    "ROCTRACER_COMMAND_DTOD": "kHipVdiMemcpyDeviceToDevice",
    "ROCTRACER_COMMAND_DTOH_RECT": "kHipVidMemcpyDeviceToHostRect",
    "ROCTRACER_COMMAND_HTOD_RECT": "kHipVdiMemcpyHostToDeviceRect",
    "ROCTRACER_COMMAND_DTOD_RECT": "kHipVdiMemcpyDeviceToDeviceRect",
    "ROCTRACER_COMMAND_FILL": "kHipVdiFillMemory",
    "ROCTRACER_ROCTX_PUSH": "ROCTX_API_ID_roctxRangePushA",
    "ROCTRACER_ROCTX_POP": "ROCTX_API_ID_roctxRangePop",
}
# Our struct, theirs, fields.
STRUCTS = """
roctracer_record activity_record_t: domain kind op correlation_id begin_ns end_ns device_id queue_id
    bytes kernel_name
roctracer_properties roctracer_properties_t: mode buffer_bytes=buffer_size allocate=alloc_fun
    allocate_user=alloc_arg on_buffer=buffer_callback_fun on_buffer_user=buffer_callback_arg
roctracer_roctx_data roctx_api_data_t: message=args.roctxRangePushA.message id=args.id
"""
# Arguments of launches: their call, its sizes, with {} for an axis, its shared memory and stream.
LAUNCHES = """
hipLaunchKernel numBlocks.{} dimBlocks.{} sharedMemBytes stream
hipExtLaunchKernel numBlocks.{} dimBlocks.{} sharedMemBytes stream
hipModuleLaunchKernel gridDim{} blockDim{} sharedMemBytes stream
hipModuleLaunchCooperativeKernel gridDim{} blockDim{} sharedMemBytes stream
hipExtModuleLaunchKernel globalWorkSize{} localWorkSize{} sharedMemBytes hStream
hipHccModuleLaunchKernel globalWorkSize{} blockDim{} sharedMemBytes hStream
hipLaunchCooperativeKernel gridDim.{} blockDimX.{} sharedMemBytes stream
hipDrvLaunchKernelEx gridDim{} blockDim{} sharedMemBytes hStream
hipLaunchKernelExC gridDim.{} blockDim.{} dynamicSmemBytes stream
"""
# To which the first word of these points.
CONFIGS = {"hipDrvLaunchKernelEx": "HIP_LAUNCH_CONFIG", "hipLaunchKernelExC": "hipLaunchConfig_t"}
# Calls on graphs: their fields are read as words of these numbers.
WORDS = """
graph hipGraphLaunch: 0=graphExec 1=stream
graph hipStreamBeginCapture: 0=stream
graph hipStreamBeginCaptureToGraph: 0=stream
graph hipStreamEndCapture: 0=stream 1=pGraph
graph hipGraphInstantiate: 0=pGraphExec 2=graph
graph hipGraphInstantiateWithFlags: 0=pGraphExec 2=graph
graph hipGraphInstantiateWithParams: 0=pGraphExec 2=graph
graph hipGraphExecUpdate: 0=hGraphExec 1=hGraph
graph hipGraphExecDestroy: 0=graphExec
graph hipGraphDestroy: 0=graph
graph hipGraphClone: 0=pGraphClone 2=originalGraph
"""
HEAD = f"""
#define __HIP_PLATFORM_AMD__
#include <stddef.h>
#include <hip/hip_runtime_api.h>
#include <stdbool.h>
#include <hip/amd_detail/hip_prof_str.h>
#include <hip/amd_detail/hip_runtime_prof.h>
#include <roctracer/roctracer.h>
#include <roctracer/roctracer_roctx.h>
#include "{AMD}/roctracer_abi.h"
"""


def _includes() -> list[str]:
    include = amd_include("roctracer/roctracer.h")
    return [include, os.path.join(include, "roctracer")]


def _assert_all(checks: list[str]) -> None:
    assert compile_errors(HEAD + assertions(checks), *_includes()) == ""


def _read(name: str) -> str:
    return (AMD / name).read_text()


def _prof_str() -> str:
    with open(os.path.join(_includes()[0], "hip", "amd_detail", "hip_prof_str.h")) as file:
        return file.read()


def test_constants():
    ours = set(re.findall(r"^\t(ROCTRACER_\w+) = ", _read("roctracer_abi.h"), re.MULTILINE))
    ours |= set(re.findall(r"^#define (ROCTRACER_\w+) \d", _read("roctracer_abi.h"), re.MULTILINE))
    assert ours == set(CONSTANTS)
    _assert_all(equal(CONSTANTS))


def test_structs():
    _assert_all(same_structs(read_structs(STRUCTS)))


def test_arguments_of_calls():
    fields = [("correlation_id", "correlation_id"), ("phase", "phase")]
    fields += [
        (f"arguments[{word}]", f"args.{call}.{field}")
        for _, call, pairs in read_structs(WORDS)
        for word, field in pairs
    ]
    fields += [("arguments[0]", f"args.{call}.config") for call in CONFIGS]
    _assert_all(same_fields("struct roctracer_hip_call", "hip_api_data_t", fields))


def test_configurations_of_launches():
    places = read_layouts(AMD)
    arguments = dict(re.findall(r"^L\((\w+), (\w+), LAUNCH_ONE\)$", _read("hip_calls.def"), re.M))
    checks = []
    for line in LAUNCHES.strip().splitlines():
        call, grid, block, shared, stream = line.split()
        place = places[arguments.pop(call)]
        assert (place["is_pointer"] == "true") == (call in CONFIGS)
        axes = "xyz" if "." in grid else "XYZ"
        fields = [*map(grid.format, axes), *map(block.format, axes), shared, stream]
        ours = [int(place["grid"]) + 4 * i for i in range(6)]
        ours += [int(place["shared_bytes"]), int(place["stream"])]
        for mine, field in zip(ours, fields, strict=True):
            if call in CONFIGS:
                checks.append(f"offsetof({CONFIGS[call]}, {field}) == {mine}")
                continue
            checks.append(f"offsetof(hip_api_data_t, args.{call}.{field})"
                          f" == offsetof(hip_api_data_t, args) + {mine}")
    assert arguments == {"hipLaunchByPtr": "ARGUMENTS_NONE"}
    assert places["ARGUMENTS_GRAPH"]["stream"] == "8"
    _assert_all(checks)


def test_streams_of_memory_calls():
    calls = read_memory_calls(AMD)
    assert len(calls) > 50
    structs = re.findall(r"    struct {\n((?: {6}.*\n)*) {4}} (\w+);", _prof_str())
    body_of = {name: body for body, name in structs}
    checks = []
    for call, place, _ in calls:
        stream = re.search(r"hipStream_t (\w+);", body_of[call])
        assert bool(stream) == (place != "NO_STREAM"), call
        if stream:
            field = f"offsetof(hip_api_data_t, args.{call}.{stream.group(1)})"
            checks.append(f"{field} == offsetof(hip_api_data_t, args) + {place}")
    _assert_all(checks)


def test_the_list_of_calls_has_every_launch_and_every_copy_of_the_header():
    theirs = set(re.findall(r"HIP_API_ID_(hip\w+) = \d", _prof_str()))
    ours = set(re.findall(r"^[LG]\((hip\w+).*\)$", _read("hip_calls.def"), re.MULTILINE))
    ours |= {name for name, _, _ in read_memory_calls(AMD)}
    assert ours <= theirs
    launches = {name for name in theirs if re.search(r"Launch(?!HostFunc)", name)}
    copies = {name for name in theirs if re.match(r"hip(Drv)?Mem(cpy|set)", name)}
    assert ours == launches | copies
    captures = {name for name in theirs if re.match(r"hipStream(Begin|End)Capture", name)}
    assert captures <= set(re.findall(r"X\((hip\w+),", _read("hip_graphs.h")))
    changes = r"hipSetDevice|hipCtx(Create|Destroy|\w*Current)"
    devices = {name for name in theirs if re.fullmatch(changes, name)} - {"hipCtxGetCurrent"}
    assert devices == set(re.findall(r"^D\((hip\w+)\)$", _read("hip_calls.def"), re.MULTILINE))


# Enumerations and pointers, as the header has them and as we do.
TYPES = {
    "activity_domain_t": "int",
    "roctracer_domain_t": "int",
    "activity_rtapi_callback_t": "roctracer_callback_fn",
    "roctracer_rtapi_callback_t": "roctracer_callback_fn",
    "roctracer_properties_t": "roctracer_properties",
    "activity_record_t": "roctracer_record",
    "roctracer_timestamp_t": "uint64_t",
    "roctracer_pool_t": "void",
    "const": "",
}


def test_prototypes():
    text = preprocess("#include <roctracer/roctracer.h>", *_includes())
    ours = re.findall(r"^V\((\w+),\s*\(([^()]*)\)\)$", _read("roctracer_symbols.def"), re.MULTILINE)
    assert len(ours) >= 10
    for name, arguments in ours:
        found = re.search(rf"(roctracer_status_t|uint32_t) {name}\(([^()]*)\)", text)
        assert found, name
        assert read_types(found.group(2), TYPES) == read_types(arguments, TYPES), name


def test_callbacks():
    pairs = (
        ("roctracer_callback_fn", "activity_rtapi_callback_t"),
        ("roctracer_buffer_fn", "roctracer_buffer_callback_t"),
        ("roctracer_allocate_fn", "roctracer_allocator_t"),
    )
    _assert_all([f"__builtin_types_compatible_p({o}, {t})" for o, t in pairs])
