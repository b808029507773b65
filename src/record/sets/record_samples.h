/*
 * PC samples from a backend to the sessions. The backend calls these from its own thread, in
 * batches.
 */
#ifndef RECORD_SETS_RECORD_SAMPLES_H
#define RECORD_SETS_RECORD_SAMPLES_H

#include <libproton/proton.h>

#include "record/backend.h"
#include "record/store/store_samples.h"

/* Sums of a batch. */
struct sample_totals {
	uint64_t samples;  /* in known functions */
	uint64_t profiler; /* in code that the vendor's library added to the program */
	uint64_t unknown;  /* without a function */
	uint64_t losses;   /* times that a buffer was full */
};

/*
 * Adds samples of unknown launches to those of `sessions` (as in proton_context) that use
 * `backend`, with the code objects of their functions.
 */
void record_samples(uint32_t sessions, const struct backend *backend,
		    const struct pc_sample *samples, size_t count,
		    const struct sample_totals *totals);
/* Adds samples of one launch at `where`, a context that ends with the kernel. */
void record_launch_samples(struct proton_context where, const struct pc_sample *samples,
			   size_t count);

#endif
