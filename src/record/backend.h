/*
 * Backend interface: a backend sends kernel records to the recorder (record/record.h). All backends
 * are reached through one table. A backend is started with the first session that uses it and
 * stopped after the last, and does not run in between.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct device_metric;

/* Adds a text to the profile. */
typedef void (*backend_add_fn)(void *user, const char *key, const char *value);

struct backend {
	const char *name;
	bool records_gpu; /* state in backend/gpu: only one such backend runs at a time */
	/* True if it can work in this process; asked in table order if no backend was named. */
	bool (*is_usable)(void);
	/* PROTON_OK if `mode` ("" = default) is one of its modes; else E_INVALID with a message. */
	int (*check_mode)(const char *mode, struct proton_error *err);
	/* As early as possible: registers with a library that needs it before any GPU use. */
	void (*prepare)(void);
	/* Starts it for the first session. If it fails, nothing is left running. */
	int (*start)(const char *mode, struct proton_error *err);
	/*
	 * The driver is being initialized: begin the work that start() postponed
	 * (record/backend.h). Called at any time between start and stop. NULL: it
	 * never postpones.
	 */
	int (*resume)(struct proton_error *err);
	/*
	 * The driver is being initialized, and no session begins: makes later starts safe for the
	 * program's threads, at no cost for it. Called while stopped. NULL: nothing to do.
	 */
	void (*prime)(void);
	/* Waits until all work launched before the call has been recorded. */
	int (*flush)(struct proton_error *err);
	/*
	 * Reads a metric from device memory, in stream order and without waiting, and passes it to
	 * record/thread/captured.h once per execution. The backend releases the memory, unless
	 * this fails. NULL: the backend has no device memory.
	 */
	int (*read_metric)(const struct device_metric *metric, struct proton_error *err);
	/* Begins or ends recording copies and memsets. NULL: none. A failure changes nothing. */
	int (*set_memory)(bool is_wanted, struct proton_error *err);
	/* Adds texts about machine and overhead, at start and end. NULL: nothing. */
	void (*describe)(backend_add_fn add, void *user);
	/* Hint for a session without kernels. NULL, or it returns NULL: none ran. */
	const char *(*no_kernels)(void);
	/* Why launched kernels may have no records at all, and the remedy. NULL: unknown. */
	const char *no_records;
	/*
	 * Ends recording while no session is active: costs the program as little as it can from
	 * then on. Delivers all that was recorded. After a flush; never at the same time as one.
	 * `is_end`: the last session ends; else false if it continues, because resting would do
	 * more harm. NULL: a backend without active sessions costs nothing.
	 */
	bool (*rest)(bool is_end);
	/* Records again after rest(); nothing if it has not rested. */
	int (*wake)(struct proton_error *err);
	/* While stopped: proton_leave_vendor(). NULL: nothing stays. */
	bool (*leave)(void);
	/* Stops it after the last session. */
	void (*stop)(void);
	/*
	 * Called in the child of a fork, in any state: the backend is stopped there, and may call
	 * nothing that has its own threads. Only async-signal-safe work. NULL: nothing to do.
	 */
	void (*forked)(void);
};

/* The backends in order of preference; NULL after the last. */
const struct backend *backend_at(size_t index);
/* A backend by name, else $PROTON_BACKEND, else the first usable one. NULL with a message. */
const struct backend *backend_select(const char *name, struct proton_error *err);

/* check_mode() for backends without their own modes. */
int backend_refuse_mode(const char *backend, const char *mode, struct proton_error *err);

/* True if Triton interprets kernels on the CPU (TRITON_INTERPRET): GPU backends are not usable. */
bool backend_is_interpreting(void);

/*
 * Backend life cycle: a backend is started for the first session that uses it and stopped after the
 * last. Both may take the vendor library seconds, call back into Proton, or wait for the vendor
 * library's own locks. So no lock is held during a start or stop: only threads that need that
 * backend wait for it.
 */

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

extern const struct backend cuda_backend;
extern const struct backend host_backend;
extern const struct backend instrument_backend;
extern const struct backend rocprofiler_backend;
extern const struct backend roctracer_backend;
