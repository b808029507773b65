/*
 * Appending bytes of device memory to a ring buffer in host memory, in stream order, by a small
 * kernel: at once, or as a node of the graph that the stream is being captured into. Appends never
 * wait; values that find the ring buffer full are counted.
 */
#ifndef BACKEND_CUDA_APPEND_H
#define BACKEND_CUDA_APPEND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct append_ring;

/* State of one append; on the stack. */
struct append {
	struct append_ring *ring;
	uint64_t stream;
	bool is_capturing;
	bool is_refused; /* the stream accepts no work, because its capture has failed */
	bool is_pushed;
	int mode; /* the thread's capture mode, to be restored */
};

/*
 * Finds the context of `stream` and its ring buffer, which is made at the first use. Driver calls
 * do not disturb a capture until append_end(), which has to be called in any case. E_UNSUPPORTED:
 * the driver cannot do it.
 */
int append_begin(struct append *append, uint64_t stream, uint64_t address,
		 struct proton_error *err);
int append_launch(struct append *append, uint64_t id, uint64_t address, uint32_t bytes,
		  struct proton_error *err);
void append_end(struct append *append);

/*
 * Drains all ring buffers, in order for each id. One caller at a time. Empty ring buffers cost one
 * load each.
 */
void append_drain(void (*deliver)(uint64_t id, const void *bytes, uint32_t count));
/* True if some ring buffer is at least half full. */
bool append_is_filling(void);
/* Number of values lost in full ring buffers since the process began. */
uint64_t append_lost(void);
/* After fork(), in the child. */
void append_forget(void);

#endif
