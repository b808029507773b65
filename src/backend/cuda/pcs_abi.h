/*
 * ABI of CUPTI's PC sampling, 12.4 to 13.x: the part that this backend uses, declared as in
 * cupti_abi.h. Each structure begins with its size, by which CUPTI knows the fields it has.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define PCS_REASON_NAME_BYTES 128u

/* The size of a structure up to and with its field `last`. */
#define PARAMS_BYTES(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

enum pcs_attribute_type {
	PCS_ATTRIBUTE_PERIOD = 1, /* log2 of the cycles between two samples of an SM, 5 to 31 */
	PCS_ATTRIBUTE_SCRATCH_BYTES = 3,
	PCS_ATTRIBUTE_COLLECTION_MODE = 5,
	PCS_ATTRIBUTE_START_STOP = 6,
	PCS_ATTRIBUTE_BUFFER = 8,
	PCS_ATTRIBUTE_WORKER_SLEEP_MS = 9,
};

enum pcs_collection_mode {
	PCS_CONTINUOUS = 1,
	PCS_SERIALIZED = 2,
};

struct pcs_attribute {
	uint32_t type;  /* enum pcs_attribute_type */
	int32_t status; /* result for this attribute */
	union {
		uint32_t number;
		size_t bytes;
		void *pointer;
		uint64_t words[3];
	} value;
};

struct pcs_attributes_params {
	size_t size;
	void *reserved;
	void *context;
	size_t count;
	struct pcs_attribute *attributes;
};

/* Parameters of Enable, Disable, Start and Stop. */
struct pcs_params {
	size_t size;
	void *reserved;
	void *context;
};

struct pcs_data_params {
	size_t size;
	void *reserved;
	void *context;
	void *data; /* struct pcs_data */
};

struct pcs_reason_count_params {
	size_t size;
	void *reserved;
	void *context;
	size_t *count;
};

struct pcs_reason_names_params {
	size_t size;
	void *reserved;
	void *context;
	size_t count;
	uint32_t *indexes;
	char **names; /* PCS_REASON_NAME_BYTES each */
};

struct pcs_reason {
	uint32_t index;
	uint32_t samples;
};

struct pcs_pc {
	size_t size;
	uint64_t crc; /* the cubin's */
	uint64_t offset;
	uint32_t function_index;
	uint32_t padding;
	char *function; /* shared with other records: never freed */
	size_t reason_count;
	struct pcs_reason *reasons;
	uint32_t correlation_id; /* in serialized mode; else 0 */
};

struct pcs_data {
	size_t size;
	size_t capacity; /* of `pcs` */
	uint64_t samples;
	uint64_t dropped;
	size_t count;
	size_t remaining;
	uint64_t range;
	struct pcs_pc *pcs;
	uint64_t non_user; /* samples of code that CUPTI adds to kernels */
	uint8_t is_full;   /* the hardware buffer */
};

struct cubin_crc_params {
	size_t size;
	size_t cubin_bytes;
	const void *cubin;
	uint64_t crc;
};

/* `resource_descriptor` of module events. */
struct cupti_module_data {
	uint32_t id;
	size_t cubin_bytes;
	const char *cubin;
};
