/*
 * Which backends run. A backend is started for the first session that takes it and stopped after
 * the last. Both may take the vendor's library seconds, call back into us, or wait for locks of its
 * own, so no lock is held meanwhile: whoever wants a backend that is being started or stopped
 * waits for that one backend, and everybody else goes on.
 */
#ifndef RECORD_BACKEND_USE_H
#define RECORD_BACKEND_USE_H

#include "record/backend.h"

/*
 * Starts the backend in `mode` unless it runs already. `wants_memory`: memory copies and sets are
 * recorded from now on, until everybody who wanted them has released it. E_INVALID if it runs in
 * another mode; E_STATE from inside the start or stop of a backend; else what its start says.
 */
int backend_use_take(const struct backend *backend, const char *mode, bool wants_memory,
		     struct proton_error *err);
/* Once per take that succeeded, with the same `wants_memory`; the last stops the backend. */
void backend_use_release(const struct backend *backend, bool wants_memory);
/* Flushes the backend if it runs; it is not stopped meanwhile. */
int backend_use_flush(const struct backend *backend, struct proton_error *err);
/* The driver is being initialised: tells the backend if it runs; see backend.h. */
int backend_use_resume(const struct backend *backend, struct proton_error *err);
/* True on a thread that is inside the start or stop of a backend, which waits for it. */
bool backend_use_is_moving_here(void);

#endif
