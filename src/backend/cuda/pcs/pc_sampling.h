/*
 * PC sampling on NVIDIA GPUs: docs/design/pc-sampling.md. The hardware samples the instruction and
 * stall reason of one warp per SM and period. CUPTI decodes the samples on its own threads, and a
 * thread here reads them and adds them to the sessions.
 *
 * pc_sampling.c has the life of the sampled contexts, pcs_context.c CUPTI's calls for one,
 * pcs_drain.c the thread, pcs_take.c what is read, pcs_modules.c cubins and the functions of
 * launches. CUPTI's callbacks come through sampling_hooks.h.
 */
#pragma once

#include "backend/cuda/cuda_mode.h"
#include "record/backend.h"

/* After callbacks and records: samples the calling thread's context and primary contexts. */
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
/* After a stop: true if a context is enabled still; calls have to be reported until it is not. */
bool pc_sampling_has_context(void);
/* CUPTI was left. */
void pc_sampling_leave(void);
/* The backend has stopped: there is nothing to describe any more. */
void pc_sampling_clear(void);
/* Adds the samples of all work that has finished. */
void pc_sampling_flush(void);
void pc_sampling_forked(void);
void pc_sampling_describe(backend_add_fn add, void *user);
