/*
 * ABI of CUPTI's host profiler, from 12.6 on, which PM sampling and the range profiler use: the
 * part that this backend needs, declared as in cupti_abi.h. Each structure begins with its size
 * (PARAMS_BYTES), by which CUPTI knows the fields it has.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "backend/cuda/pcs_abi.h"

enum host_profiler_type {
	HOST_RANGE_PROFILER = 0,
	HOST_PM_SAMPLING = 1,
};

#define HOST_METRIC_COUNTER 0u /* a base metric that counts, in host_names_params */

struct host_chip_params {
	size_t size;
	void *reserved;
	size_t device;
	const char *chip; /* out */
};

/* cuptiProfilerInitialize() */
struct host_initialize_params {
	size_t size;
	void *reserved;
};

struct host_begin_params {
	size_t size;
	void *reserved;
	uint32_t type;
	const char *chip;
	const uint8_t *availability;
	void *host; /* out */
};

struct host_end_params {
	size_t size;
	void *reserved;
	void *host;
};

/* cuptiProfilerHostGetBaseMetrics() */
struct host_names_params {
	size_t size;
	void *reserved;
	void *host;
	uint32_t type;
	const char **names; /* out */
	size_t count;       /* out */
};

struct host_metrics_params {
	size_t size;
	void *reserved;
	void *host;
	const char **names;
	size_t count;
};

struct host_config_size_params {
	size_t size;
	void *reserved;
	void *host;
	size_t bytes; /* out */
};

struct host_config_params {
	size_t size;
	void *reserved;
	void *host;
	size_t bytes;
	uint8_t *image;
};

struct host_passes_params {
	size_t size;
	void *reserved;
	size_t bytes;
	uint8_t *image;
	size_t passes; /* out */
};

struct host_evaluate_params {
	size_t size;
	void *reserved;
	void *host;
	const uint8_t *image;
	size_t image_bytes;
	size_t index;
	const char **names;
	size_t count;
	double *values; /* out */
};
