/* PC sampling (pcs/pc_sampling.h) in callbacks and records, which call it through this table. */
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
	/* The CRC of the cubin of the kernel that this thread captures; 0: not known. */
	uint64_t (*captured_crc)(void);
	/* On CUPTI's thread: sets function and sampled time. `crc`: from a graph's node, or 0. */
	void (*attribute)(const struct cupti_kernel *kernel, uint64_t crc,
			  struct execution *execution);
};

/* Never NULL; read at every launch. */
extern _Atomic(const struct sampling_hooks *) sampling_hooks;

static inline const struct sampling_hooks *sampling_hooks_get(void)
{
	/* relaxed: a launch at the moment of a change may be of either side */
	return atomic_load_explicit(&sampling_hooks, memory_order_relaxed);
}
