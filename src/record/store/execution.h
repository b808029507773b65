/* One execution of something on a device, as a backend reports it and the stores take it. */
#ifndef RECORD_STORE_EXECUTION_H
#define RECORD_STORE_EXECUTION_H

#include <stdbool.h>
#include <stdint.h>

#include "format/rows.h" /* struct launch_config */

struct trace_event;

struct execution {
	uint32_t
		frame; /* its name, by frames_add(FRAME_KERNEL, ...); 0: the context ends with it */
	uint32_t device;      /* record/store/devices.h */
	bool is_memory;       /* a copy or a set, for sessions that asked for those */
	bool is_set;          /* of these, a set */
	uint32_t stream;      /* the vendor's number of the stream, unique within its context */
	uint32_t correlation; /* the vendor's number of the launch; 0 if there is none */
	uint64_t start_ns;    /* of clock_monotonic_ns() */
	uint64_t end_ns;
	uint64_t bytes;              /* of a memory operation */
	struct launch_config config; /* all 0 where the backend does not know */
	bool is_of_graph;            /* ran as part of a graph */
	bool is_of_host; /* ran on the thread that reports it, which has made its event */
	const struct trace_event
		*launch; /* record/thread/thread_trace.h; NULL: not known, or no session wants it */
};

#endif
