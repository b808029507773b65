/*
 * PC sampling (pcs/pc_sampling.h) and counters (counters.h) in callbacks and records, which call
 * them through this table. One of them is on at a time.
 */
#pragma once

#include "backend/cuda/cupti_api.h"
#include "record/record.h"

/* All but the last are called on the program's threads. NULL: nothing to do. */
struct sampling_hooks {
	bool has_gate; /* calls that take the same locks as launches pass the gate (call_gate.h) */
	/* A launch begins and ends; not a copy or memset. */
	void (*begin_launch)(uint32_t call, const struct cupti_callback_data *data,
			     struct proton_context where, bool is_kernel);
	void (*end_launch)(const struct cupti_callback_data *data);
	/* cuModuleGetFunction() and the calls that load a module begin and end. */
	void (*on_module_call)(uint32_t call, const struct cupti_callback_data *data);
	/* A call that asks or sets something of a function. */
	void (*on_query)(const struct cupti_callback_data *data);
	void (*on_context)(void *context);
	void (*on_context_destroy)(void *context);
	void (*on_module_event)(uint32_t event, const struct cupti_module_data *module);
	/* On CUPTI's thread: the record of a launch that has no true time, which is not added. */
	bool (*drops)(const struct cupti_kernel *kernel);
	/* A number to keep with the kernel that this thread captures: its cubin's CRC, or 0. */
	uint64_t (*captured_crc)(void);
	/* On CUPTI's thread: sets function and sampled time. `crc`: from a graph's node, or 0. */
	void (*attribute)(const struct cupti_kernel *kernel, uint64_t crc,
			  struct execution *execution);
};

/* Never NULL; read at every launch. */
extern _Atomic(const struct sampling_hooks *) sampling_hooks;

/* NULL: none. */
void sampling_hooks_set(const struct sampling_hooks *hooks);

static inline const struct sampling_hooks *sampling_hooks_get(void)
{
	/* relaxed: a launch at the moment of a change may be of either side */
	return atomic_load_explicit(&sampling_hooks, memory_order_relaxed);
}
