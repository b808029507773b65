/*
 * Launch reader: waits for a launch to end, copies its buffer to the host, decodes it and adds the
 * results to the profile. Each reader thread has its own.
 */
#ifndef BACKEND_INTRA_LAUNCH_READER_H
#define BACKEND_INTRA_LAUNCH_READER_H

#include "backend/intra/device_clock.h"
#include "backend/intra/launch.h"
#include "backend/intra/role_totals.h"
#include "backend/intra/trace_builder.h"

/* One piece of a buffer is decoded while the next is copied. */
#define READER_STAGES 2u

/* All zero: unused. */
struct launch_reader {
	void *streams[DEVICE_CLOCKS_MAX][READER_STAGES]; /* by device clock */
	void *stages[READER_STAGES]; /* pinned host memory; only the first if memory is short */
	size_t stage_bytes;
	struct decoder decoder;
	struct launch_totals totals;
	struct trace_builder builder;
	struct role_reading warps;
};

/* Starts a run: failures are reported again. */
void launch_reader_start(void);
/* Reads the buffer of a launch with a recorded CUDA or HIP event, and returns it to the pool. */
void launch_reader_read(struct launch_reader *reader, struct launch *launch);
/* Reads the records of a graph's last replay from its buffer, and clears the buffer. */
void launch_reader_read_graph(struct launch_reader *reader, struct launch *launch);
/* Call before device_clock_clear(). */
void launch_reader_fini(struct launch_reader *reader);

#endif
