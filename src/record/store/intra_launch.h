/*
 * For traces: what happened inside one launch of an instrumented kernel, on the clock of the
 * program (base/clock.h), already converted.
 */
#ifndef RECORD_STORE_INTRA_LAUNCH_H
#define RECORD_STORE_INTRA_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libproton/proton.h>

struct trace_event;

/* A warp, or a group of warps that has one recorder, and its lines of slices. */
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
	uint16_t line; /* of the unit; on one line slices follow each other or nest */
	bool is_async;
	bool is_partial; /* it took at least that long */
	int8_t end_step; /* asynchronous: from `unit` to the one that saw the end, in `units` */
};

struct intra_launch {
	struct proton_context where;     /* ends with the kernel */
	uint32_t device;                 /* record/store/devices.h */
	uint32_t frame;                  /* of the kernel, whose name the lanes carry */
	const struct trace_event *event; /* of the call that launched it */
	const struct intra_unit *units;
	size_t unit_count;
	const struct proton_context *nodes; /* of scopes */
	size_t node_count;
	const struct intra_event *events; /* what encloses before what is enclosed */
	size_t event_count;
};

/* Adds the launch to every trace that was active at its `where`. False when memory is out. */
bool record_intra(const struct intra_launch *launch);
/*
 * A launch at `where` has been sampled: counts it there, and names the device among those of the
 * sessions, for what its metrics say of it.
 */
void record_intra_launch(struct proton_context where, uint32_t device);
/* True if there is such a trace. */
bool record_wants_intra(struct proton_context where);

enum intra_counter {
	INTRA_UNSAMPLED, /* launches that had no buffer to write to: no loss */
	INTRA_DROPPED,   /* records overwritten by later ones */
	INTRA_BROKEN,    /* starts or ends whose other half is missing */
	INTRA_DAMAGED,   /* records and launches that could not be read */
};

/* Counts in every session that is live. */
void record_intra_count(enum intra_counter counter, uint64_t count);

#endif
