/*
 * Timeline: tracks of slices that follow each other or nest, made from the events of a profile
 * (model/trace_events.h) for the exporters of trace formats.
 *
 * A thread is a track. A stream of a device has sub-tracks if its kernels overlap. Above each
 * stream with graph replays is a track of the scopes in which the graphs were captured, made from
 * the kernels below <captured_at>; and one of the names around other kernels that no thread ran as
 * a scope: modules of compiled code, and operators.
 *
 * Memory use is 4 bytes per event, for the order of each track's events, 6 bytes per node, and with
 * backward kernels of PyTorch 24 bytes for each of them and of their scopes.
 */
#pragma once

#include "base/buf.h"
#include "model/profile.h"

enum track_kind {
	TRACK_THREAD,
	TRACK_STREAM,
	TRACK_GRAPH,
	TRACK_MODULES,
	TRACK_UNIT, /* a sub-track of a warp of an instrumented kernel */
};

struct timeline_track {
	enum track_kind kind;
	uint32_t lane; /* row of lanes */
	uint32_t part; /* streams: 0, or the number of the sub-track */
	/*
	 * Units: the group of the tracks of one CTA, from 1. Launches of a kernel in which a CTA
	 * ran on the same multiprocessor share the group and its tracks. Else 0.
	 */
	uint32_t pid;
	uint32_t tid;   /* number in Chrome traces, unique within its pid */
	uint32_t order; /* position among the tracks, from top to bottom */
	bool is_first_of_pid;
	bool is_again; /* same pid and tid as the previous track */
};

struct timeline_slice {
	const struct timeline_track *track;
	uint64_t start_ns; /* Unix time */
	uint64_t end_ns;
	uint32_t node;                 /* of the profile */
	uint32_t row;                  /* of events; 0: a scope of a graph, or a module */
	const struct row_event *event; /* NULL: the same */
	bool is_unfinished;            /* still active at the end of the recording */
	/* The launch; 0 and NULL if unknown. */
	uint32_t launch_row;
	const struct row_event *launch;
	const struct timeline_track *launch_track;
	bool has_arrow; /* first slice of its launch on this track: draw a flow (arrow) */
	/* Backward kernels: the run of their scope, source of a flow; 0 and NULL if unknown. */
	uint32_t forward_row;
	const struct row_event *forward;
	const struct timeline_track *forward_track;
	bool is_forward; /* a scope that is the source of such a flow */
	/* Asynchronous work that ended on another warp: the track of that warp, target of a flow */
	const struct timeline_track *end_track;
};

/* On every track slices are in order, outer slices before inner ones. */
struct timeline_sink {
	void *context;
	/* Before the first slice of the track. */
	void (*track)(void *context, const struct timeline_track *track);
	void (*slice)(void *context, const struct timeline_slice *slice);
	/* No more slices on this track. */
	void (*track_end)(void *context, const struct timeline_track *track);
};

/* From a scope to a backward kernel: rows of events. */
struct backward_arrow {
	uint32_t kernel;
	uint32_t scope;
};

struct timeline_backward {
	struct backward_arrow *arrows; /* in the order of kernels */
	uint32_t *scopes;              /* the same in their order, to be looked up */
	size_t count;
};

struct timeline {
	const struct profile *profile;
	const struct profile_trace *trace;
	uint64_t base_ns;              /* the earliest start; 0: no events */
	uint64_t end_ns;               /* the latest end, which also ends active slices */
	uint64_t count;                /* events */
	uint32_t *order;               /* rows of events, lane by lane */
	uint64_t *first;               /* by lane: in `order`; one more at the end */
	uint32_t *lanes;               /* in display order */
	struct timeline_track *tracks; /* by lane */
	uint32_t *scopes;  /* by node: the innermost at or above it that a stream shows, or 0 */
	bool *is_captured; /* by node: at or below <captured_at> */
	struct timeline_backward backward;
};

/* Sorts the events. E_INVALID: not a trace. Release with timeline_fini(). */
int timeline_init(struct timeline *timeline, const struct profile *profile,
		  struct proton_error *err);
void timeline_fini(struct timeline *timeline);
/* `out` fails if memory runs out. */
void timeline_walk(struct timeline *timeline, const struct timeline_sink *sink, struct out *out);

/*
 * "CPU Thread 0", "GPU 1 Stream 7", "GPU 1 Graph: Stream 7", "warp 0 (line 1)"; returns the length.
 */
size_t timeline_track_name(const struct timeline *timeline, const struct timeline_track *track,
			   char *text, size_t capacity);

/* The name of a launch without a frame. */
const char *timeline_launch_name(uint16_t flags);

/* For a unit's track: "matmul Core7 CTA12", upstream's name of the process. */
size_t timeline_group_name(const struct timeline *timeline, const struct timeline_track *track,
			   char *text, size_t capacity);

/* The first metric value of the event or of its launch; 0: none. */
uint32_t timeline_samples(const struct timeline *timeline, const struct timeline_slice *slice);
/* Reads the metric value in *row, which becomes the next one. False: none, or a corrupt one. */
bool timeline_take_sample(const struct timeline *timeline, uint32_t *row,
			  const struct row_metric **metric_out, struct row_sample *sample_out);
/* The text of a metric value that is a string, as a string of the profile. */
uint32_t timeline_string(const struct timeline *timeline, const struct row_sample *sample);
/* The words of a metric value that is a vector; *count_out is their number. */
const uint64_t *timeline_vector(const struct timeline *timeline, const struct row_sample *sample,
				uint64_t *count_out);

/* The number of a lane's device among those of its type, as users number it; UINT32_MAX: none. */
uint32_t timeline_device(const struct timeline *timeline, uint32_t lane);
/* The category of an event: "kernel". */
extern const char *const timeline_categories[EVENT_SECTION + 1];
