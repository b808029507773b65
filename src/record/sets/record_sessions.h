/* Recorder interface for backends: additions to sessions beside kernels. From any thread. */
#pragma once

#include <libproton/proton.h>

#include "record/backend.h"
#include "record/store/execution.h"
#include "record/store/store.h"

/* Adds to a counter, such as a loss, of every live session. */
void record_count(enum counter counter, uint64_t more);

/* True once the sessions are being ended because the program is about to exit. */
bool record_program_ends(void);

/* A window was opened, or is closed: then all of its records have arrived. */
void record_window(const struct backend *backend, const struct record_window *window);

/* Sums of a batch. */
struct sample_totals {
	uint64_t samples;  /* in known functions */
	uint64_t profiler; /* in code that the vendor's library added to the program */
	uint64_t unknown;  /* without a function */
	uint64_t losses;   /* times that a buffer was full */
};

/* Adds samples of unknown launches to `sessions` that use `backend`, with their code objects. */
void record_samples(uint32_t sessions, const struct backend *backend,
		    const struct pc_sample *samples, size_t count,
		    const struct sample_totals *totals);
/* Adds samples of one launch at `where`, a context that ends with the kernel. */
void record_launch_samples(struct proton_context where, const struct pc_sample *samples,
			   size_t count);

/* Adds the launch to every trace that was active at its `where`. False if out of memory. */
bool record_intra(const struct intra_launch *launch);
/* Counts a sampled launch at `where`, and adds its device for the launch's metrics. */
void record_intra_launch(struct proton_context where, uint32_t device);
/* True if there is such a trace. */
bool record_wants_intra(struct proton_context where);
