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
	CUDA_RESTING,   /* started, but all sessions are deactivated: nothing is recorded */
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

/*
 * Waits for all work in the context, which is current during the wait. False if the driver refuses.
 */
bool cuda_synchronize(void *context);

/* API callbacks: on the application's threads. `may_choose`: see interface_subscribe(). */
int callbacks_start(bool may_choose, struct proton_error *err);
/* Releases the subscription. False if CUPTI does not. */
bool callbacks_release(void);
/* cuptiFinalize() has ended the subscription. */
void callbacks_forget(void);
/* After one of them. */
void callbacks_stop(void);
/* Begins or ends memory operations: their callbacks and records. */
int callbacks_set_memory(bool is_wanted, struct proton_error *err);
/* Begins or ends the events and calls of modules, for PC sampling. */
int callbacks_set_modules(bool is_wanted, struct proton_error *err);
/* Begins or ends the calls of PC sampling that come often: call_gate.h. */
void callbacks_watch_queries(bool is_wanted);
/* Enables or disables the event that gives a loaded module's cubin at its next launch. */
void callbacks_ask_modules(bool is_wanted);
/* Prints a warning, once, if another tool has taken the subscription away. */
void callbacks_check(void);
/* True if callbacks_check() found that. */
bool callbacks_were_ended(void);

/*
 * Activity records: on CUPTI's thread. On failure nothing stays enabled. `is_again`: records were
 * enabled before since CUPTI was attached.
 */
int activity_start(bool is_again, struct proton_error *err);
void activity_stop(void);
/*
 * Flushes and waits for records; see await_records_flush(). E_IO if CUPTI refuses to flush.
 */
int activity_flush(uint64_t launched, uint32_t last_shared, bool in_doubt,
		   struct proton_error *err);

#endif
