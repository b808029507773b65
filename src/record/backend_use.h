/*
 * Backend life cycle: a backend is started for the first session that uses it and stopped after the
 * last. Both may take the vendor library seconds, call back into Proton, or wait for the vendor
 * library's own locks. So no lock is held during a start or stop: only threads that need that
 * backend wait for it.
 */
#ifndef RECORD_BACKEND_USE_H
#define RECORD_BACKEND_USE_H

#include <pthread.h>
#include <stdbool.h>

#include "base/err.h"
#include "record/backend.h"

extern pthread_mutex_t backend_use_lock; /* for fork() */

/*
 * Starts the backend in `mode` unless it already runs. `wants_memory`: memory copies and memsets
 * are recorded from now on, until all takers that wanted them have released the backend. E_INVALID
 * if it runs in another mode; E_STATE from inside the start or stop of a backend; otherwise the
 * error of its start.
 */
int backend_use_take(const struct backend *backend, const char *mode, bool wants_memory,
		     struct proton_error *err);
/* Once per successful take, with the same `wants_memory`; the last one stops the backend. */
void backend_use_release(const struct backend *backend, bool wants_memory);
/* Flushes the backend if it runs; it is not stopped during the flush. */
int backend_use_flush(const struct backend *backend, struct proton_error *err);
/*
 * The backend rests until backend_use_wake() or the next take, if `is_idle` says that no session is
 * active. A session that becomes active is published before it calls
 * backend_use_wake(): one of the two sees the other. Does nothing if a thread is using the backend;
 * never waits for one.
 */
void backend_use_rest(const struct backend *backend, bool (*is_idle)(void));
/* Stops it if its only user is a session that ends next; waits for threads that flush. */
void backend_use_end(const struct backend *backend);
/* Runs `change` while no thread starts, stops or flushes the backend; never waits: false then. */
bool backend_use_change(const struct backend *backend, void (*change)(void));
/* A session becomes active. The backend's error. */
int backend_use_wake(const struct backend *backend, struct proton_error *err);
/* True on a thread that is inside the start or stop of a backend. */
bool backend_use_is_moving_here(void);
/* In the child of a fork: no backend runs. */
void backend_use_fork_child(void);

/* True if the driver will report its initialization, and has not yet in this process. */
bool backend_use_awaits_driver(void);
/* The error of a backend that failed to resume; PROTON_OK if none did. */
int backend_use_driver_failure(struct proton_error *err);

#endif
