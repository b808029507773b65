/*
 * The one table through which a backend is reached. A backend fills the recorder with kernel
 * records (record/record.h); it is started with the first session that wants it and stopped
 * after the last, so that nothing of it runs in between.
 */
#ifndef RECORD_BACKEND_H
#define RECORD_BACKEND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct device_metric;

struct backend {
	const char *name;
	/* True if it could work in this process now; asked in order when the user named none. */
	bool (*is_usable)(void);
	/* PROTON_OK if `mode` ("" = default) is one of its modes; E_INVALID with a sentence. */
	int (*check_mode)(const char *mode, struct proton_error *err);
	/* First session. On failure nothing is left running. */
	int (*start)(const char *mode, struct proton_error *err);
	/*
	 * The driver is being initialised: begins what start() has postponed
	 * (record/session/await_driver.h). Between a start and its stop, at any time. NULL: it
	 * never postpones.
	 */
	int (*resume)(struct proton_error *err);
	/* Waits until everything launched before the call has been recorded. */
	int (*flush)(struct proton_error *err);
	/*
	 * Reads a metric in device memory, in stream order and without waiting, and hands it to
	 * record/thread/device_metric.h once for each execution. The backend releases it, unless
	 * this fails. NULL: there is no such memory.
	 */
	int (*read_metric)(const struct device_metric *metric, struct proton_error *err);
	/*
	 * Begins or ends recording memory copies and sets, while it runs. NULL: it knows none. On
	 * failure nothing has changed.
	 */
	int (*set_memory)(bool is_wanted, struct proton_error *err);
	/*
	 * Tells what a profile should say about the machine and the cost of recording, as texts.
	 * Called when a session has started and again when it ends. NULL: nothing.
	 */
	void (*describe)(void (*add)(void *user, const char *key, const char *value), void *user);
	/* What a session that saw no kernel of this backend lacks. NULL: nothing, none ran. */
	const char *no_kernels;
	/* After the last session. */
	void (*stop)(void);
	/*
	 * In the child of a fork, whatever the state was: it is stopped there, and may call nothing
	 * that has threads of its own. Only what a signal handler may do. NULL: nothing.
	 */
	void (*forked)(void);
};

/* NULL past the last; the order is that of preference. */
const struct backend *backend_at(size_t index);
/*
 * By name without regard to case; no name: $PROTON_BACKEND, else the first that is usable. NULL
 * with an error text when there is none.
 */
const struct backend *backend_select(const char *name, struct proton_error *err);

/* For check_mode() of a backend that has no modes of its own. */
int backend_refuse_mode(const char *backend, const char *mode, struct proton_error *err);

extern const struct backend cuda_backend;
extern const struct backend host_backend;
extern const struct backend instrument_backend;

#endif
