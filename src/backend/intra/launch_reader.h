/*
 * Reading launches' buffers: waits for a launch to end, copies its buffer back, decodes it and
 * hands on what was found. A thread has a reader of its own.
 */
#ifndef BACKEND_INTRA_LAUNCH_READER_H
#define BACKEND_INTRA_LAUNCH_READER_H

#include "backend/intra/device_buffers.h"
#include "backend/intra/device_clock.h"
#include "backend/intra/role_totals.h"
#include "backend/intra/trace_builder.h"

/* While one piece of a buffer is decoded the next is copied: two of all that takes. */
#define READER_STAGES 2u

/* All zero: has not read anything yet. */
struct reader {
	void *streams[PLACES_MAX][READER_STAGES]; /* by place */
	void *stages[READER_STAGES];              /* pinned; where memory is short only the first */
	size_t stage_bytes;
	struct decoder decoder;
	struct tally tally;
	struct lanes lanes;
	struct warp_reading warps;
};

/* A run begins: what fails is said again. */
void reader_start(void);
/* Reads the buffer of a launch whose event has been recorded, and gives it back to the pool. */
void reader_read(struct reader *reader, struct buffer *buffer);
/* Reads what the last replay of a graph has left in its buffer, and clears that. */
void reader_read_graph(struct reader *reader, struct buffer *buffer);
/* Before places_clear(). */
void reader_fini(struct reader *reader);

#endif
