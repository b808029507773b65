/*
 * Totals of one launch: a tree of scopes below the kernel, with counts, sums and histograms of
 * cycles. Each reader thread has one. context_totals.h sums launches and reports them to the
 * profile.
 */
#ifndef BACKEND_INTRA_LAUNCH_TOTALS_H
#define BACKEND_INTRA_LAUNCH_TOTALS_H

#include "backend/intra/loaded_kernels.h"

struct launch_node {
	uint64_t count; /* whole executions; the next six are about them only */
	uint64_t cycles;
	uint64_t min; /* UINT64_MAX: unknown, like `max` */
	uint64_t max;
	uint32_t *histogram; /* cycle_histogram.h */
	/* Executions of sums (layout.h) that are missing in `min` and `max`, and in `histogram`. */
	uint64_t unbounded;
	uint64_t unsorted;
	uint64_t partial;        /* executions recorded in part (decoder.h) */
	uint64_t partial_cycles; /* lower bound of their duration */
	uint32_t *children;      /* by scope: index, 0: none; NULL if there are no children */
	uint32_t parent;         /* index; 0 is the kernel */
	uint32_t scope;
	struct proton_context where; /* set when it is added to the context totals */
};

/* All zero: unused. */
struct launch_totals {
	const struct kernel *kernel;
	struct proton_context where; /* of the kernel */
	struct launch_node *nodes;   /* parents first */
	uint32_t node_count;
	size_t node_capacity;
	bool is_new; /* no node has counts */
	/* Node of each execution of the CTA added last. */
	uint32_t *node_of;
	size_t node_of_capacity;
};

/* Begins a launch of the kernel with context `where`. False if out of memory. */
bool launch_totals_begin(struct launch_totals *totals, const struct kernel *kernel,
			 struct proton_context where);
/* Adds the CTA that `decoder` decoded last; fills totals->node_of. False if out of memory. */
bool launch_totals_add(struct launch_totals *totals, const struct decoder *decoder);
/* Resets all counts, which context_totals.c has added. */
void launch_totals_reset(struct launch_totals *totals);
void launch_totals_fini(struct launch_totals *totals);

#endif
