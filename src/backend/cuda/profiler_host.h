/*
 * CUPTI's host profiler: which metrics a chip counts in a single pass, and values from an image of
 * counters. It needs libnvperf_host.so beside libcupti, and no GPU.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/cuda/host_abi.h"
#include "base/err.h"

/* Zeroed, with the type and the chip's name, before the first call. */
struct profiler_host {
	enum host_profiler_type type;
	const char *chip;      /* CUPTI's, or the caller's */
	uint8_t *availability; /* the image for this GPU, owned; NULL: without a GPU */
	void *object;          /* NULL: none */
	uint8_t *config;
	size_t config_bytes;
};

/* A structure of CUPTI's parameters, with its size. */
#define PARAMS(type, last, ...)                                                                    \
	{                                                                                          \
		.size = PARAMS_BYTES(struct type, last), ##__VA_ARGS__                             \
	}

/* Opens the library, and sets `chip`. */
int profiler_host_open(struct profiler_host *host, uint32_t device, struct proton_error *err);
/*
 * Makes the configuration of these metrics. False if CUPTI refuses one of them, or if they do not
 * fit into a single pass. All names are in one call: separate calls would get a pass each.
 */
bool profiler_host_configure(struct profiler_host *host, const char *const *names, size_t count);
/*
 * The names of all base metrics that count, without an extension such as ".sum". Valid until the
 * next call for `host`. 0: it has none.
 */
size_t profiler_host_names(struct profiler_host *host, const char *const **names_out);
/* The values of the configured metrics. CUPTI's result. */
int profiler_host_evaluate(const struct profiler_host *host, const uint8_t *image,
			   size_t image_bytes, size_t index, const char *const *names, size_t count,
			   double *values);
/* Frees all but the availability. */
void profiler_host_fini(struct profiler_host *host);
