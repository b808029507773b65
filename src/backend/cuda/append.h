/*
 * Appending bytes in device memory to a ring in host memory, in stream order, by a kernel of ours:
 * at once, or as a node of the graph that the stream is being captured into. Nothing ever waits; a
 * value that finds the ring full is counted.
 */
#ifndef BACKEND_CUDA_APPEND_H
#define BACKEND_CUDA_APPEND_H

#include <stdbool.h>

#include "backend/cuda/cupti_api.h"

struct append_ring;

/* What one append needs from beginning to end; on the stack. */
struct append {
	struct append_ring *ring;
	uint64_t stream;
	bool is_capturing;
	bool is_refused; /* the stream takes no work just now: its capture has failed */
	bool is_pushed;
	int mode; /* the thread's capture mode, to be restored */
};

/*
 * Finds the context of `stream` and its ring, which is made at the first use. Calls of ours do not
 * disturb a capture until append_end(), which follows in any case. E_UNSUPPORTED: the driver
 * cannot.
 */
int append_begin(struct append *append, const struct cupti_api *api, uint64_t stream,
		 uint64_t address, struct proton_error *err);
int append_launch(struct append *append, uint64_t id, uint64_t address, uint32_t bytes,
		  struct proton_error *err);
void append_end(struct append *append);

/*
 * Takes what has arrived out of all rings, in order for each id. One caller at a time. Costs one
 * load per ring when there is nothing.
 */
void append_drain(void (*deliver)(uint64_t id, const void *bytes, uint32_t count));
/* Some ring is half full or more. */
bool append_is_filling(void);
/* Values that found a ring full, since the process began. */
uint64_t append_lost(void);

#endif
