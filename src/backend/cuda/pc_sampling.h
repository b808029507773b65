/*
 * PC sampling on NVIDIA GPUs: docs/design/pc-sampling.md. The hardware samples the instruction and
 * stall reason of one warp per SM and period. CUPTI decodes the samples on its own threads, and a
 * thread here reads them and adds them to the sessions.
 *
 * pc_sampling.c has the life of the sampled contexts, pcs_context.c CUPTI's calls for one,
 * pcs_drain.c the thread, pcs_modules.c cubins and the functions of launches.
 */
#ifndef BACKEND_CUDA_PC_SAMPLING_H
#define BACKEND_CUDA_PC_SAMPLING_H

#include <stdatomic.h>
#include <stdbool.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/pcs_mode.h"
#include "record/backend.h"
#include "record/record.h"

/* Read at every launch. */
enum pc_sampling_state {
	PC_SAMPLING_OFF,
	PC_SAMPLING_CLOSING, /* starts or stops: launches only pass the gate (call_gate.h) */
	PC_SAMPLING_ON,      /* between start and stop in the mode "pcsampling" */
};

extern _Atomic enum pc_sampling_state pc_sampling_state;

static inline enum pc_sampling_state pc_sampling_get_state(void)
{
	return atomic_load_explicit(&pc_sampling_state, memory_order_relaxed);
}

static inline bool pc_sampling_runs(void)
{
	return pc_sampling_get_state() == PC_SAMPLING_ON;
}

/*
 * After callbacks and records have started. Samples the calling thread's context and the primary
 * contexts, if any.
 */
int pc_sampling_start(const struct pcs_mode *mode, struct proton_error *err);
/* Ends reading, and reads once more what was decoded: a stop is short then. */
void pc_sampling_read(void);
/*
 * Ends sampling and adds the last samples. `is_held`: the program's threads are (hold.h). Then true
 * if no thread is in a call of the driver: then CUPTI can be left.
 */
bool pc_sampling_stop(bool is_held);
/* Before activity records are enabled: CUPTI refuses that while a context is enabled. */
void pc_sampling_prepare(void);
/* The backend has stopped: there is nothing to describe any more. */
void pc_sampling_clear(void);
/* Adds the samples of all work that has finished. */
void pc_sampling_flush(void);
void pc_sampling_forked(void);
void pc_sampling_describe(backend_add_fn add, void *user);

/* Resource events, on the program's threads. */
void pc_sampling_on_context(void *context, bool is_launch);
void pc_sampling_on_context_destroy(void *context);
void pcs_modules_on_event(uint32_t event, const struct cupti_module_data *module);
/* cuModuleGetFunction() and the calls that load a module have returned. */
void pcs_modules_on_call(uint32_t call, const struct cupti_callback_data *data);
/* A call that asks or sets something of a function; only while these are watched. */
void pcs_modules_on_query(const struct cupti_callback_data *data);
/* A launch begins and ends. */
void pcs_modules_on_launch(uint32_t call, const struct cupti_callback_data *data,
			   struct proton_context where, bool is_named);
void pcs_modules_on_launched(const struct cupti_callback_data *data);
/* The CRC of the cubin of the kernel that this thread is launching or capturing; 0: not known. */
uint64_t pcs_modules_launched_crc(void);

/*
 * On CUPTI's thread: sets the function and the sampled time of an execution. `crc` is that of a
 * graph's node, or 0.
 */
void pcs_modules_attribute(const struct cupti_kernel *kernel, uint64_t crc,
			   struct execution *execution);

#endif
