"""src/backend/amd/sdk_abi.h and sdk_calls.def against the vendor's headers in Triton's wheel.

The wheel (3.8 and later) has a subset of rocprofiler-sdk 1.2.1 and HIP 7.1.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
AMD = os.path.join(ROOT, "src", "backend", "amd")

STATUS = "ROCPROFILER_STATUS_ERROR_"
CONSTANTS = {
    "SDK_OK": "ROCPROFILER_STATUS_SUCCESS",
    "SDK_PHASE_NONE": "ROCPROFILER_CALLBACK_PHASE_NONE",
    "SDK_PHASE_ENTER": "ROCPROFILER_CALLBACK_PHASE_ENTER",
    "SDK_PHASE_LOAD": "ROCPROFILER_CALLBACK_PHASE_LOAD",
    "SDK_PHASE_EXIT": "ROCPROFILER_CALLBACK_PHASE_EXIT",
    "SDK_PHASE_UNLOAD": "ROCPROFILER_CALLBACK_PHASE_UNLOAD",
    "SDK_CATEGORY_TRACING": "ROCPROFILER_BUFFER_CATEGORY_TRACING",
    "SDK_POLICY_LOSSLESS": "ROCPROFILER_BUFFER_POLICY_LOSSLESS",
    "SDK_AGENT_VERSION_0": "ROCPROFILER_AGENT_INFO_VERSION_0",
    "SDK_AGENT_GPU": "ROCPROFILER_AGENT_TYPE_GPU",
    "SDK_CODE_OBJECT_LOAD": "ROCPROFILER_CODE_OBJECT_LOAD",
    "SDK_CODE_OBJECT_KERNEL_SYMBOL": "ROCPROFILER_CODE_OBJECT_DEVICE_KERNEL_SYMBOL_REGISTER",
    "SDK_COPY_NONE": "ROCPROFILER_MEMORY_COPY_NONE",
    "SDK_COPY_HOST_TO_HOST": "ROCPROFILER_MEMORY_COPY_HOST_TO_HOST",
    "SDK_COPY_HOST_TO_DEVICE": "ROCPROFILER_MEMORY_COPY_HOST_TO_DEVICE",
    "SDK_COPY_DEVICE_TO_HOST": "ROCPROFILER_MEMORY_COPY_DEVICE_TO_HOST",
    "SDK_COPY_DEVICE_TO_DEVICE": "ROCPROFILER_MEMORY_COPY_DEVICE_TO_DEVICE",
    "SDK_CATEGORY_PC_SAMPLING": "ROCPROFILER_BUFFER_CATEGORY_PC_SAMPLING",
    "SDK_METHOD_STOCHASTIC": "ROCPROFILER_PC_SAMPLING_METHOD_STOCHASTIC",
    "SDK_METHOD_HOST_TRAP": "ROCPROFILER_PC_SAMPLING_METHOD_HOST_TRAP",
    "SDK_SAMPLE_INVALID": "ROCPROFILER_PC_SAMPLING_RECORD_INVALID_SAMPLE",
    "SDK_SAMPLE_HOST_TRAP": "ROCPROFILER_PC_SAMPLING_RECORD_HOST_TRAP_V0_SAMPLE",
    "SDK_SAMPLE_STOCHASTIC": "ROCPROFILER_PC_SAMPLING_RECORD_STOCHASTIC_V0_SAMPLE",
}
HEAD = {"size": "size", "kind": "kind", "operation": "operation"}
# Our struct, theirs, fields (ours: theirs). Their handles are structs of one number.
STRUCTS = [
    ("sdk_client", "client_id_t", {"size": "size", "name": "name", "handle": "handle"}),
    (
        "sdk_configure_result",
        "tool_configure_result_t",
        {
            "size": "size",
            "initialize": "initialize",
            "finalize": "finalize",
            "data": "tool_data",
        },
    ),
    (
        "sdk_callback_record",
        "callback_tracing_record_t",
        {
            "context": "context_id",
            "thread_id": "thread_id",
            "internal": "correlation_id.internal",
            "external": "correlation_id.external",
            "ancestor": "correlation_id.ancestor",
            "kind": "kind",
            "operation": "operation",
            "phase": "phase",
            "payload": "payload",
        },
    ),
    (
        "sdk_code_object",
        "callback_tracing_code_object_load_data_t",
        {
            "size": "size",
            "id": "code_object_id",
            "agent": "agent_id",
            "hsa_agent": "hsa_agent",
            "uri": "uri",
            "load_base": "load_base",
            "load_size": "load_size",
            "load_delta": "load_delta",
            "storage": "storage_type",
            "memory": "memory_base",
            "memory_bytes": "memory_size",
        },
    ),
    (
        "sdk_kernel_symbol",
        "callback_tracing_code_object_kernel_symbol_register_data_t",
        {
            "size": "size",
            "kernel_id": "kernel_id",
            "code_object_id": "code_object_id",
            "name": "kernel_name",
            "kernel_object": "kernel_object",
            "argument_bytes": "kernarg_segment_size",
            "argument_alignment": "kernarg_segment_alignment",
            "group_bytes": "group_segment_size",
            "private_bytes": "private_segment_size",
            "scalar_registers": "sgpr_count",
            "vector_registers": "arch_vgpr_count",
            "accumulation_registers": "accum_vgpr_count",
        },
    ),
    (
        "sdk_record_header",
        "record_header_t",
        {"category": "category", "kind": "kind", "payload": "payload"},
    ),
    (
        "sdk_dispatch",
        "buffer_tracing_kernel_dispatch_record_t",
        {
            **{f"head.{ours}": theirs for ours, theirs in HEAD.items()},
            "head.internal": "correlation_id.internal",
            "head.external": "correlation_id.external",
            "head.thread_id": "thread_id",
            "head.start_ns": "start_timestamp",
            "head.end_ns": "end_timestamp",
            "info_size": "dispatch_info.size",
            "agent": "dispatch_info.agent_id",
            "queue": "dispatch_info.queue_id",
            "kernel_id": "dispatch_info.kernel_id",
            "dispatch_id": "dispatch_info.dispatch_id",
            "private_bytes": "dispatch_info.private_segment_size",
            "group_bytes": "dispatch_info.group_segment_size",
            "workgroup": "dispatch_info.workgroup_size",
            "grid": "dispatch_info.grid_size",
        },
    ),
    (
        "sdk_agent",
        "agent_v0_t",
        {
            "size": "size",
            "id": "id",
            "type": "type",
            "cpu_cores": "cpu_cores_count",
            "simds": "simd_count",
            "wave_size": "wave_front_size",
            "compute_units": "cu_count",
            "gfx_version": "gfx_target_version",
            "max_clock_mhz": "max_engine_clk_fcompute",
            "name": "name",
            "vendor": "vendor_name",
            "product": "product_name",
            "model": "model_name",
            "node_id": "node_id",
            "logical_id": "logical_node_id",
            "logical_type_id": "logical_node_type_id",
            "visibility": "runtime_visibility",
            "uuid": "uuid",
        },
    ),
]
# In pc_sampling.h, which the wheel lacks.
SAMPLING = [
    (
        "sdk_sampling_config",
        "pc_sampling_configuration_t",
        {
            "size": "size",
            "method": "method",
            "unit": "unit",
            "min_interval": "min_interval",
            "max_interval": "max_interval",
            "flags": "flags",
        },
    ),
    ("sdk_pc", "pc_t", {"code_object": "code_object_id", "offset": "code_object_offset"}),
    (
        "sdk_host_trap_sample",
        "pc_sampling_record_host_trap_v0_t",
        {
            "size": "size",
            "hardware": "hw_id",
            "pc": "pc",
            "lanes": "exec_mask",
            "timestamp": "timestamp",
            "dispatch_id": "dispatch_id",
            "internal": "correlation_id.internal",
            "external": "correlation_id.external",
            "workgroup": "workgroup_id",
        },
    ),
    (
        "sdk_stochastic_sample",
        "pc_sampling_record_stochastic_v0_t",
        {
            "size": "size",
            "flags": "flags",
            "wave": "wave_in_group",
            "hardware": "hw_id",
            "pc": "pc",
            "lanes": "exec_mask",
            "workgroup": "workgroup_id",
            "waves": "wave_count",
            "timestamp": "timestamp",
            "dispatch_id": "dispatch_id",
            "internal": "correlation_id.internal",
            "external": "correlation_id.external",
            "snapshot": "snapshot",
            "memory_counters": "memory_counters",
        },
    ),
]
# Newer versions appended fields to these; all others have equal sizes.
PREFIXES = {"sdk_kernel_symbol"}
# The wheel's HIP header lacks these; its rocprofiler-sdk header names them.
MISSING = """
typedef struct missing1 hipArrayMemoryRequirements;
"""
HEADERS = """
#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>
""" + MISSING + """
#include <rocprofiler-sdk/callback_tracing.h>
#include <rocprofiler-sdk/agent.h>
#include <rocprofiler-sdk/buffer.h>
#include <rocprofiler-sdk/buffer_tracing.h>
#include <rocprofiler-sdk/external_correlation.h>
#include <rocprofiler-sdk/internal_threading.h>
#include <rocprofiler-sdk/registration.h>
"""


def _compile(tmp_path, text: str, *more: str) -> str:
    """The compiler's errors. Directories `more` come before those of the wheel."""
    include = os.path.join(sysconfig.get_paths()["purelib"], "triton", "backends", "amd", "include")
    if not os.path.exists(os.path.join(include, "rocprofiler-sdk", "fwd.h")):
        pytest.skip("no Triton with the headers of rocprofiler-sdk")
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if not compiler:
        pytest.skip("no C compiler")
    source = tmp_path / "abi.c"
    source.write_text(HEADERS + f'#include "{os.path.join(AMD, "sdk_abi.h")}"\n' + text)
    made = subprocess.run(
        [compiler, "-std=gnu11", "-fsyntax-only", "-w"]
        + [f"-I{directory}" for directory in (*more, include)]
        + [str(source)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    return made.stderr if made.returncode else ""


def _comparisons(structs) -> list[str]:
    lines = []
    for struct, their, fields in structs:
        their = f"rocprofiler_{their}"
        compare = "<=" if struct in PREFIXES else "=="
        lines.append(
            f'_Static_assert(sizeof(struct {struct}) {compare} sizeof({their}), "{struct}");'
        )
        lines += [
            f"_Static_assert(offsetof(struct {struct}, {ours}) == offsetof({their}, {theirs}), "
            f'"{struct}.{ours}");'
            for ours, theirs in fields.items()
        ]
    return lines


def test_structs_and_constants_are_those_of_the_headers(tmp_path):
    lines = [f'_Static_assert({ours} == {theirs}, "{ours}");' for ours, theirs in CONSTANTS.items()]
    with open(os.path.join(AMD, "sdk_abi.h")) as file:
        names = re.findall(r"^\tSDK_E_(\w+) = \d+,$", file.read(), re.MULTILINE)
    assert len(names) > 10
    lines += [f'_Static_assert(SDK_E_{name} == {STATUS}{name}, "{name}");' for name in names]
    lines += _comparisons(STRUCTS)
    # A call's result is in the last 24 bytes of its payload.
    lines.append(
        "_Static_assert(offsetof(rocprofiler_callback_tracing_hip_api_data_t, retval) =="
        " sizeof(rocprofiler_callback_tracing_hip_api_data_t) - SDK_RESULT_BYTES"
        ' && offsetof(rocprofiler_callback_tracing_hip_api_data_t, args) == 8, "call");'
    )
    lines.append(
        "_Static_assert(offsetof(rocprofiler_callback_tracing_marker_api_data_t, args) == 8"
        ' && offsetof(rocprofiler_marker_api_args_t, roctxRangePushA.message) == 0, "marker");'
    )
    assert _compile(tmp_path, "\n".join(lines)) == ""


def test_pc_samples_are_those_of_the_installed_headers(tmp_path):
    """The wheel does not have them. docs/design/amd.md lists the versions that were compared."""
    include = os.path.join(os.environ.get("ROCM_PATH", "/opt/rocm"), "include")
    header = os.path.join(include, "rocprofiler-sdk", "pc_sampling.h")
    if not os.path.exists(header):
        pytest.skip(f"no {header}")
    with open(header) as file:
        functions = re.sub(r"\s+", " ", file.read())
    parameters = re.search(r"rocprofiler_configure_pc_sampling_service\(([^()]*)\)", functions)
    assert len(parameters.group(1).split(",")) == 7
    lines = ["#include <rocprofiler-sdk/pc_sampling.h>", *_comparisons(SAMPLING)]
    reasons = "ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON"
    lines.append(f'_Static_assert({reasons}_NONE == 0 && {reasons}_LAST == 10, "reasons");')
    lines.append(
        "_Static_assert(SDK_SAMPLING_POWER_OF_2 =="
        ' ROCPROFILER_PC_SAMPLING_CONFIGURATION_FLAGS_INTERVAL_POW2, "flags");'
    )
    assert _compile(tmp_path, "\n".join(lines), include) == ""


def test_a_wrong_offset_is_found(tmp_path):
    line = "_Static_assert(offsetof(struct sdk_agent, name) == offsetof(rocprofiler_agent_v0_t, id)"
    assert "assertion failed" in _compile(tmp_path, line + ', "");')


def test_arguments_of_calls_are_where_the_header_has_them(tmp_path):
    with open(os.path.join(AMD, "sdk_calls.def")) as file:
        rows = re.findall(r"^([LPGM])\((\w+), ([\w, ]+)\)$", file.read(), re.MULTILINE)
    assert len(rows) > 30
    where = "offsetof(rocprofiler_hip_api_args_t, "
    lines = []
    for kind, name, numbers in rows:
        values = numbers.split(", ")
        lines.append(f"int id_{name} = ROCPROFILER_HIP_RUNTIME_API_ID_{name};")
        if kind == "P":
            struct = "hipLaunchConfig_t" if name == "hipLaunchKernelExC" else "HIP_LAUNCH_CONFIG"
            field = "stream" if name == "hipLaunchKernelExC" else "hStream"
            lines.append(
                f'_Static_assert({where}{name}.config) == {values[0]}, "{name}");'
                f'_Static_assert(offsetof({struct}, {field}) == {values[1]}, "{name}");'
            )
        elif values[0] != "NONE":
            lines.append(f'_Static_assert({where}{name}.stream) == {values[0]}, "{name}");')
        if kind == "M" and values[1] != "NONE":
            size = "sizeBytes" if "hipMemset" not in name or "D" not in name else "count"
            lines.append(f'_Static_assert({where}{name}.{size}) == {values[1]}, "{name}");')
    text = "#include <rocprofiler-sdk/hip/runtime_api_id.h>\n" + "\n".join(lines)
    assert _compile(tmp_path, text) == ""


# Types of parameters, as ours are written.
TYPES = {
    r"rocprofiler_(context|buffer)_id_t": r"struct sdk_\1",
    r"rocprofiler_callback_thread_t": "struct sdk_thread",
    r"rocprofiler_(callback_tracing_kind|buffer_tracing_kind|buffer_policy"
    r"|external_correlation_id_request_kind|agent_version)_t": "int",
    r"rocprofiler_tracing_operation_t": "int32_t",
    r"rocprofiler_timestamp_t": "uint64_t",
    r"rocprofiler_buffer_tracing_cb_t": "sdk_buffer_fn",
    r"rocprofiler_callback_tracing_cb_t": "sdk_callback_fn",
    r"rocprofiler_external_correlation_id_request_cb_t": "sdk_request_fn",
    r"rocprofiler_query_available_agents_cb_t": "sdk_agents_fn",
    r"rocprofiler_configure_func_t": "sdk_configure_fn",
}
# Functions that the wheel's subset of the headers does not declare.
UNDECLARED = {
    "get_version",
    "get_timestamp",
    "create_context",
    "start_context",
    "stop_context",
    "iterate_callback_tracing_kinds",
    "query_callback_tracing_kind_name",
    "iterate_callback_tracing_kind_operations",
    "query_callback_tracing_kind_operation_name",
    "iterate_buffer_tracing_kinds",
    "query_buffer_tracing_kind_name",
    "query_pc_sampling_agent_configurations",
    "configure_pc_sampling_service",
}


def _types(parameters: str) -> list[str]:
    types = []
    for one in parameters.split(","):
        for theirs, ours in TYPES.items():
            one = re.sub(rf"\b{theirs}\b", ours, one)
        words = re.findall(r"\w+|\*", one)
        if words[-1] != "*" and len(words) > 1:
            words.pop()  # the name
        types.append("".join(words))
    return types


def test_functions_are_declared_as_in_the_headers():
    directory = os.path.join(
        sysconfig.get_paths()["purelib"], "triton", "backends", "amd", "include", "rocprofiler-sdk"
    )
    if not os.path.exists(os.path.join(directory, "fwd.h")):
        pytest.skip("no Triton with the headers of rocprofiler-sdk")
    headers = ""
    for name in sorted(os.listdir(directory)):
        if name.endswith(".h"):
            with open(os.path.join(directory, name)) as file:
                headers += re.sub(r"/\*.*?\*/|//[^\n]*", " ", file.read(), flags=re.DOTALL)
    headers = re.sub(r"\s+", " ", headers)
    with open(os.path.join(AMD, "sdk_symbols.def")) as file:
        ours = re.findall(r"^[OV]\((\w+),\s*\(([^()]*)\)\)$", file.read(), re.MULTILINE)
    assert len(ours) > 20
    undeclared = set()
    for name, parameters in ours:
        theirs = re.search(rf"\brocprofiler_{name}\s*\(([^()]*)\)", headers)
        if theirs:
            assert _types(theirs.group(1)) == _types(parameters), name
        else:
            undeclared.add(name)
    assert undeclared == UNDECLARED
