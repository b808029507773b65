/*
 * Launches of a kernel in a context added up: after each launch the profile is told what it adds
 * and what is known by now.
 */
#ifndef BACKEND_INTRA_CONTEXT_TOTALS_H
#define BACKEND_INTRA_CONTEXT_TOTALS_H

#include "backend/intra/launch_totals.h"

struct device;

/* All zero: nothing has been added yet. */
struct context_totals {
	struct scope_total *nodes; /* 0 is the kernel */
	uint32_t node_count;
	size_t node_capacity;
	uint32_t *frames; /* by scope */
	uint64_t units;   /* sampled so far */
};

/*
 * The launch is complete, `units` of its warps were sampled on `device`: takes what `totals` has
 * counted, and sets its nodes' contexts. False: out of memory, and it is lost. The sums are locked.
 */
bool context_totals_add(struct context_totals *sums, struct launch_totals *totals, uint64_t units,
			const struct device *device);
void context_totals_fini(struct context_totals *sums);

#endif
