/* CUPTI's host profiler. */
#include "backend/cuda/profiler_host.h"

#include <stdlib.h>

#include "backend/cuda/cupti_api.h"

static void end_object(struct profiler_host *host)
{
	struct host_end_params params = PARAMS(host_end_params, host, .host = host->object);

	if (host->object)
		libcupti.cuptiProfilerHostDeinitialize(&params);
	host->object = NULL;
}

/* A fresh one: an object that has refused a metric does not work any more. */
static bool begin_object(struct profiler_host *host)
{
	struct host_begin_params params = PARAMS(host_begin_params, host, .type = host->type,
						 .chip = host->chip,
						 .availability = host->availability);

	end_object(host);
	if (libcupti.cuptiProfilerHostInitialize(&params) == CUPTI_OK)
		host->object = params.host;
	return host->object;
}

int profiler_host_open(struct profiler_host *host, uint32_t device, struct proton_error *err)
{
	struct host_initialize_params begin = PARAMS(host_initialize_params, reserved);
	struct host_chip_params chip = PARAMS(host_chip_params, chip, .device = device);
	int result;

	cupti_api_preload_host();
	libcupti.cuptiProfilerInitialize(&begin);
	result = libcupti.cuptiDeviceGetChipName(&chip);
	host->chip = chip.chip;
	return result == CUPTI_OK ? PROTON_OK
				  : cupti_api_error(result, "cuptiDeviceGetChipName", err);
}

static bool make_config(struct profiler_host *host)
{
	struct host_config_size_params size =
		PARAMS(host_config_size_params, bytes, .host = host->object);
	struct host_config_params config = PARAMS(host_config_params, image, .host = host->object);

	if (libcupti.cuptiProfilerHostGetConfigImageSize(&size) != CUPTI_OK)
		return false;
	free(host->config);
	host->config = calloc(1, size.bytes);
	host->config_bytes = config.bytes = size.bytes;
	config.image = host->config;
	return host->config && libcupti.cuptiProfilerHostGetConfigImage(&config) == CUPTI_OK;
}

static bool is_single_pass(const struct profiler_host *host)
{
	struct host_passes_params params = PARAMS(
		host_passes_params, passes, .bytes = host->config_bytes, .image = host->config);

	return libcupti.cuptiProfilerHostGetNumOfPasses(&params) == CUPTI_OK && params.passes == 1;
}

bool profiler_host_configure(struct profiler_host *host, const char *const *names, size_t count)
{
	struct host_metrics_params params = PARAMS(host_metrics_params, count,
						   .names = (const char **)(uintptr_t)names,
						   .count = count);

	if (!begin_object(host))
		return false;
	params.host = host->object;
	return libcupti.cuptiProfilerHostConfigAddMetrics(&params) == CUPTI_OK &&
	       make_config(host) && is_single_pass(host);
}

size_t profiler_host_names(struct profiler_host *host, const char *const **names_out)
{
	struct host_names_params params =
		PARAMS(host_names_params, count, .type = HOST_METRIC_COUNTER);

	if (!begin_object(host))
		return 0;
	params.host = host->object;
	if (libcupti.cuptiProfilerHostGetBaseMetrics(&params) != CUPTI_OK)
		return 0;
	*names_out = (const char *const *)params.names;
	return params.count;
}

int profiler_host_evaluate(const struct profiler_host *host, const uint8_t *image,
			   size_t image_bytes, size_t index, const char *const *names, size_t count,
			   double *values)
{
	struct host_evaluate_params params =
		PARAMS(host_evaluate_params, values, .host = host->object, .image = image,
		       .image_bytes = image_bytes, .index = index,
		       .names = (const char **)(uintptr_t)names, .count = count, .values = values);

	return libcupti.cuptiProfilerHostEvaluateToGpuValues(&params);
}

void profiler_host_fini(struct profiler_host *host)
{
	end_object(host);
	free(host->config);
	host->config = NULL;
}
