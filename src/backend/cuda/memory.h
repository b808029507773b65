/* Memory copies and memsets, recorded while a session requests them. */
#pragma once

#include "backend/cuda/cupti_api.h"
#include "record/store/execution.h"

/* A memory copy or memset in a CUPTI record. */
struct memory_operation {
	struct execution execution;
	uint64_t graph_node_id; /* 0 outside graphs */
};

/* Begins or ends records, and begins the callbacks of `subscriber`. On failure records are off. */
int memory_set(void *subscriber, bool is_wanted, struct proton_error *err);

bool memory_is_wanted(void);

/* False if `record` is not a memory operation. On CUPTI's thread. */
bool memory_read(const struct cupti_activity *record, struct memory_operation *out);

/* True for the number of a driver call that copies or sets memory. */
bool memory_is_call(uint32_t call);
/* True if one call makes many records. */
bool memory_is_batch(uint32_t call);
