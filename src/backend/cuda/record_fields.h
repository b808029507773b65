/*
 * Fields of activity records that CUPTI's second interface is asked for, and reading them by the
 * layout that CUPTI reports with each buffer. No structure of a version of CUPTI is assumed.
 */
#pragma once

#include <stdbool.h>

#include "backend/cuda/cupti_abi.h"

#define RECORD_FIELDS_MAX 20u

/* X(id, member of struct cupti_kernel) */
#define RECORD_KERNEL_FIELDS(X)                                                                    \
	X(CUPTI_FIELD_KIND, kind)                                                                  \
	X(CUPTI_KERNEL_START, start_ns)                                                            \
	X(CUPTI_KERNEL_END, end_ns)                                                                \
	X(CUPTI_KERNEL_NAME, name)                                                                 \
	X(CUPTI_KERNEL_GRAPH_NODE_ID, graph_node_id)                                               \
	X(CUPTI_KERNEL_CORRELATION_ID, correlation_id)                                             \
	X(CUPTI_KERNEL_DEVICE_ID, device_id)                                                       \
	X(CUPTI_KERNEL_CONTEXT_ID, context_id)                                                     \
	X(CUPTI_KERNEL_STREAM_ID, stream_id)                                                       \
	X(CUPTI_KERNEL_GRID_X, grid[0])                                                            \
	X(CUPTI_KERNEL_GRID_Y, grid[1])                                                            \
	X(CUPTI_KERNEL_GRID_Z, grid[2])                                                            \
	X(CUPTI_KERNEL_BLOCK_X, block[0])                                                          \
	X(CUPTI_KERNEL_BLOCK_Y, block[1])                                                          \
	X(CUPTI_KERNEL_BLOCK_Z, block[2])                                                          \
	X(CUPTI_KERNEL_STATIC_SHARED_MEMORY, static_shared_bytes)                                  \
	X(CUPTI_KERNEL_DYNAMIC_SHARED_MEMORY, dynamic_shared_bytes)                                \
	X(CUPTI_KERNEL_REGISTERS_PER_THREAD, registers_per_thread)

/* A record in the form of the first interface; only the selected fields are set. */
struct record_values {
	union {
		struct cupti_activity any;
		struct cupti_kernel kernel;
		struct cupti_memcpy memcpy;
		struct cupti_memcpy_peer memcpy_peer;
		struct cupti_memset memset;
	} as;
	uint64_t source_node_id; /* node from which the graph's node was made; 0: unknown */
};

/* How records of one kind are read: copies from the record to struct record_values. */
struct record_plan {
	uint32_t count;
	bool is_usual; /* kernels with all fields, at least as wide as their members */
	struct {
		uint32_t from;
		uint16_t to;
		uint16_t bytes; /* 1, 2, 4 or 8 */
	} moves[RECORD_FIELDS_MAX];
};

/*
 * The fields to select for `kind`, of at most RECORD_FIELDS_MAX; their number. The first is the
 * kind. 0 for a kind that is not recorded. `version`: of cuptiGetVersion().
 */
size_t record_fields_select(int kind, uint32_t version, int *fields);

/* False if the layout is not valid, or lacks a field without which a record is useless. */
bool record_fields_plan(int kind, const struct cupti_record_layout *layout,
			struct record_plan *plan);

/* Without a decision per field. */
static inline void record_fields_read_usual(const struct record_plan *plan, const char *record,
					    struct record_values *out)
{
	uint32_t i = 0;

#define READ(id, member)                                                                           \
	__builtin_memcpy(&out->as.kernel.member, record + plan->moves[i++].from,                   \
			 sizeof(out->as.kernel.member));
	RECORD_KERNEL_FIELDS(READ)
#undef READ
	__builtin_memcpy(&out->source_node_id, record + plan->moves[i].from, 8);
}

static inline void record_fields_read_each(const struct record_plan *plan, const char *record,
					   struct record_values *out)
{
	for (uint32_t i = 0; i < plan->count; i++) {
		const char *from = record + plan->moves[i].from;
		char *to = (char *)out + plan->moves[i].to;

		switch (plan->moves[i].bytes) {
		case 8:
			__builtin_memcpy(to, from, 8);
			break;
		case 4:
			__builtin_memcpy(to, from, 4);
			break;
		case 2:
			__builtin_memcpy(to, from, 2);
			break;
		default:
			*to = *from;
			break;
		}
	}
}

/* Sets the selected fields of `out`; the others keep their values. */
static inline void record_fields_read(const struct record_plan *plan, const void *record,
				      struct record_values *out)
{
	if (plan->is_usual)
		record_fields_read_usual(plan, record, out);
	else
		record_fields_read_each(plan, record, out);
}
