"""src/backend/amd/sdk_abi.h and hip_calls.def against the vendor's headers in Triton's wheel.

The wheel (3.8 and later) has a subset of rocprofiler-sdk 1.2.1 and HIP 7.1.
"""

import os
import re

import pytest
from abi_support import (
    SRC, amd_include, assertions, compile_errors, equal, preprocess, read_layouts,
    read_memory_calls, read_structs, read_types, same_structs,
)

AMD = SRC / "backend" / "amd"
TESTS = SRC.parent / "tests"

STATUS = "ROCPROFILER_STATUS_ERROR_"
CONSTANTS = {
    "SDK_OK": "ROCPROFILER_STATUS_SUCCESS",
    "SDK_PHASE_NONE": "ROCPROFILER_CALLBACK_PHASE_NONE",
    "SDK_PHASE_ENTER": "ROCPROFILER_CALLBACK_PHASE_ENTER",
    "SDK_PHASE_LOAD": "ROCPROFILER_CALLBACK_PHASE_LOAD",
    "SDK_PHASE_EXIT": "ROCPROFILER_CALLBACK_PHASE_EXIT",
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
# Our struct, theirs, fields. Their handles are structs of one number.
STRUCTS = """
sdk_client client_id_t: size name handle
sdk_configure_result tool_configure_result_t: size initialize finalize data=tool_data
sdk_callback_record callback_tracing_record_t: context=context_id thread_id
    internal=correlation_id.internal external=correlation_id.external
    ancestor=correlation_id.ancestor kind operation phase payload
sdk_code_object callback_tracing_code_object_load_data_t: size id=code_object_id agent=agent_id
    hsa_agent uri load_base load_size load_delta storage=storage_type memory=memory_base
    memory_bytes=memory_size
sdk_kernel_symbol callback_tracing_code_object_kernel_symbol_register_data_t: size kernel_id
    code_object_id name=kernel_name group_bytes=group_segment_size
    vector_registers=arch_vgpr_count accumulation_registers=accum_vgpr_count
sdk_record_header record_header_t: category kind payload
sdk_dispatch buffer_tracing_kernel_dispatch_record_t: head.size=size head.kind=kind
    head.operation=operation head.internal=correlation_id.internal
    head.external=correlation_id.external head.thread_id=thread_id head.start_ns=start_timestamp
    head.end_ns=end_timestamp info_size=dispatch_info.size agent=dispatch_info.agent_id
    queue=dispatch_info.queue_id kernel_id=dispatch_info.kernel_id
    dispatch_id=dispatch_info.dispatch_id private_bytes=dispatch_info.private_segment_size
    group_bytes=dispatch_info.group_segment_size workgroup=dispatch_info.workgroup_size
    grid=dispatch_info.grid_size
sdk_agent agent_v0_t: size id type compute_units=cu_count max_clock_mhz=max_engine_clk_fcompute name
    product=product_name logical_type_id=logical_node_type_id visibility=runtime_visibility uuid
"""
# In pc_sampling.h, which the wheel lacks.
SAMPLING = """
sdk_sampling_config pc_sampling_configuration_t: size method unit min_interval max_interval flags
sdk_pc pc_t: code_object=code_object_id offset=code_object_offset
sdk_host_trap_sample pc_sampling_record_host_trap_v0_t: size pc dispatch_id
sdk_stochastic_sample pc_sampling_record_stochastic_v0_t: size pc dispatch_id snapshot
"""
# Newer versions appended fields to these; all others have equal sizes.
PREFIXES = ["struct sdk_kernel_symbol"]
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


def _errors(text: str, *more: str) -> str:
    """Directories `more` come before those of the wheel."""
    text = HEADERS + f'#include "{AMD}/sdk_abi.h"\n' + text
    return compile_errors(text, *more, amd_include("rocprofiler-sdk/fwd.h"))


def _comparisons(table: str) -> list[str]:
    checks = []
    for struct in read_structs(table, "rocprofiler_"):
        checks += same_structs([struct], "<=" if struct[0] in PREFIXES else "==")
    return checks


def test_structs_and_constants_are_those_of_the_headers():
    text = (AMD / "sdk_abi.h").read_text() + (TESTS / "fake" / "fake_sdk.h").read_text()
    statuses = re.findall(r"^\tSDK_E_(\w+) = (\d+),$", text, re.MULTILINE)
    assert len(statuses) > 10
    checks = equal(CONSTANTS | {value: f"{STATUS}{name}" for name, value in statuses})
    checks += _comparisons(STRUCTS)
    # A call's result is in the last 24 bytes of its payload.
    call = "rocprofiler_callback_tracing_hip_api_data_t"
    checks.append(f"offsetof({call}, retval) == sizeof({call}) - SDK_RESULT_BYTES")
    checks.append(f"offsetof({call}, args) == 8")
    checks.append("offsetof(rocprofiler_callback_tracing_marker_api_data_t, args) == 8")
    checks.append("offsetof(rocprofiler_marker_api_args_t, roctxRangePushA.message) == 0")
    assert _errors(assertions(checks)) == ""


def test_every_field_is_compared():
    """sdk_abi.h itself asserts those that the wheel does not declare."""
    text = (AMD / "sdk_abi.h").read_text()
    asserted = set(re.findall(r"^SDK_AT\((\w+), (\w+), \d+\)", text, re.MULTILINE))
    compared = {
        (struct.removeprefix("struct "), ours)
        for struct, _, fields in read_structs(STRUCTS)
        for ours, _ in fields
    }
    # The head of a dispatch.
    compared |= {("sdk_record", ours[5:]) for _, ours in compared if ours.startswith("head.")}
    compared |= {("sdk_dispatch", "head"), ("sdk_call", "size"), ("sdk_call", "arguments")}
    for struct, body in re.findall(r"^struct (sdk_\w+) {\n(.*?)^};", text, re.M | re.S):
        for field in re.findall(r"(\w+)(?:\[\w*\]|\)\([^;]*)?;", body)[1:]:
            # Bytes between fields, and numbers of dimensions.
            is_other = re.fullmatch(r"other\d?|reserved|[xyz]", field)
            assert is_other or (struct, field) in asserted | compared, f"{struct}.{field}"


def test_pc_samples_are_those_of_the_installed_headers():
    """The wheel does not have them. docs/design/amd.md lists the versions that were compared."""
    include = os.path.join(os.environ.get("ROCM_PATH", "/opt/rocm"), "include")
    header = os.path.join(include, "rocprofiler-sdk", "pc_sampling.h")
    if not os.path.exists(header):
        pytest.skip(f"no {header}")
    with open(header) as file:
        functions = re.sub(r"\s+", " ", file.read())
    parameters = re.search(r"rocprofiler_configure_pc_sampling_service\(([^()]*)\)", functions)
    assert len(parameters.group(1).split(",")) == 7
    reasons = "ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON"
    flags = "ROCPROFILER_PC_SAMPLING_CONFIGURATION_FLAGS_INTERVAL_POW2"
    checks = _comparisons(SAMPLING) + [f"{reasons}_NONE == 0", f"{reasons}_LAST == 10"]
    checks.append(f"SDK_SAMPLING_POWER_OF_2 == {flags}")
    text = "#include <rocprofiler-sdk/pc_sampling.h>\n" + assertions(checks)
    assert _errors(text, include) == ""


def test_a_wrong_offset_is_found():
    wrong = "offsetof(struct sdk_agent, name) == offsetof(rocprofiler_agent_v0_t, id)"
    assert "assertion failed" in _errors(assertions([wrong]))


def test_arguments_of_calls_are_where_the_header_has_them():
    calls = (AMD / "hip_calls.def").read_text()
    places = read_layouts(AMD)
    include = "#include <rocprofiler-sdk/hip/runtime_api_id.h>\n"
    header = preprocess(HEADERS + include, amd_include("rocprofiler-sdk/fwd.h"))
    checks = []
    rows = [("hipGraphLaunch", "stream", places["ARGUMENTS_GRAPH"]["sdk_stream"])]
    for name, arguments in re.findall(r"^L\((\w+), (\w+), \w+\)$", calls, re.MULTILINE):
        stream = places[arguments]["sdk_stream"]
        if places[arguments]["is_pointer"] == "true":
            is_exc = name == "hipLaunchKernelExC"
            field = "hipLaunchConfig_t, stream" if is_exc else "HIP_LAUNCH_CONFIG, hStream"
            checks.append(f"offsetof({field}) == {stream}")
            rows.append((name, "config", "0"))
        elif stream != "-1":
            rows.append((name, "stream", stream))
    for name, stream, unit in read_memory_calls(AMD):
        if unit == "0":
            continue
        is_count = "hipMemset" in name and "D" in name
        rows.append((name, "count" if is_count else "sizeBytes", "16"))
        rows += [(name, "stream", stream)] if stream != "NO_STREAM" else []
    for name, field, place in rows:
        for call in (name, f"{name}_spt"):
            if re.search(rf"\bROCPROFILER_HIP_RUNTIME_API_ID_{call}\b", header):
                checks.append(f"offsetof(rocprofiler_hip_api_args_t, {call}.{field}) == {place}")
    assert len(checks) > 45
    assert _errors(include + assertions(checks)) == ""


# Types of parameters, as ours are written.
TYPES = {
    r"rocprofiler_(context|buffer)_id_t": r"sdk_\1",
    r"rocprofiler_callback_thread_t": "sdk_thread",
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
    "query_callback_tracing_kind_name",
    "iterate_callback_tracing_kind_operations",
    "query_callback_tracing_kind_operation_name",
    "query_buffer_tracing_kind_name",
    "query_pc_sampling_agent_configurations",
    "configure_pc_sampling_service",
}


def test_functions_are_declared_as_in_the_headers():
    directory = os.path.join(amd_include("rocprofiler-sdk/fwd.h"), "rocprofiler-sdk")
    headers = ""
    for name in sorted(os.listdir(directory)):
        if name.endswith(".h"):
            with open(os.path.join(directory, name)) as file:
                headers += re.sub(r"/\*.*?\*/|//[^\n]*", " ", file.read(), flags=re.DOTALL)
    headers = re.sub(r"\s+", " ", headers)
    symbols = (AMD / "sdk_symbols.def").read_text()
    ours = re.findall(r"^[OV]\((\w+),\s*\(([^()]*)\)\)$", symbols, re.MULTILINE)
    assert len(ours) > 20
    undeclared = set()
    for name, parameters in ours:
        theirs = re.search(rf"\brocprofiler_{name}\s*\(([^()]*)\)", headers)
        if theirs:
            assert read_types(theirs.group(1), TYPES) == read_types(parameters, {}), name
        else:
            undeclared.add(name)
    assert undeclared == UNDECLARED
