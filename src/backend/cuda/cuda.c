/*
 * The CUDA backend: kernels on NVIDIA GPUs, through CUPTI's activity records and launch callbacks.
 * Subscribed once per process, given back after the last session.
 */
#include <stdlib.h>
#include <strings.h>

#include "backend/cuda/contexts.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/graphs.h"
#include "backend/cuda/periodic.h"
#include "backend/cuda/tensors.h"
#include "base/clock.h"
#include "record/backend.h"
#include "record/correlate.h"
#include "record/nvtx.h"

static const struct cupti_api *api;

static bool is_interpreting(void)
{
	const char *value = getenv("TRITON_INTERPRET");

	return value && (strcasecmp(value, "1") == 0 || strcasecmp(value, "true") == 0 ||
			 strcasecmp(value, "on") == 0 || strcasecmp(value, "y") == 0 ||
			 strcasecmp(value, "yes") == 0);
}

static bool is_usable(void)
{
	return !is_interpreting() && cupti_driver_is_there();
}

static int check_mode(const char *mode, struct proton_error *err)
{
	if (*mode)
		return err_set(err, PROTON_E_INVALID, "cupti: unsupported mode: %s", mode);
	return PROTON_OK;
}

static int start(const char *mode, struct proton_error *err)
{
	int status = cupti_api_get(&api, err);

	(void)mode;
	if (status == PROTON_OK)
		status = correlate_init(err);
	if (status == PROTON_OK)
		tensors_start(api);
	if (status == PROTON_OK)
		status = callbacks_start(api, err);
	if (status != PROTON_OK)
		return status;
	status = activity_start(api, err);
	if (status != PROTON_OK) {
		callbacks_stop(api);
		return status;
	}
	periodic_start(api);
	nvtx_attach();
	return PROTON_OK;
}

static int flush(struct proton_error *err)
{
	uint64_t begin_ns = clock_monotonic_ns();
	uint64_t launched = callbacks_launched();
	uint32_t last_shared = callbacks_last_shared();
	bool in_doubt = false;
	int status;

	callbacks_check(api);
	/*
	 * To wait for a context in which some stream captures is an error that ends the capture;
	 * then only the records are waited for.
	 */
	if (!captured_any_open())
		in_doubt = !contexts_synchronize(api);
	tensors_collect();
	status = activity_flush(api, launched, last_shared, in_doubt, err);
	tensors_settle();
	graphs_forget_destroyed(begin_ns);
	return status;
}

static int set_memory(bool is_wanted, struct proton_error *err)
{
	return callbacks_set_memory(api, is_wanted, err);
}

static void describe(void (*add)(void *user, const char *key, const char *value), void *user)
{
	describe_cuda(api, add, user);
}

static void stop(void)
{
	nvtx_detach();
	periodic_stop();
	activity_stop(api);
	callbacks_stop(api);
	correlate_clear();
	graphs_clear();
	captured_clear();
	tensors_stop();
}

const struct backend cuda_backend = {
	.name = "cupti",
	.is_usable = is_usable,
	.check_mode = check_mode,
	.start = start,
	.flush = flush,
	.read_metric = tensors_read,
	.set_memory = set_memory,
	.describe = describe,
	.stop = stop,
};
