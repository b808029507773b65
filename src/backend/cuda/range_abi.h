/*
 * ABI of CUPTI's range profiler, from 12.6 on: the part that this backend uses, declared as in
 * host_abi.h.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "backend/cuda/host_abi.h"

#define RANGE_OF_USER 2u     /* ranges are pushed and popped */
#define RANGE_USER_REPLAY 3u /* nothing is replayed: each range runs once */

struct range_availability_params {
	size_t size;
	void *reserved;
	void *context;
	size_t image_bytes; /* in, out */
	uint8_t *image;     /* NULL: asks for the size */
};

struct range_enable_params {
	size_t size;
	void *reserved;
	void *context;
	void *profiler; /* out */
};

/* Disable, Start and PopRange */
struct range_params {
	size_t size;
	void *reserved;
	void *profiler;
};

struct range_stop_params {
	size_t size;
	void *reserved;
	void *profiler;
	size_t pass;
	size_t level;
	uint8_t is_all; /* out */
};

struct range_push_params {
	size_t size;
	void *reserved;
	void *profiler;
	const char *name;
};

struct range_config_params {
	size_t size;
	void *reserved;
	void *profiler;
	size_t config_bytes;
	const uint8_t *config;
	size_t image_bytes;
	uint8_t *image;
	uint32_t range;  /* RANGE_OF_USER */
	uint32_t replay; /* RANGE_USER_REPLAY */
	size_t ranges;   /* at most, in a pass */
	uint16_t levels;
	uint16_t first_level;
	size_t pass;
	uint16_t level;
};

struct range_decode_params {
	size_t size;
	void *reserved;
	void *profiler;
	size_t dropped; /* out */
};

struct range_data_size_params {
	size_t size;
	void *reserved;
	void *profiler;
	const char **names;
	size_t count;
	size_t ranges;
	uint32_t nodes; /* in the tree of ranges */
	size_t bytes;   /* out */
};

struct range_data_begin_params {
	size_t size;
	void *reserved;
	void *profiler;
	size_t bytes;
	uint8_t *image;
};

struct range_data_info_params {
	size_t size;
	void *reserved;
	const uint8_t *image;
	size_t image_bytes;
	size_t count; /* out */
};

struct range_info_params {
	size_t size;
	void *reserved;
	const uint8_t *image;
	size_t image_bytes;
	size_t index;
	const char *delimiter;
	const char *name; /* out */
};
