/* The contexts and buffers of rocprofiler-sdk that sdk_register.c has made. */
#include "backend/amd/sdk_backend.h"

#include <pthread.h>
#include <stdatomic.h>

struct sdk_contexts sdk_contexts;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the next one */
static bool is_profiling;
static _Atomic bool orphan_was_stopped;

int sdk_contexts_start_profiling(struct proton_error *err)
{
	int status = PROTON_OK;

	pthread_mutex_lock(&lock);
	if (!is_profiling)
		status = SDK_CALL(err, start_context, sdk_contexts.profiling);
	is_profiling = status == PROTON_OK;
	pthread_mutex_unlock(&lock);
	return status;
}

int sdk_contexts_start_memory(struct proton_error *err)
{
	static bool is_started; /* set_memory() has one caller at a time */
	int status = PROTON_OK;

	if (!atomic_load(&sdk_contexts.has_memory))
		return err_set(err, PROTON_E_UNSUPPORTED,
			       "this version of rocprofiler-sdk does not report memory copies; "
			       "update ROCm, or start the session without them");
	if (!is_started)
		status = SDK_CALL(err, start_context, sdk_contexts.memory);
	is_started = status == PROTON_OK;
	return status;
}

int sdk_contexts_flush(void)
{
	int result;
	int second = SDK_OK;

	if (sdk_state_now() != SDK_ON && sdk_state_now() != SDK_OFF)
		return SDK_OK;
	result = sdk.flush_buffer(sdk_contexts.dispatches);
	if (atomic_load(&sdk_contexts.has_memory))
		second = sdk.flush_buffer(sdk_contexts.copies);
	if (result == SDK_OK || result == SDK_E_BUFFER_BUSY)
		result = second;
	/* Busy: it is being flushed. Final: all records have been delivered. */
	return result == SDK_E_BUFFER_BUSY || result == SDK_E_FINALIZED ? SDK_OK : result;
}

void sdk_contexts_stop_orphan(void)
{
	if (atomic_exchange(&orphan_was_stopped, true))
		return;
	sdk.stop_context(sdk_contexts.profiling);
	if (atomic_load(&sdk_contexts.has_memory))
		sdk.stop_context(sdk_contexts.memory);
}
