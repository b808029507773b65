/*
 * roctracer backend: kernels on AMD GPUs with ROCm 6, recorded through roctracer's callbacks and
 * activity records. AMD has deprecated roctracer; with ROCm 7 the backend "rocprofiler" is used.
 *
 * At its first call for HIP, roctracer looks for libamdhip64 in the process. If it is not loaded
 * yet, all calls of roctracer succeed and do nothing, then and later. So nothing of roctracer that
 * concerns HIP is called before HIP is loaded: a thread looks for it every few milliseconds. HIP
 * needs much longer than that for its initialization, which precedes the first launch.
 */
#include <link.h>
#include <stdio.h>

#include "backend/amd/hip_calls.h"
#include "backend/amd/hip_graphs.h"
#include "backend/amd/roctracer_api.h"
#include "backend/gpu/captured_nodes.h"
#include "backend/gpu/flush_thread.h"
#include "backend/gpu/launches.h"
#include "backend/gpu/records.h"
#include "backend/gpu/tensors.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "driver/amd_gpus.h"
#include "driver/amd_library.h"
#include "driver/driver.h"
#include "driver/hip_functions.h"
#include "record/backend.h"
#include "record/nvtx/nvtx.h"
#include "record/record.h"
#include "record/thread/captured.h"
#include "record/thread/record_launch.h"

#define LOOK_PERIOD_NS 5000000u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following, and changes */
static bool wants_memory;                                /* argument of set_memory() */
static struct proton_error failure;                      /* of ROCTRACER_FAILED */
static bool was_used;                                    /* roctracer has threads */
static _Atomic bool has_begun;                           /* since the start */

static struct periodic_thread thread;

static const struct await_vendor vendor = {
	.flush = roctracer_records_flush,
	.name = "roctracer",
	.cause = "another tool in this process (torch.profiler, rocprof) may have taken over "
		 "roctracer's records, or the GPU reported an error",
};

static bool is_usable(void)
{
	struct proton_error err;

	return !backend_is_interpreting() && amd_library_is_likely() &&
	       amd_library_open(AMD_ROCTRACER, &err);
}

static int check_mode(const char *mode, struct proton_error *err)
{
	return *mode ? backend_refuse_mode("roctracer", mode, err) : PROTON_OK;
}

/* ------------------------------------------------------------------ start */

static int set_memory_now(bool is_wanted, struct proton_error *err)
{
	if (!is_wanted) {
		hip_replays_set_memory(false);
		roctracer_records_set_memory(false, NULL);
		return roctracer_launches_set_memory(false, NULL);
	}
	/* Callbacks first: copies from here on have their context before their record arrives. */
	int status = roctracer_launches_set_memory(true, err)
			     ?: roctracer_records_set_memory(true, err);
	if (status != PROTON_OK)
		roctracer_launches_set_memory(false, NULL);
	hip_replays_set_memory(status == PROTON_OK);
	return status;
}

/* HIP is loaded: roctracer is used from here on. On failure nothing stays enabled. */
static int begin_recording(struct proton_error *err)
{
	TRY(roctracer_api_load_hip(err));
	was_used = true;
	await_records_start(&vendor);
	hip_replays_start(HIP_REPLAYS_BY_ARRIVAL);
	TRY(roctracer_launches_start(err));
	int status = roctracer_records_start(err)
			     ?: (wants_memory ? set_memory_now(true, err) : PROTON_OK);
	if (status != PROTON_OK) {
		roctracer_records_stop();
		roctracer_launches_stop();
		return status;
	}
	atomic_store(&roctracer_state, ROCTRACER_ON);
	atomic_store(&has_begun, true);
	EXPERIMENTAL_REPORT("roctracer");
	return PROTON_OK;
}

static int read_adds(struct dl_phdr_info *info, size_t size, void *adds_out)
{
	*(unsigned long long *)adds_out = info->dlpi_adds;
	return 1; /* the same for all libraries */
}

/* True if the process has loaded a library since the last call: looking for HIP costs much more. */
static bool has_new_library(void)
{
	static unsigned long long known;
	unsigned long long adds = 0;

	dl_iterate_phdr(read_adds, &adds);
	bool is_new = adds != known;
	known = adds;
	return is_new;
}

/* The lock is held. */
static void begin_if_loaded(void)
{
	if (atomic_load(&roctracer_state) == ROCTRACER_WAITING && has_new_library() &&
	    amd_library_get_loaded(AMD_HIP) && begin_recording(&failure) != PROTON_OK)
		atomic_store(&roctracer_state, ROCTRACER_FAILED);
}

static void *run_thread(void *unused)
{
	while (atomic_load(&roctracer_state) == ROCTRACER_WAITING) {
		if (!periodic_thread_wait(&thread, LOOK_PERIOD_NS))
			return NULL;
		MUTEX_HOLD(&lock);
		begin_if_loaded();
	}
	flush_thread_run(&thread, NULL, NULL);
	return NULL;
}

static int start_roctracer(const char *mode, struct proton_error *err)
{
	int status = roctracer_api_load(err) ?: correlate_init(err);

	if (status != PROTON_OK)
		return status;
	atomic_store(&has_begun, false);
	tensors_start(&hip_tensors_reader);
	pthread_mutex_lock(&lock);
	if (amd_library_get_loaded(AMD_HIP))
		status = begin_recording(err);
	else
		atomic_store(&roctracer_state, ROCTRACER_WAITING);
	pthread_mutex_unlock(&lock);
	if (status != PROTON_OK)
		return status;
	nvtx_attach();
	periodic_thread_start(&thread, run_thread);
	return PROTON_OK;
}

/* `what` begins the error of a start that has failed. */
static int look_now(const char *what, struct proton_error *err)
{
	int status = PROTON_OK;

	MUTEX_HOLD(&lock);
	begin_if_loaded();
	if (atomic_load(&roctracer_state) == ROCTRACER_FAILED)
		status = err_set(err, failure.status, "%s%s", what, failure.text);
	return status;
}

/* HIP initializes the HSA runtime, before its first launch: no need to wait for the thread. */
static int resume_roctracer(struct proton_error *err)
{
	return look_now("", err);
}

/* ------------------------------------------------------------------ flush */

static bool synchronize(void *context)
{
	if (!hip.hipDeviceSynchronize || libhip.cuCtxPushCurrent(context) != 0)
		return false;
	int result = hip.hipDeviceSynchronize();
	libhip.cuCtxPopCurrent(&context);
	return result == 0;
}

static int flush_roctracer(struct proton_error *err)
{
	uint64_t begin_ns = clock_monotonic_ns();
	uint64_t launched = launches_count();
	uint32_t last_shared = launches_last_shared();
	bool in_doubt = false;
	bool has_waited = false; /* for all work */

	if (atomic_load(&roctracer_state) != ROCTRACER_ON)
		return look_now("no GPU activity was recorded: ", err);
	/* Waiting for a device invalidates all captures; then only the records are waited for. */
	if (!captured_any_open()) {
		in_doubt = !contexts_synchronize(synchronize);
		has_waited = !in_doubt;
	}
	tensors_collect();
	int result = await_records_flush(launched, last_shared, in_doubt);
	if (has_waited)
		hip_replays_settle(last_shared);
	tensors_settle();
	captured_nodes_forget_destroyed(begin_ns);
	return roctracer_api_status(result, "roctracer_flush_activity_expl", err);
}

/* ------------------------------------------------------------------ other functions */

static int set_memory(bool is_wanted, struct proton_error *err)
{
	int status = PROTON_OK;

	MUTEX_HOLD(&lock);
	if (atomic_load(&roctracer_state) == ROCTRACER_ON)
		status = set_memory_now(is_wanted, err);
	if (status == PROTON_OK || !is_wanted)
		wants_memory = is_wanted;
	return status;
}

static void describe(backend_add_fn add, void *user)
{
	const char *path = amd_library_path(AMD_ROCTRACER);
	char text[32];

	snprintf(text, sizeof(text), "%d.%d", libroctracer.roctracer_version_major(),
		 libroctracer.roctracer_version_minor());
	add(user, "roctracer", text);
	add(user, "roctracer_path", path ? path : "");
	path = amd_library_path(AMD_HIP);
	if (path)
		add(user, "hip_path", path);
	gpu_describe_overhead(add, user);
}

static const char *explain_no_kernels(void)
{
	return atomic_load(&has_begun) ? amd_gpus_problem()
				       : "the program did not load HIP (libamdhip64)";
}

static void stop_roctracer(void)
{
	nvtx_detach();
	periodic_thread_stop(&thread);
	pthread_mutex_lock(&lock);
	if (atomic_load(&roctracer_state) == ROCTRACER_ON) {
		roctracer_records_stop();
		roctracer_records_flush();
		roctracer_launches_stop();
	}
	atomic_store(&roctracer_state, ROCTRACER_OFF);
	wants_memory = false;
	pthread_mutex_unlock(&lock);
	launches_clear();
	captured_clear();
	hip_replays_clear();
}

static void forked_roctracer(void)
{
	pthread_mutex_init(&lock, NULL);
	atomic_store(&roctracer_state, was_used ? ROCTRACER_ORPHANED : ROCTRACER_OFF);
	wants_memory = false;
	roctracer_records_forget();
	hip_tensors_forget();
}

const struct backend roctracer_backend = {
	.name = "roctracer",
	.records_gpu = true,
	.is_usable = is_usable,
	.check_mode = check_mode,
	.start = start_roctracer,
	.resume = resume_roctracer,
	.flush = flush_roctracer,
	.read_metric = tensors_read,
	.set_memory = set_memory,
	.describe = describe,
	.no_kernels = explain_no_kernels,
	.no_records = "roctracer may have been started before HIP was initialized, another tool "
		      "may use roctracer (torch.profiler, rocprof), or the GPU reported an error; "
		      "start the session after HIP was initialized, stop the other tool, or use "
		      "ROCm 7 with the backend \"rocprofiler\"",
	.stop = stop_roctracer,
	.forked = forked_roctracer,
};
