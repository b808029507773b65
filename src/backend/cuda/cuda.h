/* Internal interface of the CUDA backend. */
#ifndef BACKEND_CUDA_CUDA_H
#define BACKEND_CUDA_CUDA_H

#include <stdatomic.h>

#include "backend/cuda/cupti_api.h"

/*
 * Life cycle of the backend. Changed by one caller of backend_use.c at a time, and by a fork; a
 * flush and CUPTI's callbacks may read it at any time.
 */
enum cuda_state {
	CUDA_OFF,       /* not started */
	CUDA_POSTPONED, /* started; CUPTI is not touched before the driver is initialized */
	CUDA_FAILED,    /* CUPTI could not be started when the driver was initialized */
	CUDA_ON,        /* CUPTI is subscribed and records */
	/*
	 * The child of a process that had touched CUPTI; it cannot be started there. CUPTI still
	 * calls back: its callbacks take no lock, which a thread of the parent may have held, and
	 * call nothing of CUPTI.
	 */
	CUDA_ORPHANED,
};

extern _Atomic enum cuda_state cuda_state;

static inline bool cuda_is_orphaned(void)
{
	/* relaxed: set by the only thread of the child, in the fork */
	return atomic_load_explicit(&cuda_state, memory_order_relaxed) == CUDA_ORPHANED;
}

/* API callbacks: on the application's threads. */
int callbacks_start(struct proton_error *err);
void callbacks_stop(void);
/* Number of kernel launches seen by callbacks while some session was active. */
uint64_t callbacks_launched(void);
/* The last call with an unknown number of records (a graph launch, a memory copy); 0: none. */
uint32_t callbacks_last_shared(void);
/* Begins or ends memory operations: their callbacks and records. */
int callbacks_set_memory(bool is_wanted, struct proton_error *err);
/* Begins or ends the events and calls of modules, for PC sampling. */
int callbacks_set_modules(bool is_wanted, struct proton_error *err);
/* Enables or disables the event that gives a loaded module's cubin at its next launch. */
void callbacks_ask_modules(bool is_wanted);
/* True if this launch was made before the subscription: it belongs to no session. */
bool callbacks_is_older(uint32_t correlation_id);
/* Prints a warning, once, if another tool has taken the subscription away. */
void callbacks_check(void);
/* True if callbacks_check() found that. */
bool callbacks_were_ended(void);

/* Activity records: on CUPTI's thread. On failure nothing stays enabled. */
int activity_start(struct proton_error *err);
void activity_stop(void);
/*
 * True if records were missing since the start: another tool may have taken over CUPTI's buffers.
 */
bool activity_missed_records(void);
/*
 * Flushes CUPTI's complete records and waits until `launched` launches have their records, or until
 * none has arrived for some time: a long time, or a short one if some records may never arrive
 * (`in_doubt`). Missing records are counted. E_IO if CUPTI refuses to flush.
 */
int activity_flush(uint64_t launched, uint32_t last_shared, bool in_doubt,
		   struct proton_error *err);
/* Flushes CUPTI's complete records; false if another flush is in progress, which does the same. */
bool activity_ask(void);

/* CPU time in ns that records have cost on CUPTI's thread since the start. */
uint64_t activity_cost_ns(void);
/* Estimated time in ns that callbacks have cost the application's threads since the start. */
uint64_t callbacks_cost_ns(void);

#endif
