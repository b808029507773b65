/* Recorder interface for backends: launches of the calling thread, and finished kernels. */
#ifndef RECORD_THREAD_RECORD_LAUNCH_H
#define RECORD_THREAD_RECORD_LAUNCH_H

#include <libproton/proton.h>

#include "record/store/execution.h"

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

/* The calling thread's launches are the backend's own from here on. Calls nest. */
void record_own_work_begin(void);
void record_own_work_end(void);
bool record_is_own_work(void);

/* Calls of proton_note_step() so far. */
uint64_t record_steps(void);

/* The device for records of proton_kernel_begin() and _end(). */
void record_set_host_device(uint32_t device);

#endif
