/*
 * A session of CUPTI's range profiler. The order of calls, what they cost and their traps were
 * measured with CUPTI 13.0 on an H200: docs/design/counters.md.
 */
#include "backend/cuda/range_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cupti_api.h"
#include "base/array.h"
#include "driver/driver.h"

static int fail(int result, const char *call, struct proton_error *err)
{
	return result == CUPTI_OK ? PROTON_OK : cupti_api_error(result, call, err);
}

/* Fails while another session measures the context's GPU. */
static int read_availability(void *context, struct profiler_host *host, struct proton_error *err)
{
	struct range_availability_params params =
		PARAMS(range_availability_params, image, .context = context);
	int result = libcupti.cuptiProfilerGetCounterAvailability(&params);

	if (result == CUPTI_OK) {
		host->availability = params.image = calloc(1, params.image_bytes);
		result = host->availability ? libcupti.cuptiProfilerGetCounterAvailability(&params)
					    : CUPTI_E_OUT_OF_MEMORY;
	}
	return fail(result, "cuptiProfilerGetCounterAvailability", err);
}

static int choose_sets(struct range_session *session, uint32_t device, struct proton_error *err)
{
	struct profiler_host host = {.type = HOST_RANGE_PROFILER};
	int status = profiler_host_open(&host, device, err);

	if (status == PROTON_OK)
		status = read_availability(session->context, &host, err);
	if (status == PROTON_OK && !counter_sets_choose(&session->sets, &host))
		status = err_set(err, PROTON_E_UNSUPPORTED,
				 "CUPTI has no counters for GPU %u (%s); libnvperf_host.so has to "
				 "be in the directory of %s",
				 device, host.chip, libcupti.path);
	if (status != PROTON_OK && !session->sets.availability)
		free(host.availability);
	return status;
}

static int enable(struct range_session *session)
{
	struct range_enable_params params =
		PARAMS(range_enable_params, profiler, .context = session->context);
	int result = libcupti.cuptiRangeProfilerEnable(&params);

	session->profiler = result == CUPTI_OK ? params.profiler : NULL;
	return result;
}

static void disable(struct range_session *session)
{
	struct range_params params = PARAMS(range_params, profiler, .profiler = session->profiler);

	if (session->profiler)
		libcupti.cuptiRangeProfilerDisable(&params);
	session->profiler = NULL;
	free(session->image);
	session->image = NULL;
}

int range_session_open(struct range_session *session, void *context, uint32_t device,
		       struct proton_error *err)
{
	int status;

	if (!libcupti.cuptiRangeProfilerCounterDataGetRangeInfo ||
	    !libcupti.cuptiProfilerHostGetBaseMetrics)
		return err_set(err, PROTON_E_VERSION,
			       "%s has no range profiler; CUPTI 12.6 or later is required",
			       libcupti.path);
	*session = (struct range_session){.context = context};
	status = choose_sets(session, device, err);
	if (status == PROTON_OK)
		status = fail(enable(session), "cuptiRangeProfilerEnable", err);
	if (status != PROTON_OK)
		range_session_close(session, true);
	return status;
}

/* Makes an image for the set, or makes the present image fresh. */
static int make_image(struct range_session *session, const struct counter_set *set)
{
	struct range_data_size_params size =
		PARAMS(range_data_size_params, bytes, .profiler = session->profiler,
		       .names = (const char **)(uintptr_t)set->names, .count = set->count,
		       .ranges = RANGES_MAX, .nodes = RANGES_MAX);
	struct range_data_begin_params begin =
		PARAMS(range_data_begin_params, image, .profiler = session->profiler);

	if (!session->image) {
		int result = libcupti.cuptiRangeProfilerGetCounterDataSize(&size);

		if (result != CUPTI_OK)
			return result;
		session->image = calloc(1, size.bytes);
		session->image_bytes = size.bytes;
	}
	begin.image = session->image;
	begin.bytes = session->image_bytes;
	return begin.image ? libcupti.cuptiRangeProfilerCounterDataImageInitialize(&begin)
			   : CUPTI_E_OUT_OF_MEMORY;
}

static int set_config(struct range_session *session, const struct counter_set *set)
{
	struct range_config_params params =
		PARAMS(range_config_params, level, .profiler = session->profiler,
		       .config_bytes = set->host.config_bytes, .config = set->host.config,
		       .image_bytes = session->image_bytes, .image = session->image,
		       .range = RANGE_OF_USER, .replay = RANGE_USER_REPLAY, .ranges = RANGES_MAX,
		       .levels = 1, .first_level = 1, .level = 1);

	return libcupti.cuptiRangeProfilerSetConfig(&params);
}

/*
 * Another set needs another profiler: a second configuration of one was only tried with the same
 * metrics and the same image (measured).
 */
int range_session_start(struct range_session *session, size_t set, struct proton_error *err)
{
	struct range_params params = {.size = PARAMS_BYTES(struct range_params, profiler)};
	int result = CUPTI_OK;

	if (session->image && session->set != set) {
		disable(session);
		result = enable(session);
	}
	if (result != CUPTI_OK)
		return fail(result, "cuptiRangeProfilerEnable", err);
	params.profiler = session->profiler;
	result = make_image(session, &session->sets.set[set]);
	if (result != CUPTI_OK)
		return fail(result, "cuptiRangeProfilerCounterDataImageInitialize", err);
	result = set_config(session, &session->sets.set[set]);
	if (result != CUPTI_OK)
		return fail(result, "cuptiRangeProfilerSetConfig", err);
	result = libcupti.cuptiRangeProfilerStart(&params);
	session->is_started = result == CUPTI_OK;
	session->set = set;
	session->count = 0;
	return fail(result, "cuptiRangeProfilerStart", err);
}

int range_session_push(struct range_session *session, struct proton_error *err)
{
	char *name = session->names[session->count % RANGES_MAX];
	struct range_push_params params =
		PARAMS(range_push_params, name, .profiler = session->profiler, .name = name);
	int result;

	snprintf(name, sizeof(session->names[0]), "r%u", session->count % RANGES_MAX);
	result = libcupti.cuptiRangeProfilerPushRange(&params);
	session->count += result == CUPTI_OK;
	return fail(result, "cuptiRangeProfilerPushRange", err);
}

int range_session_pop(struct range_session *session, struct proton_error *err)
{
	struct range_params params = PARAMS(range_params, profiler, .profiler = session->profiler);

	return fail(libcupti.cuptiRangeProfilerPopRange(&params), "cuptiRangeProfilerPopRange",
		    err);
}

static int read_range(struct range_session *session, size_t index, range_read_fn read, void *user)
{
	struct range_info_params info = PARAMS(range_info_params, name, .image = session->image,
					       .image_bytes = session->image_bytes, .index = index,
					       .delimiter = "/");
	double values[COUNTER_VALUES] = {0};
	int result = libcupti.cuptiRangeProfilerCounterDataGetRangeInfo(&info);

	if (result == CUPTI_OK)
		result = counter_sets_read(&session->sets, session->set, session->image,
					   session->image_bytes, index, values);
	if (result != CUPTI_OK || !info.name || info.name[0] != 'r')
		return result;
	unsigned long number = strtoul(info.name + 1, NULL, 10);
	if (number < session->count)
		read((uint32_t)number, values, user);
	return result;
}

static int read_ranges(struct range_session *session, range_read_fn read, void *user,
		       struct proton_error *err)
{
	struct range_decode_params decode =
		PARAMS(range_decode_params, dropped, .profiler = session->profiler);
	struct range_data_info_params info = PARAMS(range_data_info_params, count,
						    .image = session->image,
						    .image_bytes = session->image_bytes);
	int result = libcupti.cuptiRangeProfilerDecodeData(&decode);

	if (result != CUPTI_OK)
		return fail(result, "cuptiRangeProfilerDecodeData", err);
	result = libcupti.cuptiRangeProfilerGetCounterDataInfo(&info);
	for (size_t i = 0; i < info.count && result == CUPTI_OK; i++)
		result = read_range(session, i, read, user);
	return fail(result, "cuptiProfilerHostEvaluateToGpuValues", err);
}

int range_session_stop(struct range_session *session, range_read_fn read, void *user,
		       struct proton_error *err)
{
	struct range_stop_params params =
		PARAMS(range_stop_params, is_all, .profiler = session->profiler);
	bool is_pushed = session->context && libcuda.cuCtxPushCurrent(session->context) == 0;
	int status = fail(libcupti.cuptiRangeProfilerStop(&params), "cuptiRangeProfilerStop", err);
	void *popped;

	session->is_started = false;
	if (status == PROTON_OK && session->count)
		status = read_ranges(session, read, user, err);
	session->count = 0;
	if (is_pushed)
		libcuda.cuCtxPopCurrent(&popped);
	return status;
}

void range_session_close(struct range_session *session, bool exists)
{
	struct range_stop_params stop =
		PARAMS(range_stop_params, is_all, .profiler = session->profiler);

	if (!exists)
		session->profiler = NULL;
	if (session->is_started && session->profiler)
		libcupti.cuptiRangeProfilerStop(&stop);
	disable(session);
	counter_sets_fini(&session->sets);
	*session = (struct range_session){0};
}
