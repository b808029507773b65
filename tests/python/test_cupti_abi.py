"""cupti_abi.h and src/driver against the real headers, where a wheel or a toolkit has them.

tools/cupti_wheels.py downloads wheels of CUPTI 12.4 to 13.5; PROTON_TEST_CUPTI_WHEELS names their
directory. Without it, the installed headers are compared.
"""

import glob
import os
import re
import subprocess
import sys

import pytest
from abi_support import (
    PACKAGES, SRC, assertions, compile_errors, equal, preprocess, read_structs, read_types,
    same_fields, same_structs,
)

CUDA = SRC / "backend" / "cuda"
ABI = CUDA / "cupti_abi.h"

# Constants, ours: theirs.
ATTRIBUTE = "CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_"
CONSTANTS = {
    "CUPTI_E_MAX_LIMIT_REACHED": "CUPTI_ERROR_MAX_LIMIT_REACHED",
    "CUPTI_E_NOT_INITIALIZED": "CUPTI_ERROR_NOT_INITIALIZED",
    "CUPTI_E_INSUFFICIENT_PRIVILEGES": "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES",
    "CUPTI_E_MULTIPLE_SUBSCRIBERS": "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",
    "CUPTI_DOMAIN_DRIVER_API": "CUPTI_CB_DOMAIN_DRIVER_API",
    "CUPTI_DOMAIN_RESOURCE": "CUPTI_CB_DOMAIN_RESOURCE",
    "CUPTI_CALL_LAUNCH": "CUPTI_DRIVER_TRACE_CBID_cuLaunch",
    "CUPTI_CALL_LAUNCH_GRID": "CUPTI_DRIVER_TRACE_CBID_cuLaunchGrid",
    "CUPTI_CALL_LAUNCH_GRID_ASYNC": "CUPTI_DRIVER_TRACE_CBID_cuLaunchGridAsync",
    "CUPTI_CALL_LAUNCH_KERNEL": "CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel",
    "CUPTI_CALL_LAUNCH_KERNEL_PTSZ": "CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz",
    "CUPTI_CALL_LAUNCH_COOPERATIVE": "CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel",
    "CUPTI_CALL_LAUNCH_COOPERATIVE_PTSZ": "CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz",
    "CUPTI_CALL_LAUNCH_COOPERATIVE_MULTI_DEVICE": (
        "CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernelMultiDevice"
    ),
    "CUPTI_CALL_GRAPH_LAUNCH": "CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch",
    "CUPTI_CALL_GRAPH_LAUNCH_PTSZ": "CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz",
    "CUPTI_CALL_LAUNCH_KERNEL_EX": "CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx",
    "CUPTI_CALL_LAUNCH_KERNEL_EX_PTSZ": "CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz",
    "CUPTI_CALL_BEGIN_CAPTURE": "CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture",
    "CUPTI_CALL_BEGIN_CAPTURE_PTSZ": "CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_ptsz",
    "CUPTI_CALL_BEGIN_CAPTURE_V2": "CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2",
    "CUPTI_CALL_BEGIN_CAPTURE_V2_PTSZ": "CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2_ptsz",
    "CUPTI_CALL_BEGIN_CAPTURE_TO_GRAPH": "CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCaptureToGraph",
    "CUPTI_CALL_BEGIN_CAPTURE_TO_GRAPH_PTSZ": (
        "CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCaptureToGraph_ptsz"
    ),
    "CUPTI_CALL_END_CAPTURE": "CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture",
    "CUPTI_CALL_END_CAPTURE_PTSZ": "CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture_ptsz",
    "CUDA_GRAPH_NODE_KERNEL": "CU_GRAPH_NODE_TYPE_KERNEL",
    "CUPTI_E_INVALID_CONTEXT": "CUPTI_ERROR_INVALID_CONTEXT",
    "CUPTI_E_HARDWARE_BUSY": "CUPTI_ERROR_HARDWARE_BUSY",
    "CUPTI_E_OUT_OF_MEMORY": "CUPTI_ERROR_OUT_OF_MEMORY",
    "CUPTI_CALL_MODULE_LOAD_DATA": "CUPTI_DRIVER_TRACE_CBID_cuModuleLoadData",
    "CUPTI_CALL_MODULE_GET_FUNCTION": "CUPTI_DRIVER_TRACE_CBID_cuModuleGetFunction",
    "PCS_REASON_NAME_BYTES": "CUPTI_STALL_REASON_STRING_SIZE",
    "PCS_CONTINUOUS": "CUPTI_PC_SAMPLING_COLLECTION_MODE_CONTINUOUS",
    "PCS_SERIALIZED": "CUPTI_PC_SAMPLING_COLLECTION_MODE_KERNEL_SERIALIZED",
    "PCS_ATTRIBUTE_PERIOD": f"{ATTRIBUTE}SAMPLING_PERIOD",
    "PCS_ATTRIBUTE_SCRATCH_BYTES": f"{ATTRIBUTE}SCRATCH_BUFFER_SIZE",
    "PCS_ATTRIBUTE_COLLECTION_MODE": f"{ATTRIBUTE}COLLECTION_MODE",
    "PCS_ATTRIBUTE_START_STOP": f"{ATTRIBUTE}ENABLE_START_STOP_CONTROL",
    "PCS_ATTRIBUTE_BUFFER": f"{ATTRIBUTE}SAMPLING_DATA_BUFFER",
    "PCS_ATTRIBUTE_WORKER_SLEEP_MS": f"{ATTRIBUTE}WORKER_THREAD_PERIODIC_SLEEP_SPAN",
    "CUPTI_SITE_ENTER": "CUPTI_API_ENTER",
    "CUPTI_KIND_CONCURRENT_KERNEL": "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL",
    "CUPTI_KIND_MEMCPY": "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_KIND_MEMSET": "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_KIND_MEMCPY_PEER": "CUPTI_ACTIVITY_KIND_MEMCPY2",
    "CUDA_GRAPH_NODE_MEMCPY": "CU_GRAPH_NODE_TYPE_MEMCPY",
    "CUDA_GRAPH_NODE_MEMSET": "CU_GRAPH_NODE_TYPE_MEMSET",
    "CUPTI_ATTRIBUTE_ZEROED_OUT_BUFFER": "CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER",
    "CUPTI_ATTRIBUTE_PER_THREAD_BUFFER": "CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER",
    "CUPTI_FLUSH_FORCED": "CUPTI_ACTIVITY_FLAG_FLUSH_FORCED",
    "DRIVER_ATTRIBUTE_CLOCK_RATE": "CU_DEVICE_ATTRIBUTE_CLOCK_RATE",
    "DRIVER_ATTRIBUTE_PROCESSORS": "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT",
    "DRIVER_ATTRIBUTE_MEMORY_CLOCK_RATE": "CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE",
    "DRIVER_ATTRIBUTE_BUS_WIDTH": "CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH",
    "DRIVER_ATTRIBUTE_CC_MAJOR": "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR",
    "DRIVER_ATTRIBUTE_CC_MINOR": "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR",
}
# Our struct, theirs, fields.
PREFIXES = """
cupti_kernel their_kernel: kind registers_per_thread=registersPerThread start_ns=start end_ns=end
    completed_ns=completed device_id=deviceId context_id=contextId stream_id=streamId grid=gridX
    block=blockX static_shared_bytes=staticSharedMemory dynamic_shared_bytes=dynamicSharedMemory
    local_bytes_per_thread=localMemoryPerThread correlation_id=correlationId grid_id=gridId name
    graph_node_id=graphNodeId
cupti_memcpy their_memcpy: kind bytes start_ns=start end_ns=end device_id=deviceId
    context_id=contextId stream_id=streamId correlation_id=correlationId graph_node_id=graphNodeId
    copy_kind=copyKind source_kind=srcKind destination_kind=dstKind
cupti_memcpy_peer CUpti_ActivityMemcpyPtoP4: kind bytes start_ns=start end_ns=end device_id=deviceId
    context_id=contextId stream_id=streamId correlation_id=correlationId graph_node_id=graphNodeId
    copy_kind=copyKind source_kind=srcKind destination_kind=dstKind source_device_id=srcDeviceId
    destination_device_id=dstDeviceId
cupti_memset CUpti_ActivityMemset4: kind bytes start_ns=start end_ns=end device_id=deviceId
    context_id=contextId stream_id=streamId correlation_id=correlationId graph_node_id=graphNodeId
    value memory_kind=memoryKind
cupti_callback_data CUpti_CallbackData: site=callbackSite function_name=functionName
    function_params=functionParams function_return_value=functionReturnValue symbol_name=symbolName
    context context_uid=contextUid correlation_data=correlationData correlation_id=correlationId
cupti_graph_data CUpti_GraphData: graph original_graph=originalGraph node original_node=originalNode
    node_type=nodeType dependency graph_exec=graphExec
cupti_resource_data CUpti_ResourceData: context resource_descriptor=resourceDescriptor
"""
# The sizes are equal too.
PC_SAMPLING = """
pcs_params CUpti_PCSamplingEnableParams: size reserved=pPriv context=ctx
pcs_params CUpti_PCSamplingDisableParams: size reserved=pPriv context=ctx
pcs_params CUpti_PCSamplingStartParams: size reserved=pPriv context=ctx
pcs_params CUpti_PCSamplingStopParams: size reserved=pPriv context=ctx
pcs_data_params CUpti_PCSamplingGetDataParams: size reserved=pPriv context=ctx data=pcSamplingData
pcs_attributes_params CUpti_PCSamplingConfigurationInfoParams: size reserved=pPriv context=ctx
    count=numAttributes attributes=pPCSamplingConfigurationInfo
pcs_attribute CUpti_PCSamplingConfigurationInfo: type=attributeType status=attributeStatus
    value=attributeData
pcs_reason_count_params CUpti_PCSamplingGetNumStallReasonsParams: size reserved=pPriv context=ctx
    count=numStallReasons
pcs_reason_names_params CUpti_PCSamplingGetStallReasonsParams: size reserved=pPriv context=ctx
    count=numStallReasons indexes=stallReasonIndex names=stallReasons
pcs_reason CUpti_PCSamplingStallReason: index=pcSamplingStallReasonIndex samples
pcs_pc CUpti_PCSamplingPCData: size crc=cubinCrc offset=pcOffset function_index=functionIndex
    function=functionName reason_count=stallReasonCount reasons=stallReason
    correlation_id=correlationId
pcs_data CUpti_PCSamplingData: size capacity=collectNumPcs samples=totalSamples
    dropped=droppedSamples count=totalNumPcs remaining=remainingNumPcs range=rangeId pcs=pPcData
    non_user=nonUsrKernelsTotalSamples is_full=hardwareBufferFull
cubin_crc_params CUpti_GetCubinCrcParams: size cubin_bytes=cubinSize cubin crc=cubinCrc
cupti_module_data CUpti_ModuleResourceData: id=moduleId cubin_bytes=cubinSize cubin=pCubin
"""

# PM sampling and the host profiler, in headers of 12.6 and later.
PM_CONSTANTS = {
    "HOST_PM_SAMPLING": "CUPTI_PROFILER_TYPE_PM_SAMPLING",
    "PM_TRIGGER_TIME": "CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL",
    "PM_KEEP_OLDEST": "CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_OLDEST",
    "PM_STOP_BUFFER_FULL": "CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL",
}
PM_SAMPLING = """
host_initialize_params CUpti_Profiler_Initialize_Params: size=structSize reserved=pPriv
host_chip_params CUpti_Device_GetChipName_Params: size=structSize reserved=pPriv device=deviceIndex
    chip=pChipName
pm_availability_params CUpti_PmSampling_GetCounterAvailability_Params: size=structSize
    reserved=pPriv device=deviceIndex image_bytes=counterAvailabilityImageSize
    image=pCounterAvailabilityImage
host_begin_params CUpti_Profiler_Host_Initialize_Params: size=structSize reserved=pPriv
    type=profilerType chip=pChipName availability=pCounterAvailabilityImage host=pHostObject
host_end_params CUpti_Profiler_Host_Deinitialize_Params: size=structSize reserved=pPriv
    host=pHostObject
host_metrics_params CUpti_Profiler_Host_ConfigAddMetrics_Params: size=structSize reserved=pPriv
    host=pHostObject names=ppMetricNames count=numMetrics
host_names_params CUpti_Profiler_Host_GetBaseMetrics_Params: size=structSize reserved=pPriv
    host=pHostObject type=metricType names=ppMetricNames count=numMetrics
host_config_size_params CUpti_Profiler_Host_GetConfigImageSize_Params: size=structSize
    reserved=pPriv host=pHostObject bytes=configImageSize
host_config_params CUpti_Profiler_Host_GetConfigImage_Params: size=structSize reserved=pPriv
    host=pHostObject bytes=configImageSize image=pConfigImage
host_passes_params CUpti_Profiler_Host_GetNumOfPasses_Params: size=structSize reserved=pPriv
    bytes=configImageSize image=pConfigImage passes=numOfPasses
host_evaluate_params CUpti_Profiler_Host_EvaluateToGpuValues_Params: size=structSize reserved=pPriv
    host=pHostObject image=pCounterDataImage image_bytes=counterDataImageSize index=rangeIndex
    names=ppMetricNames count=numMetrics values=pMetricValues
pm_enable_params CUpti_PmSampling_Enable_Params: size=structSize reserved=pPriv device=deviceIndex
    sampling=pPmSamplingObject
pm_params CUpti_PmSampling_Disable_Params: size=structSize reserved=pPriv sampling=pPmSamplingObject
pm_params CUpti_PmSampling_Start_Params: size=structSize reserved=pPriv sampling=pPmSamplingObject
pm_params CUpti_PmSampling_Stop_Params: size=structSize reserved=pPriv sampling=pPmSamplingObject
pm_set_config_params CUpti_PmSampling_SetConfig_Params: size=structSize reserved=pPriv
    sampling=pPmSamplingObject bytes=configSize image=pConfig hardware_bytes=hardwareBufferSize
    interval=samplingInterval trigger=triggerMode append=hwBufferAppendMode
pm_data_size_params CUpti_PmSampling_GetCounterDataSize_Params: size=structSize reserved=pPriv
    sampling=pPmSamplingObject names=pMetricNames count=numMetrics samples=maxSamples
    bytes=counterDataSize
pm_data_begin_params CUpti_PmSampling_CounterDataImage_Initialize_Params: size=structSize
    reserved=pPriv sampling=pPmSamplingObject bytes=counterDataSize image=pCounterData
pm_decode_params CUpti_PmSampling_DecodeData_Params: size=structSize reserved=pPriv
    sampling=pPmSamplingObject image=pCounterDataImage image_bytes=counterDataImageSize
    stop_reason=decodeStopReason overflow
pm_data_info_params CUpti_PmSampling_GetCounterDataInfo_Params: size=structSize reserved=pPriv
    image=pCounterDataImage image_bytes=counterDataImageSize total=numTotalSamples
    populated=numPopulatedSamples completed=numCompletedSamples
pm_sample_info_params CUpti_PmSampling_CounterData_GetSampleInfo_Params: size=structSize
    reserved=pPriv sampling=pPmSamplingObject image=pCounterDataImage
    image_bytes=counterDataImageSize index=sampleIndex start_ns=startTimestamp end_ns=endTimestamp
"""
# The range profiler, in the same headers.
RANGE_CONSTANTS = {
    "HOST_RANGE_PROFILER": "CUPTI_PROFILER_TYPE_RANGE_PROFILER",
    "HOST_METRIC_COUNTER": "CUPTI_METRIC_TYPE_COUNTER",
    "RANGE_OF_USER": "CUPTI_UserRange",
    "RANGE_USER_REPLAY": "CUPTI_UserReplay",
}
OF_RANGES = "CUpti_RangeProfiler"
RANGES = f"""
range_availability_params CUpti_Profiler_GetCounterAvailability_Params: size=structSize
    reserved=pPriv context=ctx image_bytes=counterAvailabilityImageSize
    image=pCounterAvailabilityImage
range_enable_params {OF_RANGES}_Enable_Params: size=structSize reserved=pPriv context=ctx
    profiler=pRangeProfilerObject
range_params {OF_RANGES}_Disable_Params: size=structSize reserved=pPriv
    profiler=pRangeProfilerObject
range_params {OF_RANGES}_Start_Params: size=structSize reserved=pPriv profiler=pRangeProfilerObject
range_params {OF_RANGES}_PopRange_Params: size=structSize reserved=pPriv
    profiler=pRangeProfilerObject
range_stop_params {OF_RANGES}_Stop_Params: size=structSize reserved=pPriv
    profiler=pRangeProfilerObject pass=passIndex level=targetNestingLevel is_all=isAllPassSubmitted
range_push_params {OF_RANGES}_PushRange_Params: size=structSize reserved=pPriv
    profiler=pRangeProfilerObject name=pRangeName
range_config_params {OF_RANGES}_SetConfig_Params: size=structSize reserved=pPriv
    profiler=pRangeProfilerObject config_bytes=configSize config=pConfig
    image_bytes=counterDataImageSize image=pCounterDataImage range replay=replayMode
    ranges=maxRangesPerPass levels=numNestingLevels first_level=minNestingLevel pass=passIndex
    level=targetNestingLevel
range_decode_params {OF_RANGES}_DecodeData_Params: size=structSize reserved=pPriv
    profiler=pRangeProfilerObject dropped=numOfRangeDropped
range_data_size_params {OF_RANGES}_GetCounterDataSize_Params: size=structSize reserved=pPriv
    profiler=pRangeProfilerObject names=pMetricNames count=numMetrics ranges=maxNumOfRanges
    nodes=maxNumRangeTreeNodes bytes=counterDataSize
range_data_begin_params {OF_RANGES}_CounterDataImage_Initialize_Params: size=structSize
    reserved=pPriv profiler=pRangeProfilerObject bytes=counterDataSize image=pCounterData
range_data_info_params {OF_RANGES}_GetCounterDataInfo_Params: size=structSize reserved=pPriv
    image=pCounterDataImage image_bytes=counterDataImageSize count=numTotalRanges
range_info_params {OF_RANGES}_CounterData_GetRangeInfo_Params: size=structSize reserved=pPriv
    image=pCounterDataImage image_bytes=counterDataImageSize index=rangeIndex
    delimiter=rangeDelimiter name=rangeName
"""

# The second interface, in headers of 13.3 and later.
SECOND_CONSTANTS = {
    "CUPTI_E_NOT_COMPATIBLE": "CUPTI_ERROR_NOT_COMPATIBLE",
    "CUPTI_E_UNKNOWN": "CUPTI_ERROR_UNKNOWN",
    "CUPTI_SUBSCRIBER_NAME_BYTES": "CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN",
    "CUPTI_ATTRIBUTE_USER_DEFINED_RECORDS": "CUPTI_ACTIVITY_ATTR_USER_DEFINED_RECORDS",
    "CUPTI_ATTRIBUTE_HARDWARE_TIMES": "CUPTI_ACTIVITY_ATTR_ENABLE_HES",
    "CUPTI_ATTRIBUTE_TIMESTAMP_CALLBACK": "CUPTI_ACTIVITY_ATTR_TIMESTAMP_CALLBACK",
    "CUPTI_FIELD_KIND": "KERNEL_FIELD_KIND",
    "(int)CUPTI_FIELD_KIND": "MEMCPY_FIELD_KIND",
    "(long)CUPTI_FIELD_KIND": "MEMCPY2_FIELD_KIND",
    "(short)CUPTI_FIELD_KIND": "MEMSET_FIELD_KIND",
    "CUPTI_MEMCPY_SOURCE_KIND": "MEMCPY_FIELD_SRC_KIND",
    "CUPTI_MEMCPY_DESTINATION_KIND": "MEMCPY_FIELD_DST_KIND",
    "CUPTI_MEMCPY_PEER_CORRELATION_ID": "MEMCPY2_FIELD_CORRELATION_ID",
    "CUPTI_MEMCPY_PEER_GRAPH_NODE_ID": "MEMCPY2_FIELD_GRAPH_NODE_ID",
}
# Our names are CUPTI_ and the record's, where theirs have _FIELD_ between.
KERNEL_IDS = (
    "REGISTERS_PER_THREAD START END DEVICE_ID CONTEXT_ID STREAM_ID GRID_X GRID_Y GRID_Z BLOCK_X "
    "BLOCK_Y BLOCK_Z STATIC_SHARED_MEMORY DYNAMIC_SHARED_MEMORY CORRELATION_ID NAME GRAPH_NODE_ID"
)
COPY_IDS = "COPY_KIND BYTES START END DEVICE_ID STREAM_ID"
SET_IDS = "BYTES START END DEVICE_ID STREAM_ID CORRELATION_ID MEMORY_KIND GRAPH_NODE_ID"
SECOND_STRUCTS = """
cupti_subscriber_params CUpti_SubscriberParams: size=structSize name=subscriberName
    other_name=oldSubscriberName other_name_bytes=oldSubscriberSize
    allows_several=allowMultipleSubscribers
cupti_field_selection CUpti_ActivityFieldSelection: size=structSize count=numFields fields=pFieldIds
cupti_activity_config CUpti_ActivityConfig: size=structSize selection=fieldSelection
cupti_field_layout CUpti_ActivityFieldLayoutEntry: size=structSize field=fieldId offset bytes=size
    alignment
cupti_record_layout CUpti_ActivityRecordLayout: size=structSize fields=pEntries count=numFields
    record_bytes=recordSize
cupti_complete_info CUpti_BufferCallbackCompleteInfo: size=structSize thread_id=threadId
    layouts=ppRecordLayouts layout_count=numRecordLayouts
"""
WHEELS = os.environ.get("PROTON_TEST_CUPTI_WHEELS", "")


def find(name: str) -> list[str]:
    """Directories that hold header `name`, in this Python's packages, in toolkits and in wheels."""
    patterns = [
        os.path.join(WHEELS or os.devnull, "*", "nvidia", "*", "include", name),
        os.path.join(PACKAGES, "nvidia", "*", "include", name),
        os.path.join(PACKAGES, "triton", "backends", "nvidia", "include", name),
        os.path.join("/usr/local", "cuda*", "include", name),
        os.path.join("/usr/local", "cuda*", "extras", "CUPTI", "include", name),
    ]
    return [os.path.dirname(path) for pattern in patterns for path in sorted(glob.glob(pattern))]


PROGRAM = """
#include <stddef.h>
#include <cuda.h>
#include <cupti.h>
#include <cupti_pcsampling.h>
#include "backend/cuda/cupti_abi.h"
#include "backend/cuda/pcs_abi.h"
#include "backend/cuda/pm_abi.h"
#include "backend/cuda/range_abi.h"
#include "driver/driver.h"
#if __has_include(<cupti_pmsampling.h>) /* from 12.6 on */
#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>
#define HAS_PM
#endif
#if CUPTI_API_VERSION >= 130000
typedef CUpti_ActivityKernel10 their_kernel;
typedef CUpti_ActivityMemcpy6 their_memcpy;
#else
typedef CUpti_ActivityKernel9 their_kernel;
typedef CUpti_ActivityMemcpy5 their_memcpy;
#endif
"""


def second_checks() -> list[str]:
    """Checks of the second interface."""
    pairs = dict(SECOND_CONSTANTS)
    for ours, ids in (
        ("KERNEL", KERNEL_IDS),
        ("MEMCPY", f"{COPY_IDS} CORRELATION_ID GRAPH_NODE_ID"),
        ("MEMSET", SET_IDS),
    ):
        pairs.update({f"CUPTI_{ours}_{one}": f"{ours}_FIELD_{one}" for one in ids.split()})
    for one in [*COPY_IDS.split(), "SRC_KIND", "DST_KIND"]:  # common to both kinds of copies
        pairs[f"MEMCPY_FIELD_{one}"] = f"MEMCPY2_FIELD_{one}"
    return equal(pairs) + same_structs(read_structs(SECOND_STRUCTS), "<=")


def program() -> str:
    resources = re.findall(r"^\tCUPTI_(RESOURCE_\w+) = ", ABI.read_text(), re.MULTILINE)
    events = {f"CUPTI_{one}": f"CUPTI_CBID_{one}" for one in resources}
    updated = "CUPTI_RESOURCE_GRAPHNODE_UPDATED"
    events.pop(updated)
    since_13 = equal({updated: "CUPTI_CBID_RESOURCE_GRAPH_NODE_UPDATED"})
    checks = equal(CONSTANTS | events)
    for struct in read_structs(PREFIXES):
        checks += same_fields(*struct)
    checks += same_structs(read_structs(PC_SAMPLING))
    checks.append("sizeof(struct cupti_kernel) <= sizeof(their_kernel)")  # a prefix
    source = equal({"CUPTI_KERNEL_SOURCE_GRAPH_NODE_ID": "KERNEL_FIELD_SOURCE_GRAPH_NODE_ID"})
    # The first form of the parameters ends before the last field.
    first_form = "offsetof(struct cupti_subscriber_params, allows_several)"
    text = PROGRAM + assertions(checks)
    for versions, more in (
        (">= 130000", since_13),
        (">= 130300", second_checks()),
        (">= 130400", source),
        (">= 130200 && CUPTI_API_VERSION < 130400", ["(long)KERNEL_FIELD_MAX <= 48"]),
        (
            ">= 130000 && CUPTI_API_VERSION < 130200",
            [f"sizeof(CUpti_SubscriberParams) == {first_form}"],
        ),
    ):
        text += f"#if CUPTI_API_VERSION {versions}\n{assertions(more)}#endif\n"
    pm = equal(PM_CONSTANTS) + same_structs(read_structs(PM_SAMPLING), "<=")
    ranges = equal(RANGE_CONSTANTS) + same_structs(read_structs(RANGES), "<=")
    return f"{text}#ifdef HAS_PM\n{assertions(pm + ranges)}#endif\n"


def test_the_numbers_of_memory_calls_are_the_headers(tmp_path):
    """Each call that a header knows has the number that we have, and none is missing here."""
    directories = find("cupti_driver_cbid.h")
    if not directories:
        pytest.skip("needs cupti_driver_cbid.h (pip install nvidia-cuda-cupti)")
    text = (CUDA / "memory_calls.def").read_text()
    ours = dict(re.findall(r"^[MB]\((cu\w+), (\d+)\)$", text, re.MULTILINE))
    for directory in directories:
        with open(os.path.join(directory, "cupti_driver_cbid.h")) as file:
            pattern = r"CUPTI_DRIVER_TRACE_CBID_(cuMem(?:cpy|set)\w+)\s*=\s*(\d+)"
            theirs = dict(re.findall(pattern, file.read()))
        assert theirs and theirs.items() <= ours.items(), directory


@pytest.mark.parametrize("name", ["pcs_module_calls.def", "graph_calls.def"])
def test_the_numbers_of_module_and_graph_calls_are_the_headers(name):
    text = (CUDA / name).read_text()
    ours = dict(re.findall(r"^[A-Z]\((cu\w+), (\d+)\)$", text, re.MULTILINE))
    assert len(ours) > 20
    for directory in find("cupti_driver_cbid.h"):
        with open(os.path.join(directory, "cupti_driver_cbid.h")) as file:
            theirs = dict(re.findall(r"CUPTI_DRIVER_TRACE_CBID_(cu\w+)\s*=\s*(\d+)", file.read()))
        # Some calls came after 12.4.
        assert {n: v for n, v in ours.items() if n in theirs}.items() <= theirs.items(), directory
        assert "cuModuleLoadDataEx" in theirs


def test_our_declarations_agree_with_the_real_headers(tmp_path):
    cupti, cuda = find("cupti.h"), find("cuda.h")
    # Some wheels bring CUPTI's headers without all that these include.
    more = find(os.path.join("crt", "host_defines.h"))
    if not cupti or not cuda or not more:
        pytest.skip("needs cupti.h (pip install nvidia-cuda-cupti) and cuda.h")
    # Parameters of CUDA functions, with types that only headers of the same version have.
    # The host profiler's header includes one of C++.
    for name in ("generated_cuda_meta.h", "generated_cuda_runtime_api_meta.h", "string"):
        (tmp_path / name).touch()
    places = [cuda[0], *(os.path.dirname(place) for place in more)]
    ours = [str(SRC), str(SRC.parent / "include"), str(tmp_path)]
    for directory in cupti:
        assert compile_errors(program(), *ours, directory, *places) == "", directory


def needed(letters: str) -> set[str]:
    """Entry points that the rows with these letters of cupti_symbols.def name."""
    text = (CUDA / "cupti_symbols.def").read_text()
    return set(re.findall(rf"^[{letters}]\((cupti\w+),", text, re.MULTILINE))


# Loads a libcupti, and prints the entry points of the arguments that it has. On a machine without a
# driver: subscribes, which must fail without a crash (13.2, which lacks some of the second
# interface, crashes).
LOAD = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
print(*(name for name in sys.argv[2:] if hasattr(library, name)))
try:
    ctypes.CDLL("libcuda.so.1")
except OSError:
    handle = ctypes.c_void_p()
    if hasattr(library, "cuptiActivityGetNextRecord_v2"):
        words = (ctypes.c_size_t * 5)(40)
        assert library.cuptiSubscribe(ctypes.byref(handle), None, None) != 0
        assert library.cuptiSubscribe_v2(ctypes.byref(handle), None, None, words) != 0
"""


@pytest.mark.skipif(not WHEELS, reason="needs PROTON_TEST_CUPTI_WHEELS (tools/cupti_wheels.py)")
def test_entry_points_of_each_interface_are_in_the_real_libraries():
    """The first interface is in every version, the second from 13.3 on."""
    libraries = sorted(glob.glob(os.path.join(WHEELS, "*", "nvidia", "*", "lib", "libcupti.so*")))
    first, second = needed("VF"), needed("VS")
    assert libraries and len(first) > 15 and len(second - first) == 7
    for library in libraries:
        version = library[len(WHEELS) :].strip(os.sep).split(os.sep)[0]
        names = sorted(first | second)
        done = subprocess.run(
            [sys.executable, "-c", LOAD, library, *names], capture_output=True, text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{version}: {done.stderr}"
        found = set(done.stdout.split())
        assert first <= found, version
        has_second = tuple(map(int, version.split("."))) >= (13, 3)
        assert (second <= found) == has_second, version


# Enumerations, handles and structures, as the driver's header has them and as ours.
TYPES = {
    "CUuuid": "unsigned char",  # 16 of them
    r"CU(context|event|function|module|stream)": "void *",
    r"CU(device|(device|pointer)_attribute|streamCapture(Mode|Status))(_v\d|_enum)?": "int",
    r"CUdeviceptr(_v\d)?|cuuint64_t|unsigned long long": "uint64_t",
    r"CUDA_MEMCPY2D(_v\d)?": "driver_copy",
    r"unsigned int": "unsigned",
    r"const": "",
}


def test_functions_of_the_driver_are_declared_as_in_its_header():
    directories = find("cuda.h")
    if not directories:
        pytest.skip("needs cuda.h")
    functions = (SRC / "driver" / "cuda_functions.def").read_text()
    ours = re.findall(r"^X\((\w+), (\w*),\s*\(([^()]*)\)", functions, re.MULTILINE)
    assert len(ours) > 30
    for directory in directories:
        header = "#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>"
        text = preprocess(header, directory)
        for name, version, arguments in ours:
            theirs = re.search(rf"CUresult {name}{version}\(([^()]*)\)", text)
            assert theirs, f"{directory}: no {name}{version}"
            types = read_types(theirs.group(1), TYPES)
            assert types == read_types(arguments, TYPES), f"{directory}: {name}"
