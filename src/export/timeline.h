/*
 * A trace as what trace viewers draw: tracks of slices that follow each other or nest. Made from
 * the events of a profile (model/trace_events.h), for the exporters of trace formats.
 *
 * A thread is a track. A stream of a device is as many tracks as have to lie side by side where its
 * kernels overlap. Above each stream that ran graphs stands a track with the scopes in which those
 * were captured, made from the kernels below <captured_at>.
 *
 * What is kept in memory is 4 bytes per event, to put each track's events in order.
 */
#ifndef EXPORT_TIMELINE_H
#define EXPORT_TIMELINE_H

#include <stdbool.h>

#include "base/err.h"
#include "model/profile.h"

enum track_kind {
	TRACK_THREAD,
	TRACK_STREAM,
	TRACK_GRAPH,
	TRACK_UNIT, /* a line of a warp of an instrumented kernel */
};

struct timeline_track {
	enum track_kind kind;
	uint32_t lane; /* row of lanes */
	uint32_t part; /* streams: 0, or which of the tracks beside it */
	/*
	 * Units: the group that the tracks of one CTA make, from 1; the launches of a kernel in
	 * which a CTA ran on the same processor share it, and its tracks. Else 0.
	 */
	uint32_t pid;
	uint32_t tid;   /* as Chrome traces number it, unique within its pid */
	uint32_t order; /* among the tracks, from top to bottom */
	bool is_first_of_pid;
	bool is_again; /* of the same pid and tid as the one before it */
};

struct timeline_slice {
	const struct timeline_track *track;
	uint64_t start_ns; /* Unix time */
	uint64_t end_ns;
	uint32_t node;                 /* of the profile */
	uint32_t row;                  /* of events; 0: a scope of a graph */
	const struct row_event *event; /* NULL: a scope of a graph */
	bool is_unfinished;            /* it went on when the recording ended */
	/* The call that launched it, 0 and NULL if it is not known. */
	uint32_t launch_row;
	const struct row_event *launch;
	const struct timeline_track *launch_track;
	bool has_arrow; /* the first of its launch on this track: draw an arrow from there */
	/* Asynchronous work: of the warp that saw its end, if another did: draw an arrow to it */
	const struct timeline_track *end_track;
};

/* On every track slices come in order, what encloses before what is enclosed. */
struct timeline_sink {
	void *context;
	/* Before the first slice of it. */
	void (*track)(void *context, const struct timeline_track *track);
	void (*slice)(void *context, const struct timeline_slice *slice);
	/* No more slices on this track. */
	void (*track_end)(void *context, const struct timeline_track *track);
};

struct timeline {
	const struct profile *profile;
	const struct profile_trace *trace;
	uint64_t base_ns;              /* the earliest start; 0: there are no events */
	uint64_t end_ns;               /* the latest end: where slices that went on are ended */
	uint64_t count;                /* events */
	uint32_t *order;               /* rows of events, lane by lane */
	uint64_t *first;               /* by lane: in `order`; one more at the end */
	uint32_t *lanes;               /* in the order of the picture */
	struct timeline_track *tracks; /* by lane */
};

/* Puts the events in order. `profile` must be a trace. Ends with timeline_fini(). */
int timeline_init(struct timeline *timeline, const struct profile *profile,
		  struct proton_error *err);
void timeline_fini(struct timeline *timeline);
int timeline_walk(struct timeline *timeline, const struct timeline_sink *sink,
		  struct proton_error *err);

/* "CPU Thread 0", "GPU 1 Stream 7", "GPU 1 Graph: Stream 7", "warp 0 (line 1)"; the length. */
size_t timeline_track_name(const struct timeline *timeline, const struct timeline_track *track,
			   char *text, size_t capacity);

/* What a launch is called that has no frame of its own. */
const char *timeline_launch_name(uint16_t flags);

/* Of a unit's track: "matmul Core7 CTA12", as the first Proton calls the process. */
size_t timeline_group_name(const struct timeline *timeline, const struct timeline_track *track,
			   char *text, size_t capacity);

/* The first sample of the event or of the launch it belongs to; 0: none. */
uint32_t timeline_samples(const struct timeline *timeline, const struct timeline_slice *slice);
/* The sample in row `row` as a value of its metric. False if it cannot be used. */
bool timeline_sample(const struct timeline *timeline, uint32_t row,
		     const struct profile_metric **metric_out, struct row_sample *sample_out);

#endif
