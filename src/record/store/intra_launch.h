/* Trace data of one launch of an instrumented kernel, in times of base/clock.h. */
#ifndef RECORD_STORE_INTRA_LAUNCH_H
#define RECORD_STORE_INTRA_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libproton/proton.h>

#include "record/store/execution.h"

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

#endif
