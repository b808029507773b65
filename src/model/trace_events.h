/*
 * The events of a profile that is a trace: the rows of the file as they are, for there may be
 * millions, and what leads from their numbers to those of the profile. Nothing in a row has been
 * checked but what trace_event() checks.
 */
#ifndef MODEL_TRACE_EVENTS_H
#define MODEL_TRACE_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "format/profile_view.h"

struct profile;

struct profile_trace {
	const struct row_lane *lanes;
	const struct row_event *events;
	const struct row_sample *samples;
	const struct row_launch *launches;
	const uint64_t *words; /* vectors of samples */
	uint64_t lane_count;
	uint64_t event_count;
	uint64_t sample_count;
	uint64_t launch_count;
	uint64_t word_count;
	/* By the number in a row: that of the profile + 1, 0 = none. */
	uint32_t *nodes;
	uint32_t *metrics;
	bool *is_widened; /* by metric: its samples are integers, the profile's metric is double */
	uint32_t *devices;
	uint32_t *strings;
	bool *is_selected; /* by epoch: part of this profile */
	uint64_t node_count, metric_count, device_count, string_count, epoch_count;
	void *owned[TABLE_COUNT]; /* the rows, if they are the profile's own */
	void *file;               /* the bytes of a file that rows are in, if they are its own */
};

/* Event `row` if it is filled, belongs to the profile and its lane and node exist; else NULL. */
static inline const struct row_event *trace_event(const struct profile_trace *trace, uint64_t row)
{
	const struct row_event *event;

	if (row == 0 || row >= trace->event_count)
		return NULL;
	event = &trace->events[row];
	/*
	 * acquire: of a session that still records; pairs with the release in
	 * record/thread/thread_trace.c
	 */
	if (__atomic_load_n(&event->kind, __ATOMIC_ACQUIRE) == EVENT_NONE ||
	    event->kind > EVENT_SECTION || event->epoch >= trace->epoch_count ||
	    !trace->is_selected[event->epoch] || event->lane >= trace->lane_count ||
	    event->node >= trace->node_count || !trace->nodes[event->node])
		return NULL;
	return event;
}

/* The bytes of a copy or set that trace_event() returned. */
static inline uint64_t trace_bytes(const struct profile_trace *trace, const struct row_event *event)
{
	const struct row_event *size = event + 1;

	if (event->detail != UINT32_MAX || size >= trace->events + trace->event_count)
		return event->detail;
	return __atomic_load_n(&size->kind, __ATOMIC_ACQUIRE) == EVENT_SIZE ? size->start_ns
									    : event->detail;
}

/*
 * Makes the rows the trace's own, so that the view may go: those that the view made are taken, and
 * the others are copied; or, with `file`, the malloc'd bytes that the view is of become the trace's
 * and *file NULL. A file of millions of events is not copied that way.
 */
int trace_own(struct profile_trace *trace, struct profile_view *view, char **file,
	      struct proton_error *err);
void trace_free(struct profile_trace *trace);

#endif
