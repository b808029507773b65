/* Execution record: one kernel, memory copy or memset on a device, from a backend to the stores. */
#pragma once

#include <libproton/proton.h>

#include "format/rows.h" /* struct launch_config */

/* Counters of a session: recorded and lost data. */
enum counter {
#define COUNTER(id, name) COUNTER_##id,
#define LOSS(id, name) COUNTER_LOST_##id,
#include "record/store/counters.def"
#undef COUNTER
#undef LOSS
	COUNTER_COUNT
};

/* Trace event of a thread: the row of an event in each trace that was active at its begin. */

#define TRACE_MAX 4u /* maximum number of live traces */

struct trace_event {
	uint32_t count;
	struct {
		uint32_t serial; /* serial of the session */
		uint32_t row;
	} at[TRACE_MAX];
};

/* The event's row in the session of that serial; 0 if it has none. */
static inline uint32_t trace_event_row(const struct trace_event *event, uint32_t serial)
{
	for (uint32_t i = 0; event && i < event->count; i++)
		if (event->at[i].serial == serial)
			return event->at[i].row;
	return 0;
}

struct execution {
	uint32_t
		frame; /* its name, by frames_add(FRAME_KERNEL, ...); 0: the context ends with it */
	uint32_t device;      /* id of record/store/devices.h */
	bool is_memory;       /* a memory copy or memset, for sessions that record these */
	bool is_set;          /* a memset */
	uint32_t stream;      /* the driver's number of the stream, unique within its context */
	uint32_t correlation; /* the launch's correlation ID; 0 if there is none */
	uint64_t start_ns;    /* in clock_monotonic_ns() */
	uint64_t end_ns;
	uint64_t bytes;              /* size of a memory copy or memset */
	struct launch_config config; /* all 0 if the backend does not know it */
	uint32_t function;           /* id of record/store/devices.h; 0: PC sampling is off */
	uint64_t sampled_ns;         /* part of its time during which PCs were sampled */
	uint64_t dispatch;           /* number that its PC samples carry; 0: none */
	bool is_of_graph;            /* ran as part of a graph */
	bool is_of_host;             /* ran on the reporting thread, which has made its event */
	const struct trace_event *launch; /* NULL: unknown, or no session needs it */
};

/* Trace data of one launch of an instrumented kernel, in times of base/clock.h. */

/* A recording warp, with the group of warps it records for, and its sub-tracks. */
struct intra_unit {
	uint64_t start_ns;
	uint64_t end_ns;
	uint32_t cta;
	uint32_t processor;
	uint16_t warp;
	uint16_t line_count; /* at least 1 */
	uint32_t finalize_ns;
	uint16_t clock_mhz;
};

struct intra_event {
	uint64_t start_ns;
	uint64_t end_ns;
	uint32_t unit;
	uint32_t node; /* index into the launch's nodes */
	uint32_t cycles;
	uint16_t line; /* sub-track of the unit; its slices follow each other or nest */
	bool is_async;
	bool is_partial; /* recorded in part: it took at least this long */
	int8_t end_step; /* asynchronous: steps in `units` from `unit` to where it ended */
};

struct intra_launch {
	struct proton_context where;     /* context, ending with the kernel */
	uint32_t device;                 /* record/store/devices.h */
	uint32_t frame;                  /* the kernel's frame; the lanes have its name */
	const struct trace_event *event; /* event of the launching call */
	const struct intra_unit *units;
	size_t unit_count;
	const struct proton_context *nodes; /* contexts of the scopes */
	size_t node_count;
	const struct intra_event *events; /* enclosing events first */
	size_t event_count;
};
