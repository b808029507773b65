/*
 * A session of CUPTI's range profiler in a context: ranges that are pushed and popped around
 * launches, each of which is one pass and replays nothing. Callers serialize calls, and no other
 * thread launches during one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/cuda/counter_sets.h"

/* In one image; each takes 117 KB. A start with 64 takes 55 ms, one with 256 already 70 (H200). */
#define RANGES_MAX 64u

struct range_session {
	void *context;  /* NULL: not open */
	void *profiler; /* CUPTI's */
	struct counter_sets sets;
	size_t set; /* that is counted */
	bool is_started;
	uint8_t *image;
	size_t image_bytes;
	uint32_t count;            /* ranges in the image */
	char names[RANGES_MAX][8]; /* unique: ranges of the same name are merged */
};

/* Chooses the sets and enables the profiler: 0.1 to 0.4 s. */
int range_session_open(struct range_session *session, void *context, uint32_t device,
		       struct proton_error *err);
/*
 * Begins to count a set: 55 ms, and up to 70 more if it is another one. Launches outside of ranges
 * cost 0.07 us more then.
 */
int range_session_start(struct range_session *session, size_t set, struct proton_error *err);
/* A range begins, with all earlier work of the context finished, or ends with its own work. */
int range_session_push(struct range_session *session, struct proton_error *err);
int range_session_pop(struct range_session *session, struct proton_error *err);
/*
 * Stops, and gives `read` the values of each range by its number in the image. Ranges that CUPTI
 * did not keep are not read.
 */
typedef void (*range_read_fn)(uint32_t range, const double values[COUNTER_VALUES], void *user);
int range_session_stop(struct range_session *session, range_read_fn read, void *user,
		       struct proton_error *err);
/* Harmless if it is not open. `exists`: the context does. */
void range_session_close(struct range_session *session, bool exists);
