/* Replays of HIP graphs: records matched with captured work by order, or shown by name. */
#ifndef BACKEND_AMD_HIP_REPLAYS_H
#define BACKEND_AMD_HIP_REPLAYS_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/gpu/tensors.h"
#include "record/store/execution.h"
#include "record/thread/correlate.h"

/* How the order of a replay's work is known. */
enum hip_replays_mode {
	HIP_REPLAYS_BY_ARRIVAL, /* of its records, or by a number in them */
	HIP_REPLAYS_BY_REQUEST, /* each piece asks for a number, within the call that launches */
	HIP_REPLAYS_BY_EVENT,   /* the same, within an event of the graph's launch in that call */
};

void hip_replays_start(enum hip_replays_mode mode);
/* True while records of memory operations are enabled: a replay waits for them too. */
void hip_replays_set_memory(bool is_recorded);

/* A launch of `exec` at `where` begins on this thread, after launches_begin(), or has returned. */
void hip_replays_begin(uint64_t exec, uint32_t correlation, struct proton_context where);
void hip_replays_end(bool has_failed);
/* The event of a graph's launch. */
void hip_replays_event(bool is_enter);
/* The number of the next piece of work of this launch; 0: the thread launches no graph. */
uint64_t hip_replays_next(void);

/*
 * Adds a record, of a kernel or of a memory operation, such as a kernel with which the runtime
 * copies. `number`: from hip_replays_next(), 0 if there was none; `order`: increases from record to
 * record of a replay, 0 if unknown. False: it is not part of a graph that is known.
 */
bool hip_replays_add(const struct correlation *launch, uint64_t number, uint64_t order,
		     const struct execution *execution);

/* All records of replays up to `newest` have arrived, or will not: adds those that wait. */
void hip_replays_settle(uint32_t newest);
/* After the last session. */
void hip_replays_clear(void);

/* Device metrics on AMD: values in device memory, copied to the host in stream order. */

extern const struct tensors_reader hip_tensors_reader;

/* After fork(), in the child. */
void hip_tensors_forget(void);

#endif
