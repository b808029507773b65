/*
 * Launch reader: copies the buffer of a launch to the host, gives it to the decoder piece by piece
 * (launch_results.h), and clears it for the next launch. Each reader thread has its own.
 *
 * Ring buffers need no clearing: the unit's header has the number of records, and is valid only
 * with its magic number, which the unit writes last. So headers are zeroed. If ring buffers were
 * full, their slack areas are zeroed too, because only its age distinguishes a record there from
 * one in the ring buffer. The copy engine does it: a memset would be a kernel, which competes with
 * the program's kernels.
 */
#ifndef BACKEND_INTRA_LAUNCH_READER_H
#define BACKEND_INTRA_LAUNCH_READER_H

#include "backend/intra/device_clock.h"
#include "backend/intra/launch_results.h"

/* One piece of a buffer is decoded while the next is copied. */
#define READER_STAGES 2u

/* All zero: unused. */
struct launch_reader {
	void *all_streams[DEVICE_CLOCKS_MAX][READER_STAGES]; /* by device clock */
	void **streams;                                      /* of the device that it reads from */
	void *stages[READER_STAGES]; /* pinned host memory; only the first if memory is short */
	size_t stage_bytes;
	bool is_cleared; /* clearing of the buffer that it reads is queued */
	struct launch_results results;
};

/*
 * These functions follow each other for a launch that has ended and whose context is current. False
 * after a warning.
 */

/* Prepares for a buffer on the device of `clock`. */
bool launch_reader_enter(struct launch_reader *reader, const struct device_clock *clock);
/* Copies and decodes the buffer of a launch, for which launch_results_begin() was called. */
bool launch_reader_read(struct launch_reader *reader, struct launch *launch);
/*
 * Clears what a later launch could mistake for its own records. `is_read`: all of the buffer was.
 * False if it cannot be reused.
 */
bool launch_reader_clear(struct launch_reader *reader, struct buffer *buffer, bool is_read);

/* Call before device_clock_clear(). */
void launch_reader_fini(struct launch_reader *reader);
/* At the end of a run, without readers; a context is current. */
void launch_reader_free_zeros(void);
void launch_reader_forget(void);

#endif
