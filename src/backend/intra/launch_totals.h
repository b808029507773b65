/*
 * Totals of one launch: a tree of scopes below the kernel, with counts, sums and histograms of
 * cycles. Each reader thread has one. kernel_history.h sums launches in a tree of the same kind and
 * reports them to the profile.
 */
#pragma once

#include "backend/intra/loaded_kernels.h"

/*
 * Histogram of durations in cycles; format/rows.h has the histogram of kernel times. Exact below 32
 * cycles, then 32 buckets per power of two, so a percentile is off by at most 3 %.
 */
#define CYCLE_SUB_LOG2 5u
#define CYCLE_SUB (1u << CYCLE_SUB_LOG2)
#define CYCLE_BUCKETS (CYCLE_SUB * (45u - CYCLE_SUB_LOG2 + 1u)) /* to 2^45: hours */

static inline uint32_t cycle_bucket(uint64_t cycles)
{
	if (cycles < CYCLE_SUB)
		return (uint32_t)cycles;
	uint32_t log2 = 63u - (uint32_t)__builtin_clzll(cycles);
	uint32_t index = (log2 - CYCLE_SUB_LOG2 + 1) * CYCLE_SUB +
			 (uint32_t)(cycles >> (log2 - CYCLE_SUB_LOG2) & (CYCLE_SUB - 1));
	return index < CYCLE_BUCKETS ? index : CYCLE_BUCKETS - 1;
}

static inline uint64_t cycle_bucket_middle(uint32_t index)
{
	uint32_t log2 = index / CYCLE_SUB + CYCLE_SUB_LOG2 - 1;

	if (index < CYCLE_SUB * 2)
		return index;
	uint64_t width = 1ull << (log2 - CYCLE_SUB_LOG2);
	return (1ull << log2) + (index % CYCLE_SUB) * width + width / 2;
}

/* launch_totals_reset() zeroes everything before the histogram. */
struct launch_node {
	uint64_t count; /* whole executions; the next five are about them only */
	uint64_t cycles;
	uint64_t min; /* UINT64_MAX: unknown, like `max` */
	uint64_t max;
	/* Executions of sums (layout.h) that are missing in `min` and `max`, and in `histogram`. */
	uint64_t unbounded;
	uint64_t unsorted;
	uint64_t partial;        /* executions recorded in part (decoder.h) */
	uint64_t partial_cycles; /* lower bound of their duration */
	uint32_t *histogram;     /* of CYCLE_BUCKETS; about whole executions */
	uint32_t *children;      /* by scope: index, 0: none; NULL if there are no children */
	uint32_t parent;         /* index; 0 is the kernel */
	uint32_t scope;
	struct proton_context where; /* set when it is added to the kernel's history */
};

/* All zero: unused. */
struct launch_totals {
	const struct kernel *kernel;
	struct launch_node *nodes; /* the kernel, then scopes: parents first */
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
/*
 * The child of node `parent` for `scope`, made if new; `parent` itself if there is no space
 * for more.
 */
uint32_t launch_totals_child(struct launch_totals *totals, uint32_t parent, uint32_t scope);
/* Resets all counts, which kernel_history.c has added. */
void launch_totals_reset(struct launch_totals *totals);
void launch_totals_fini(struct launch_totals *totals);
