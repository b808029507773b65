/* Calls of HIP in the fakes of rocprofiler-sdk and of roctracer, for calls of CUDA. */
#include "fake/amd_calls.h"

const char *amd_call_of(uint32_t call)
{
	switch (call) {
	case CUPTI_CALL_LAUNCH_KERNEL_PTSZ:
		return "hipLaunchKernel_spt";
	case CUPTI_CALL_LAUNCH_KERNEL_EX:
		return "hipDrvLaunchKernelEx";
	case CUPTI_CALL_LAUNCH_KERNEL_EX_PTSZ:
		return "hipLaunchKernelExC";
	case CUPTI_CALL_LAUNCH_COOPERATIVE:
		return "hipModuleLaunchCooperativeKernel";
	case CUPTI_CALL_LAUNCH_COOPERATIVE_PTSZ:
		return "hipLaunchCooperativeKernel_spt";
	case CUPTI_CALL_LAUNCH_COOPERATIVE_MULTI_DEVICE:
		return "hipLaunchCooperativeKernelMultiDevice";
	case CUPTI_CALL_LAUNCH:
		return "hipLaunchByPtr";
	case CUPTI_CALL_LAUNCH_GRID:
		return "hipLaunchKernel";
	case CUPTI_CALL_LAUNCH_GRID_ASYNC:
		return "hipExtModuleLaunchKernel";
	case CUPTI_CALL_GRAPH_LAUNCH:
	case CUPTI_CALL_GRAPH_LAUNCH_PTSZ:
		return "hipGraphLaunch";
	case CUPTI_CALL_BEGIN_CAPTURE:
	case CUPTI_CALL_BEGIN_CAPTURE_V2:
		return "hipStreamBeginCapture";
	case CUPTI_CALL_END_CAPTURE:
		return "hipStreamEndCapture";
	default:
		return "hipModuleLaunchKernel";
	}
}

_Atomic uint64_t amd_next_correlation = 1;
static _Atomic(fake_hook_fn) hook;

FAKE_SETTER(set_hook, fake_hook_fn, hook)

void amd_call_hook(void)
{
	fake_hook_fn first = hook;

	if (first)
		first();
}

FAKE_EXPORT void fake_skip_correlations(uint32_t count)
{
	amd_next_correlation += count;
}

/* HIP has no contexts, and these libraries have their buffers themselves. */
FAKE_EXPORT void fake_context_destroy(void *context)
{
}

FAKE_EXPORT int fake_buffers_out(void)
{
	return 0;
}
