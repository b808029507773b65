"""src/backend/amd/roctracer_abi.h against the headers of roctracer and HIP in Triton's wheels."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
AMD = os.path.join(ROOT, "src", "backend", "amd")

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
# Our struct, theirs, fields; the sizes are equal too.
STRUCTS = [
    (
        "roctracer_record",
        "activity_record_t",
        {
            "domain": "domain",
            "kind": "kind",
            "op": "op",
            "correlation_id": "correlation_id",
            "begin_ns": "begin_ns",
            "end_ns": "end_ns",
            "device_id": "device_id",
            "queue_id": "queue_id",
            "bytes": "bytes",
            "kernel_name": "kernel_name",
        },
    ),
    (
        "roctracer_properties",
        "roctracer_properties_t",
        {
            "mode": "mode",
            "buffer_bytes": "buffer_size",
            "allocate": "alloc_fun",
            "allocate_user": "alloc_arg",
            "on_buffer": "buffer_callback_fun",
            "on_buffer_user": "buffer_callback_arg",
        },
    ),
    (
        "roctracer_roctx_data",
        "roctx_api_data_t",
        {"message": "args.roctxRangePushA.message", "id": "args.id"},
    ),
]
CONFIGS = [
    (
        "roctracer_drv_config",
        "HIP_LAUNCH_CONFIG",
        "gridDim{}",
        "blockDim{}",
        "sharedMemBytes",
        "hStream",
    ),
    (
        "roctracer_exc_config",
        "hipLaunchConfig_t",
        "gridDim.{}",
        "blockDim.{}",
        "dynamicSmemBytes",
        "stream",
    ),
]
DIM3 = ("numBlocks.{}", "dimBlocks.{}", "sharedMemBytes", "stream")
MODULE = ("gridDim{}", "blockDim{}", "sharedMemBytes", "stream")
# Names of the calls' fields: grid, block, shared memory, stream.
CALLS = {
    "hipLaunchKernel": ("launch_kernel.grid", *DIM3),
    "hipExtLaunchKernel": ("launch_kernel.grid", *DIM3),
    "hipModuleLaunchKernel": ("module_launch.grid", *MODULE),
    "hipModuleLaunchCooperativeKernel": ("module_launch.grid", *MODULE),
    "hipExtModuleLaunchKernel": (
        "ext_launch.items",
        "globalWorkSize{}",
        "localWorkSize{}",
        "sharedMemBytes",
        "hStream",
    ),
    "hipHccModuleLaunchKernel": (
        "ext_launch.items",
        "globalWorkSize{}",
        "blockDim{}",
        "sharedMemBytes",
        "hStream",
    ),
    "hipLaunchCooperativeKernel": (
        "cooperative_launch.grid",
        "gridDim.{}",
        "blockDimX.{}",
        "sharedMemBytes",
        "stream",
    ),
}
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


def _include() -> str:
    path = os.path.join(sysconfig.get_paths()["purelib"], "triton", "backends", "amd", "include")
    if not os.path.exists(os.path.join(path, "roctracer", "roctracer.h")):
        pytest.skip("no Triton with roctracer's headers")
    return path


def _compiler() -> str:
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if found is None:
        pytest.skip("no C compiler")
    return found


def _run(arguments: list[str], text: str) -> subprocess.CompletedProcess:
    places = [f"-I{_include()}", f"-I{os.path.join(_include(), 'roctracer')}"]
    return subprocess.run(
        [_compiler(), "-std=gnu11", "-w", *places, *arguments, "-xc", "-"],
        input=text,
        capture_output=True,
        text=True,
        timeout=300,
    )


def _assert_all(checks: list[str]) -> None:
    lines = (f'_Static_assert({check}, "{number}");' for number, check in enumerate(checks))
    made = _run(["-fsyntax-only"], HEAD + "\n".join(lines))
    assert made.returncode == 0, made.stderr


def _read(name: str) -> str:
    with open(os.path.join(AMD, name)) as file:
        return file.read()


def test_constants():
    ours = set(re.findall(r"^\t(ROCTRACER_\w+) = ", _read("roctracer_abi.h"), re.MULTILINE))
    ours |= set(re.findall(r"^#define (ROCTRACER_\w+) \d", _read("roctracer_abi.h"), re.MULTILINE))
    assert ours == set(CONSTANTS)
    _assert_all([f"(long)({o}) == (long)({t})" for o, t in CONSTANTS.items()])


def test_structs():
    checks = []
    for ours, theirs, fields in STRUCTS:
        checks.append(f"sizeof(struct {ours}) == sizeof({theirs})")
        for mine, other in fields.items():
            checks.append(f"offsetof(struct {ours}, {mine}) == offsetof({theirs}, {other})")
            member = f"((struct {ours} *)0)->{mine}"
            checks.append(f"sizeof({member}) == sizeof((({theirs} *)0)->{other})")
    _assert_all(checks)


def _offsets(ours: str, theirs: str, fields: list[tuple[str, str]]) -> list[str]:
    checks = []
    for mine, other in fields:
        checks.append(f"offsetof({ours}, {mine}) == offsetof({theirs}, {other})")
        checks.append(f"sizeof((({ours} *)0)->{mine}) == sizeof((({theirs} *)0)->{other})")
    return checks


def _axes(mine: str, other: str) -> list[tuple[str, str]]:
    axes = "xyz" if "." in other else "XYZ"
    return [(f"{mine}[{i}]", other.format(axes[i])) for i in range(3)]


def test_arguments_of_calls():
    data = "hip_api_data_t"
    ours = "struct roctracer_hip_call"
    checks = _offsets(ours, data, [("correlation_id", "correlation_id"), ("phase", "phase")])
    for call, (mine, grid, block, shared, stream) in CALLS.items():
        struct = mine.split(".")[0]
        fields = _axes(mine, grid) + _axes(f"{struct}.block", block)
        fields += [(f"{struct}.shared_bytes", shared), (f"{struct}.stream", stream)]
        checks += _offsets(
            ours, data, [(f"args.{m}", f"args.{call}.{other}") for m, other in fields]
        )
    for call, mine in (
        ("hipDrvLaunchKernelEx.config", "drv_config"),
        ("hipLaunchKernelExC.config", "exc_config"),
        ("hipGraphLaunch.graphExec", "graph_launch.graph_exec"),
        ("hipGraphLaunch.stream", "graph_launch.stream"),
    ):
        checks += _offsets(ours, data, [(f"args.{mine}", f"args.{call}")])
    _assert_all(checks)


def test_arguments_of_calls_on_graphs():
    """hip_graphs.h reads them as words."""
    words = {
        "hipStreamBeginCapture.stream": 0,
        "hipStreamBeginCaptureToGraph.stream": 0,
        "hipStreamEndCapture.stream": 0,
        "hipStreamEndCapture.pGraph": 1,
        "hipGraphInstantiate.pGraphExec": 0,
        "hipGraphInstantiate.graph": 2,
        "hipGraphInstantiateWithFlags.pGraphExec": 0,
        "hipGraphInstantiateWithFlags.graph": 2,
        "hipGraphInstantiateWithParams.pGraphExec": 0,
        "hipGraphInstantiateWithParams.graph": 2,
        "hipGraphExecUpdate.hGraphExec": 0,
        "hipGraphExecUpdate.hGraph": 1,
        "hipGraphExecDestroy.graphExec": 0,
        "hipGraphDestroy.graph": 0,
        "hipGraphClone.pGraphClone": 0,
        "hipGraphClone.originalGraph": 2,
    }
    base = "offsetof(hip_api_data_t, args)"
    _assert_all(
        [f"offsetof(hip_api_data_t, args.{f}) == {base} + 8 * {w}" for f, w in words.items()]
    )


def test_streams_of_memory_calls():
    calls = re.findall(r"^M\((hip\w+), \w+, (\w+)\)$", _read("roctracer_calls.def"), re.MULTILINE)
    assert len(calls) > 50
    with open(os.path.join(_include(), "hip", "amd_detail", "hip_prof_str.h")) as file:
        structs = dict(
            (name, body)
            for body, name in re.findall(r"    struct {\n((?: {6}.*\n)*) {4}} (\w+);", file.read())
        )
    checks = []
    for call, place in calls:
        stream = re.search(r"hipStream_t (\w+);", structs[call])
        assert bool(stream) == (place != "NO_STREAM"), call
        if stream:
            field = f"offsetof(hip_api_data_t, args.{call}.{stream.group(1)})"
            checks.append(f"{field} == offsetof(hip_api_data_t, args) + {place}")
    _assert_all(checks)


def test_configurations_of_launches():
    checks = []
    for ours, theirs, grid, block, shared, stream in CONFIGS:
        fields = _axes("grid", grid) + _axes("block", block)
        fields += [("shared_bytes", shared), ("stream", stream)]
        checks += _offsets(f"struct {ours}", theirs, fields)
    _assert_all(checks)


def test_the_list_of_calls_has_every_launch_and_every_copy_of_the_header():
    header = os.path.join(_include(), "hip", "amd_detail", "hip_prof_str.h")
    with open(header) as file:
        theirs = set(re.findall(r"HIP_API_ID_(hip\w+) = \d", file.read()))
    ours = set(re.findall(r"^[LGM]\((hip\w+).*\)$", _read("roctracer_calls.def"), re.MULTILINE))
    assert ours <= theirs
    launches = {name for name in theirs if re.search(r"Launch(?!HostFunc)", name)}
    copies = {name for name in theirs if re.match(r"hip(Drv)?Mem(cpy|set)", name)}
    assert ours == launches | copies
    captures = {name for name in theirs if re.match(r"hipStream(Begin|End)Capture", name)}
    assert captures <= set(re.findall(r"X\((hip\w+),", _read("hip_graphs.h")))
    changes = r"hipSetDevice|hipCtx(Create|Destroy|\w*Current)"
    devices = {name for name in theirs if re.fullmatch(changes, name)} - {"hipCtxGetCurrent"}
    assert devices == set(re.findall(r"X\((hip\w+)\)", _read("roctracer_calls.h")))


# Enumerations and pointers, as the header has them and as we do.
TYPES = {
    "activity_domain_t": "int",
    "roctracer_domain_t": "int",
    "activity_rtapi_callback_t": "roctracer_callback_fn",
    "roctracer_rtapi_callback_t": "roctracer_callback_fn",
    "roctracer_properties_t": "struct roctracer_properties",
    "activity_record_t": "struct roctracer_record",
    "roctracer_timestamp_t": "uint64_t",
    "roctracer_pool_t": "void",
}


def _plain(arguments: str) -> list[str]:
    types = []
    for one in arguments.split(","):
        for theirs, ours in TYPES.items():
            one = re.sub(rf"\b{theirs}\b", ours, one)
        words = re.findall(r"\w+|\*", one.replace("const", "").replace("struct", ""))
        if words and words[-1] != "*" and len(words) > 1:
            words.pop()  # the name
        types.append("".join(words) or "void")
    return types


def test_prototypes():
    made = _run(["-E", "-P"], "#include <roctracer/roctracer.h>")
    assert made.returncode == 0, made.stderr
    text = re.sub(r"\s+", " ", made.stdout)
    ours = re.findall(r"^V\((\w+),\s*\(([^()]*)\)\)$", _read("roctracer_symbols.def"), re.MULTILINE)
    assert len(ours) >= 10
    for name, arguments in ours:
        found = re.search(rf"(roctracer_status_t|uint32_t) {name}\(([^()]*)\)", text)
        assert found, name
        assert _plain(found.group(2)) == _plain(arguments), name


def test_callbacks():
    pairs = (
        ("roctracer_callback_fn", "activity_rtapi_callback_t"),
        ("roctracer_buffer_fn", "roctracer_buffer_callback_t"),
        ("roctracer_allocate_fn", "roctracer_allocator_t"),
    )
    _assert_all([f"__builtin_types_compatible_p({o}, {t})" for o, t in pairs])
