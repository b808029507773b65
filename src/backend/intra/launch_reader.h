/*
 * Launch reader: copies the buffer of a launch to the host, decodes it piece by piece, adds totals,
 * slices and losses to the profile, and clears the buffer for the next launch. Each reader thread
 * has its own.
 *
 * Ring buffers need no clearing: the unit's header has the number of records, and is valid only
 * with its magic number, which the unit writes last. So headers are zeroed. If ring buffers were
 * full, their slack areas are zeroed too, because only its age distinguishes a record there from
 * one in the ring buffer. The copy engine does it: a memset would be a kernel, which competes with
 * the program's kernels.
 */
#pragma once

#include "backend/intra/device_buffers.h"
#include "backend/intra/device_clock.h"
#include "backend/intra/kernel_history.h"
#include "backend/intra/trace_builder.h"

/* One piece of a buffer is decoded while the next is copied. */
#define READER_STAGES 2u

/* All zero: unused. */
struct launch_reader {
	void *all_streams[DEVICE_CLOCKS_MAX][READER_STAGES]; /* by device clock */
	void *stages[READER_STAGES]; /* pinned host memory; only the first if memory is short */
	size_t stage_bytes;
	/* The launch that it reads: */
	const struct launch *launch;
	struct device_clock *clock;
	void **streams;  /* of the device */
	bool is_cleared; /* clearing of the buffer is queued */
	struct kernel_history *history;
	struct decoder decoder;
	struct launch_totals totals;
	struct trace_builder builder;
	struct role_reading warps;
	double clock_mhz;
	uint32_t next_slot;
};

/* The launch was taken from the queue. */
void launch_reader_take_turn(struct launch *launch);
/*
 * Reads a launch whose end was noticed at `after_ns`; its context is current. False if its buffer
 * cannot be reused.
 */
bool launch_reader_read(struct launch_reader *reader, const struct launch *launch,
			uint64_t after_ns);
/* The launch is in the traces, or never will be. */
void launch_reader_end_turn(const struct launch *launch);
/* At the end of a run, without launches, before device_clock_clear(). */
void launch_reader_fini(struct launch_reader *reader);
void launch_reader_forget(void);
