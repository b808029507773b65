/*
 * Totals of a kernel's launches in one context. After each launch the profile gets what the launch
 * adds, and properties of the total.
 */
#ifndef BACKEND_INTRA_CONTEXT_TOTALS_H
#define BACKEND_INTRA_CONTEXT_TOTALS_H

#include "backend/intra/launch_totals.h"

struct device;

/* All zero: no launch yet. */
struct context_totals {
	struct scope_total *nodes; /* 0 is the kernel */
	uint32_t node_count;
	size_t node_capacity;
	uint32_t *frames; /* by scope */
	uint64_t units;   /* sampled so far */
};

/*
 * Adds a complete launch, of which `units` warps were sampled on `device`, and sets the contexts of
 * the nodes in `launch`. False if out of memory; then the launch is lost. The caller holds the
 * lock.
 */
bool context_totals_add(struct context_totals *totals, struct launch_totals *launch, uint64_t units,
			const struct device *device);
void context_totals_fini(struct context_totals *totals);

#endif
