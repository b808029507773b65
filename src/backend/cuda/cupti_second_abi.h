/*
 * ABI of CUPTI's second interface (functions with the suffix _v2): the part that this backend uses,
 * declared without an SDK. It is complete from CUPTI 13.3 on. tests/python/test_cupti_abi.py
 * compares it with the real headers.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * cuptiGetVersion() of the first version that reports record layouts and allows several
 * subscribers; of its update 1, from which on several may request records without a crash; and of
 * the first one with the ids of source graph nodes.
 */
#define CUPTI_VERSION_SECOND 130300u
#define CUPTI_VERSION_SEVERAL 130301u
#define CUPTI_VERSION_SOURCE_NODES 130400u

/* The size of this structure before 13.2 is the offset of `allows_several`. */
struct cupti_subscriber_params {
	size_t size;
	const char *name;
	char *other_name; /* name of the existing subscriber, if it is another tool */
	size_t other_name_bytes;
	uint8_t allows_several;
	uint8_t padding[7];
};

#define CUPTI_SUBSCRIBER_NAME_BYTES 64

enum cupti_second_attribute {
	CUPTI_ATTRIBUTE_USER_DEFINED_RECORDS = 11,
	CUPTI_ATTRIBUTE_HARDWARE_TIMES = 13,
	CUPTI_ATTRIBUTE_TIMESTAMP_CALLBACK = 22,
};

/* Ids of fields that can be selected. The first one of a selection is the kind. */
#define CUPTI_FIELD_KIND 0

enum cupti_kernel_field {
	CUPTI_KERNEL_REGISTERS_PER_THREAD = 4,
	CUPTI_KERNEL_START = 7,
	CUPTI_KERNEL_END = 8,
	CUPTI_KERNEL_DEVICE_ID = 10,
	CUPTI_KERNEL_CONTEXT_ID = 11,
	CUPTI_KERNEL_STREAM_ID = 12,
	CUPTI_KERNEL_GRID_X = 13,
	CUPTI_KERNEL_GRID_Y = 14,
	CUPTI_KERNEL_GRID_Z = 15,
	CUPTI_KERNEL_BLOCK_X = 16,
	CUPTI_KERNEL_BLOCK_Y = 17,
	CUPTI_KERNEL_BLOCK_Z = 18,
	CUPTI_KERNEL_STATIC_SHARED_MEMORY = 19,
	CUPTI_KERNEL_DYNAMIC_SHARED_MEMORY = 20,
	CUPTI_KERNEL_CORRELATION_ID = 22,
	CUPTI_KERNEL_NAME = 24,
	CUPTI_KERNEL_GRAPH_NODE_ID = 31,
	CUPTI_KERNEL_SOURCE_GRAPH_NODE_ID = 48, /* 13.4 */
};

enum cupti_memcpy_field {
	CUPTI_MEMCPY_COPY_KIND = 1,
	CUPTI_MEMCPY_SOURCE_KIND = 2,
	CUPTI_MEMCPY_DESTINATION_KIND = 3,
	CUPTI_MEMCPY_BYTES = 5,
	CUPTI_MEMCPY_START = 6,
	CUPTI_MEMCPY_END = 7,
	CUPTI_MEMCPY_DEVICE_ID = 8,
	CUPTI_MEMCPY_STREAM_ID = 10,
	CUPTI_MEMCPY_CORRELATION_ID = 11,
	CUPTI_MEMCPY_GRAPH_NODE_ID = 12,
};

/* The fields up to the stream have the same ids as in cupti_memcpy_field. */
enum cupti_memcpy_peer_field {
	CUPTI_MEMCPY_PEER_CORRELATION_ID = 15,
	CUPTI_MEMCPY_PEER_GRAPH_NODE_ID = 16,
};

enum cupti_memset_field {
	CUPTI_MEMSET_BYTES = 2,
	CUPTI_MEMSET_START = 3,
	CUPTI_MEMSET_END = 4,
	CUPTI_MEMSET_DEVICE_ID = 5,
	CUPTI_MEMSET_STREAM_ID = 7,
	CUPTI_MEMSET_CORRELATION_ID = 8,
	CUPTI_MEMSET_MEMORY_KIND = 10,
	CUPTI_MEMSET_GRAPH_NODE_ID = 11,
};

struct cupti_field_selection {
	size_t size;
	size_t count;
	int *fields;
};

/* 13.4 appended options of API records, which Proton does not request. */
struct cupti_activity_config {
	size_t size;
	struct cupti_field_selection selection;
};

/* Each of the following has its own size, and may be larger in later versions. */
struct cupti_field_layout {
	size_t size;
	int field;
	size_t offset;
	size_t bytes;
	size_t alignment;
};

struct cupti_record_layout {
	size_t size;
	struct cupti_field_layout *fields;
	size_t count;
	size_t record_bytes;
};

struct cupti_complete_info {
	size_t size;
	uint64_t thread_id;
	struct cupti_record_layout **layouts; /* by kind; NULL for one that is not enabled */
	size_t layout_count;
};

typedef void (*cupti_buffer_requested_2_fn)(uint8_t **buffer, size_t *bytes, size_t *max_records,
					    const void *info);
typedef void (*cupti_buffer_completed_2_fn)(uint8_t *buffer, size_t bytes, size_t valid_bytes,
					    const struct cupti_complete_info *info);
