/*
 * ABI of CUPTI's PM sampling, from 12.6 on: the part that this backend uses, declared as in
 * host_abi.h.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "backend/cuda/host_abi.h"

#define PM_TRIGGER_TIME 1u     /* a sample each interval of ns */
#define PM_KEEP_OLDEST 0u      /* a full hardware buffer takes no more */
#define PM_STOP_BUFFER_FULL 1u /* the counter data image is full */

struct pm_availability_params {
	size_t size;
	void *reserved;
	size_t device;
	size_t image_bytes; /* in, out */
	uint8_t *image;     /* NULL: asks for the size */
};

struct pm_enable_params {
	size_t size;
	void *reserved;
	size_t device;
	void *sampling; /* out */
};

/* Disable, Start and Stop */
struct pm_params {
	size_t size;
	void *reserved;
	void *sampling;
};

struct pm_set_config_params {
	size_t size;
	void *reserved;
	void *sampling;
	size_t bytes;
	const uint8_t *image;
	size_t hardware_bytes;
	uint64_t interval;
	uint32_t trigger;
	uint32_t append;
};

struct pm_data_size_params {
	size_t size;
	void *reserved;
	void *sampling;
	const char **names;
	size_t count;
	uint32_t samples;
	size_t bytes; /* out */
};

struct pm_data_begin_params {
	size_t size;
	void *reserved;
	void *sampling;
	size_t bytes;
	uint8_t *image;
};

struct pm_decode_params {
	size_t size;
	void *reserved;
	void *sampling;
	uint8_t *image;
	size_t image_bytes;
	uint32_t stop_reason; /* out */
	uint8_t overflow;     /* out: the hardware buffer was full */
};

struct pm_data_info_params {
	size_t size;
	void *reserved;
	const uint8_t *image;
	size_t image_bytes;
	size_t total;
	size_t populated;
	size_t completed; /* out */
};

struct pm_sample_info_params {
	size_t size;
	void *reserved;
	void *sampling;
	const uint8_t *image;
	size_t image_bytes;
	size_t index;
	uint64_t start_ns; /* out, on CUPTI's clock */
	uint64_t end_ns;   /* out */
};
