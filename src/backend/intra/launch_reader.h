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
struct launch_reader {
	void *streams[DEVICE_CLOCKS_MAX][READER_STAGES]; /* by place */
	void *stages[READER_STAGES]; /* pinned; where memory is short only the first */
	size_t stage_bytes;
	struct decoder decoder;
	struct launch_totals totals;
	struct trace_builder builder;
	struct role_reading warps;
};

/* A run begins: what fails is said again. */
void launch_reader_start(void);
/* Reads the buffer of a launch whose event has been recorded, and gives it back to the pool. */
void launch_reader_read(struct launch_reader *reader, struct buffer *buffer);
/* Reads what the last replay of a graph has left in its buffer, and clears that. */
void launch_reader_read_graph(struct launch_reader *reader, struct buffer *buffer);
/* Before device_clock_clear(). */
void launch_reader_fini(struct launch_reader *reader);

#endif
