/* Recorder interface for backends: launches of the calling thread, and finished kernels. */
#pragma once

#include <libproton/proton.h>

#include "base/err.h"
#include "record/store/execution.h"
#include "record/thread/thread_trace.h"

/* Adds a finished kernel to each session that was active at `where`. From any thread. */
void record_kernel(struct proton_context where, const struct execution *execution);
/*
 * Calls `observe` with the context of each execution that has a .dispatch, its frame included, and
 * for graph nodes too. NULL: no more calls. On the threads that call record_kernel().
 */
void record_observe_dispatches(void (*observe)(uint64_t dispatch, struct proton_context where));
bool record_dispatches_are_observed(void);
/* Calls `observe`, if there is one. */
void record_dispatch(uint64_t dispatch, struct proton_context where);

enum launch_kind {
	LAUNCH_KERNEL,
	LAUNCH_GRAPH,
	LAUNCH_MEMORY, /* a memory copy or memset */
};

/*
 * For traces: a call that launches work begins on the calling thread. NULL if no session at `where`
 * is a trace; otherwise the event for the records of the work (execution.launch), valid until the
 * thread's next launch. `correlation` is the correlation ID of the launch.
 */
const struct trace_event *record_launch_begin(struct proton_context where, uint32_t correlation,
					      enum launch_kind kind);
/* The call returns. Harmless if there is no event. */
void record_launch_end(void);
/* The event of the kernel launched since the previous call; empty: no trace has one. */
void record_take_launch(struct trace_event *out);

/* True while the calling thread is between proton_op_enter() and proton_op_exit(). */
bool record_is_in_op(void);
/* False: record_observe_launch() has nothing to do. */
extern _Atomic(proton_launch_observer_fn) record_launch_observer;
static inline bool record_is_observed(void)
{
	return atomic_load_explicit(&record_launch_observer, memory_order_relaxed) != NULL;
}
/* Tells the observer of a launch, if there is one. `name` is that of the kernel. */
void record_observe_launch(struct proton_context where, const char *name);

/* The calling thread's launches are the backend's own from here on. Calls nest. */
void record_own_work_begin(void);
void record_own_work_end(void);
bool record_is_own_work(void);

/* Calls of proton_note_step() so far. */
uint64_t record_steps(void);

/* The device for records of proton_kernel_begin() and _end(). */
void record_set_host_device(uint32_t device);

/*
 * Correlation table: the attribution of a launch, stored under its correlation ID until the
 * launch's record arrives. The cost for the launching thread is one store.
 *
 * The slot is the correlation ID modulo the table's size. If a record has not arrived when its slot
 * is needed again, the entry moves to an overflow buffer, under a lock. That is rare, and nothing
 * is lost.
 */

struct correlation {
	struct proton_context where;
	bool is_named;  /* `where` already ends with the kernel: a launch hook named it */
	bool is_shared; /* several records have this ID (a graph): it stays */
	/* The launch's event in traces, or NULL; valid until the thread's next call. */
	const struct trace_event *launch;
};

/* Makes the table; idempotent. */
int correlate_init(struct proton_error *err);
/* On the launching thread. `number` is the correlation ID, which increases from call to call. */
void correlate_put(uint32_t number, const struct correlation *correlation);
/* On the vendor library's thread. False if `number` is unknown. Removes it unless shared. */
bool correlate_take(uint32_t number, struct correlation *out);
/* After the last session: removes all entries. */
void correlate_clear(void);
