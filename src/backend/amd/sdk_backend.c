/*
 * rocprofiler-sdk backend: kernels on AMD GPUs with ROCm 7 and later. The process registers once
 * (sdk_register.c); between sessions the library keeps calling back, and nothing is recorded.
 */
#include "backend/amd/sdk_backend.h"

#include <stdio.h>

#include "backend/amd/hip_calls.h"
#include "backend/amd/hip_graphs.h"
#include "backend/gpu/captured_nodes.h"
#include "backend/gpu/flush_thread.h"
#include "backend/gpu/launches.h"
#include "backend/gpu/records.h"
#include "base/clock.h"
#include "base/environment.h"
#include "base/message.h"
#include "driver/amd_gpus.h"
#include "driver/amd_library.h"
#include "driver/driver.h"
#include "record/names/frames.h"
#include "record/nvtx/nvtx.h"
#include "record/record.h"
#include "record/thread/record_launch.h"

static bool wants_memory; /* argument of set_memory() */
static bool is_sampling;  /* in the mode "pcsampling" */

/*
 * Where the registration came too late, roctracer still works and sees queues that exist: HIP asks
 * for each command whether a tool wants its record (clr, rocclr/platform/command.cpp, constructor
 * of Command), and lets HSA time the work of all its queues (acquireQueue() in rocdevice.cpp).
 */
static bool is_taken(void)
{
	struct proton_error err;

	if (sdk_register_is_up_to_hip() || !sdk_register_is_too_late(&err) ||
	    !roctracer_backend.is_usable())
		return false;
	message_once("recording with roctracer: %s", err.text);
	return true;
}

static bool is_usable(void)
{
	return !backend_is_interpreting() && amd_library_is_likely() &&
	       sdk_api_load(NULL) == PROTON_OK && !is_taken();
}

static int check_mode(const char *mode, struct proton_error *err)
{
	uint64_t interval;

	if (sdk_pc_sampling_is_mode(mode))
		return sdk_pc_sampling_read_mode(mode, &interval, err);
	return *mode ? backend_refuse_mode("rocprofiler", mode, err) : PROTON_OK;
}

/* The library is used from here on. */
static int begin_recording(struct proton_error *err)
{
	int status = sdk_register(err)
			 ?: (wants_memory ? sdk_contexts_start_memory(err) : PROTON_OK)
			 ?: (is_sampling ? sdk_pc_sampling_start(err) : PROTON_OK)
			 ?: sdk_contexts_start_profiling(err);

	if (status != PROTON_OK) {
		sdk_pc_sampling_stop();
		return status;
	}
	driver_load_hip(NULL); /* for properties of devices; may be missing */
	launches_start();
	sdk_callbacks_start();
	sdk_records_start();
	hip_replays_start(atomic_load(&sdk_contexts.has_graph_events) ? HIP_REPLAYS_BY_EVENT
								      : HIP_REPLAYS_BY_REQUEST);
	atomic_store(&sdk_state, SDK_ON);
	sdk_callbacks_follow_roctx(true);
	flush_thread_start(NULL, NULL);
	EXPERIMENTAL_REPORT("rocprofiler");
	return PROTON_OK;
}

static int start_sdk(const char *mode, struct proton_error *err)
{
	int status = sdk_api_load(err);

	if (status == PROTON_OK && sdk_state_now() == SDK_ENDED)
		status = sdk_api_status(SDK_E_FINALIZED, "start", err);
	if (status == PROTON_OK)
		status = correlate_init(err);
	if (status != PROTON_OK)
		return status;
	tensors_start(&hip_tensors_reader);
	is_sampling = sdk_pc_sampling_is_mode(mode);
	if (is_sampling)
		sdk_pc_sampling_want(mode);
	if (sdk_register_is_up_to_hip())
		atomic_store(&sdk_state, SDK_POSTPONED);
	else
		status = begin_recording(err);
	if (status == PROTON_OK)
		nvtx_attach();
	return status;
}

static int resume_sdk(struct proton_error *err)
{
	if (sdk_state_now() != SDK_POSTPONED)
		return PROTON_OK;
	int status = begin_recording(err);
	if (status != PROTON_OK)
		atomic_store(&sdk_state, SDK_FAILED);
	return status;
}

/* No kernel was launched yet, unless HIP was initialized without calling the tool. */
static int check_postponed(enum sdk_state state, struct proton_error *err)
{
	if (state == SDK_POSTPONED && amd_gpus_are_open())
		return err_set(
			err, PROTON_E_STATE,
			"no GPU activity was recorded: HIP was initialized without calling "
			"the tool named in ROCP_TOOL_LIBRARIES; the program may have changed "
			"that variable, or this HIP does not use librocprofiler-register; "
			"import Proton and start the session in the program");
	return PROTON_OK;
}

static int flush_sdk(struct proton_error *err)
{
	uint64_t begin_ns = clock_monotonic_ns();
	enum sdk_state state = sdk_state_now();

	if (state != SDK_ON && state != SDK_ENDED)
		return check_postponed(state, err);
	int status = sdk_records_flush(err);
	if (status == PROTON_OK && state == SDK_ON)
		status = sdk_register_check_hip(err);
	sdk_pc_sampling_flush();
	captured_nodes_forget_destroyed(begin_ns);
	return status;
}

static int set_memory(bool is_wanted, struct proton_error *err)
{
	int status = PROTON_OK;

	if (is_wanted && sdk_state_now() == SDK_ON)
		status = sdk_contexts_start_memory(err);
	if (status == PROTON_OK)
		wants_memory = is_wanted;
	return status;
}

static void describe(backend_add_fn add, void *user)
{
	uint32_t version = sdk_register_version();
	int gpus = amd_gpus_hip_count();
	char text[48];

	if (!version)
		return; /* postponed */
	snprintf(text, sizeof(text), "%u.%u.%u", version / 10000, version / 100 % 100,
		 version % 100);
	add(user, "rocprofiler_sdk", text);
	add(user, "rocprofiler_sdk_path", amd_library_path(AMD_ROCPROFILER_SDK));
	if (gpus > 0)
		gpu_describe_number(add, user, "gpus", (uint64_t)gpus);
	gpu_describe_overhead(add, user);
	sdk_pc_sampling_describe(add, user);
}

static void stop_sdk(void)
{
	enum sdk_state state = sdk_state_now();

	nvtx_detach();
	flush_thread_stop();
	if (state == SDK_ON) {
		sdk_callbacks_follow_roctx(false);
		sdk_contexts_flush(); /* late records arrive now, or are ignored */
		sdk_pc_sampling_stop();
	}
	if (state != SDK_ENDED)
		atomic_compare_exchange_strong(&sdk_state, &state, SDK_OFF);
	wants_memory = false;
	launches_stop();
	launches_clear();
	captured_clear();
	hip_replays_clear();
}

static void forked_sdk(void)
{
	atomic_store(&sdk_state, sdk_register_version() ? SDK_ORPHANED : SDK_OFF);
	sdk_pc_sampling_forked();
	hip_tensors_forget();
	wants_memory = false;
}

const struct backend rocprofiler_backend = {
	.name = "rocprofiler",
	.records_gpu = true,
	.is_usable = is_usable,
	.check_mode = check_mode,
	.prepare = sdk_register_early,
	.start = start_sdk,
	.resume = resume_sdk,
	.flush = flush_sdk,
	.read_metric = tensors_read,
	.set_memory = set_memory,
	.describe = describe,
	.no_kernels = amd_gpus_problem,
	.no_records = "HIP was used before Proton had registered with rocprofiler-sdk (import "
		      "Proton first, or run the program with the command `proton`), another "
		      "profiler has taken the records, or the GPU reported an error",
	.stop = stop_sdk,
	.forked = forked_sdk,
};
