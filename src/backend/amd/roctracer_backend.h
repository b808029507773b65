/* Internal interface of the roctracer backend. */
#ifndef BACKEND_AMD_ROCTRACER_BACKEND_H
#define BACKEND_AMD_ROCTRACER_BACKEND_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"

/* Life cycle. Changed under the lock of roctracer_backend.c, and by a fork. */
enum roctracer_state {
	ROCTRACER_OFF,     /* not started */
	ROCTRACER_WAITING, /* started; the process has not loaded HIP yet */
	ROCTRACER_FAILED,  /* roctracer could not be started when HIP was loaded */
	ROCTRACER_ON,
	/*
	 * The child of a process that recorded: roctracer's thread, which empties its buffers, is
	 * missing. The first callback there disables everything; a new session starts with a new
	 * pool.
	 */
	ROCTRACER_ORPHANED,
};

extern _Atomic enum roctracer_state roctracer_state;

/* Callbacks, on the application's threads. On failure nothing stays enabled. */
int roctracer_launches_start(struct proton_error *err);
void roctracer_launches_stop(void);
int roctracer_launches_set_memory(bool is_wanted, struct proton_error *err);

/* Records, on roctracer's thread. On failure nothing stays enabled. */
int roctracer_records_start(struct proton_error *err);
void roctracer_records_stop(void);
int roctracer_records_set_memory(bool is_wanted, struct proton_error *err);
/* Flushes roctracer's pool. 0, or its error. */
int roctracer_records_flush(void);
/* In the child of a fork: the pool is not usable there. */
void roctracer_records_forget(void);

#endif
