/*
 * What a backend needs from the recorder: devices, where a launch belongs, and a place for
 * finished kernels.
 */
#ifndef RECORD_RECORD_H
#define RECORD_RECORD_H

#include <libproton/proton.h>

#include "record/store/devices.h"
#include "record/store/execution.h"
#include "record/thread/thread_trace.h"

/*
 * Adds one finished kernel, launched at `where`, in every session that was active there.
 * From any thread.
 */
void record_kernel(struct proton_context where, const struct execution *execution);

enum launch_kind {
	LAUNCH_KERNEL,
	LAUNCH_GRAPH,
	LAUNCH_MEMORY, /* a copy or a set */
};

/*
 * For traces. A call that launches work begins on the calling thread: NULL if no session at `where`
 * is a trace, else the event to hand to the work's records (execution.launch), valid until the
 * thread's next launch. `correlation` is the vendor's number of the launch.
 */
const struct trace_event *record_launch_begin(struct proton_context where, uint32_t correlation,
					      enum launch_kind kind);
/* The call returns. Harmless where there was no event. */
void record_launch_end(void);
/*
 * The event of the kernel that this thread has launched since it was last asked; empty if no trace
 * has seen one.
 */
void record_take_launch(struct trace_event *out);

enum record_loss {
	RECORD_LOST_UNMATCHED, /* a record whose launch is not known */
	RECORD_LOST_DROPPED,   /* the vendor's library says that it dropped records */
	RECORD_LOST_NO_TIME,   /* a start or an end of 0 */
	RECORD_LOST_TIME,      /* it ended before it began */
	RECORD_LOST_MEMORY,    /* a memory operation whose call is not known */
	RECORD_LOST_MISSING,   /* a launch whose record did not come */
	RECORD_LOST_VALUE, /* a metric on a device or in a graph that could not be read or placed */
};

/* Counts records that cannot be attributed, in every live session. From any thread. */
void record_lost(enum record_loss cause, uint64_t count);

/* True from when the sessions are ended because the program is about to end. From any thread. */
bool record_program_ends(void);

/* True while the calling thread is between proton_op_enter() and proton_op_exit(). */
bool record_is_in_op(void);

/*
 * What the calling thread has a device do from here on is a backend's own business, not the
 * program's: whichever backend sees it, it belongs nowhere. The two nest.
 */
void record_own_work_begin(void);
void record_own_work_end(void);
bool record_is_own_work(void);

/* The device that proton_kernel_begin() and _end() record for. */
void record_set_host_device(uint32_t device);

#endif
