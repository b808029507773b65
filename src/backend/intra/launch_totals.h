/*
 * Adding up one launch: a tree of scopes below the kernel, with counts, sums and distributions of
 * cycles. A thread has its own; sums.h adds launches up and tells the profile.
 */
#ifndef BACKEND_INTRA_LAUNCH_TOTALS_H
#define BACKEND_INTRA_LAUNCH_TOTALS_H

#include "backend/intra/loaded_kernels.h"

struct launch_node {
	uint64_t count; /* whole executions; these five are about them alone */
	uint64_t cycles;
	uint64_t min;
	uint64_t max;
	uint32_t *histogram;     /* cycle_histogram.h */
	uint64_t partial;        /* executions that were recorded in part (decoder.h), ... */
	uint64_t partial_cycles; /* ... and what they took at least */
	uint32_t *children;      /* by scope: index, 0: none; NULL while there is none at all */
	uint32_t parent;         /* index, 0 is the kernel itself */
	uint32_t scope;
	struct proton_context where; /* once it has been added to the sums */
};

/* All zero: has not added anything yet. */
struct launch_totals {
	const struct kernel *kernel;
	struct proton_context where; /* of the kernel */
	struct launch_node *nodes;   /* parents before their children */
	uint32_t node_count;
	size_t node_capacity;
	bool is_new; /* no node has counted anything */
	/* The node of each execution of the CTA added last. */
	uint32_t *node_of;
	size_t node_of_capacity;
};

/* A launch of the kernel, whose context is `where`, begins. False: out of memory. */
bool launch_totals_begin(struct launch_totals *totals, const struct kernel *kernel,
			 struct proton_context where);
/* Adds the CTA that `decoder` has decoded last; fills totals->node_of. False: out of memory. */
bool launch_totals_add(struct launch_totals *totals, const struct decoder *decoder);
/* Every node is as if nothing had been counted: sums.c has taken it all. */
void launch_totals_reset(struct launch_totals *totals);
void launch_totals_fini(struct launch_totals *totals);

#endif
