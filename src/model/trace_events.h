/*
 * Trace events of a profile: the unchanged rows of the file, because there may be millions, and
 * maps from their indices to the profile's. Rows are untrusted except for the checks of
 * trace_event().
 */
#pragma once

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
	/* By index in a row: index in the profile + 1, 0 = none. */
	uint32_t *nodes;
	uint32_t *metrics;
	bool *is_widened; /* by metric: integer samples of a metric that is double in the profile */
	uint32_t *devices;
	uint32_t *strings;
	bool *is_selected; /* by epoch: part of this profile */
	uint64_t node_count, metric_count, device_count, string_count, epoch_count;
	void *owned[TABLE_COUNT]; /* owned rows */
	void *file;               /* owned bytes of a file that contains rows */
};

/* Event `row` if it is filled, belongs to the profile, and its lane and node exist; else NULL. */
static inline const struct row_event *trace_event(const struct profile_trace *trace, uint64_t row)
{
	if (row == 0 || row >= trace->event_count)
		return NULL;
	const struct row_event *event = &trace->events[row];
	/*
	 * acquire: for sessions that still record; pairs with the release in
	 * record/thread/thread_trace.c
	 */
	if (__atomic_load_n(&event->kind, __ATOMIC_ACQUIRE) == EVENT_NONE ||
	    event->kind > EVENT_SECTION || event->epoch >= trace->epoch_count ||
	    !trace->is_selected[event->epoch] || event->lane >= trace->lane_count ||
	    event->node >= trace->node_count || !trace->nodes[event->node])
		return NULL;
	return event;
}

/* The size in bytes of a memory copy or memset that trace_event() returned. */
static inline uint64_t trace_bytes(const struct profile_trace *trace, const struct row_event *event)
{
	const struct row_event *size = event + 1;

	if (event->detail != UINT32_MAX || size >= trace->events + trace->event_count)
		return event->detail;
	return __atomic_load_n(&size->kind, __ATOMIC_ACQUIRE) == EVENT_SIZE ? size->start_ns
									    : event->detail;
}

/*
 * Makes the trace own its rows, so the view may be freed. Rows that the view allocated are taken,
 * the others copied. Or, with `file`, the malloc'd bytes of the view become the trace's and *file
 * NULL: a file of millions of events is not copied.
 */
int trace_own(struct profile_trace *trace, struct profile_view *view, char **file,
	      struct proton_error *err);
void trace_free(struct profile_trace *trace);
