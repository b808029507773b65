/*
 * Adding up executions of scopes: a tree of scopes below each kernel and context, with counts,
 * sums and distributions of cycles, told to the profile after each launch.
 */
#ifndef BACKEND_INSTRUMENT_TALLY_H
#define BACKEND_INSTRUMENT_TALLY_H

#include "backend/instrument/kernels.h"

struct tally_node {
	struct proton_context where;
	uint32_t parent; /* index, 0 is the kernel itself */
	uint32_t scope;
	uint32_t first_child; /* 0: none */
	uint32_t next_sibling;
	uint64_t count;
	uint64_t cycles;
	uint64_t min;
	uint64_t max;
	uint64_t new_count; /* of the launch that is being added */
	uint64_t new_cycles;
	uint32_t *histogram;
};

struct tally {
	struct tally *next;
	const struct kernel *kernel;
	struct proton_context where; /* of the kernel */
	struct tally_node *nodes;
	uint32_t node_count;
	size_t node_capacity;
	uint32_t *frames; /* by scope */
	uint32_t *tops;   /* by scope: the node right below the kernel, 0: none yet */
	uint64_t units;   /* sampled so far */
	/* Work space: the node of each execution of the CTA added last. */
	uint32_t *node_of;
	size_t node_of_capacity;
};

/* The tally of a kernel in a context, found or made; NULL when memory is out. */
struct tally *tally_of(const struct kernel *kernel, struct proton_context where);
/* Adds the CTA that `decoder` has decoded last; fills tally->node_of. False: out of memory. */
bool tally_add(struct tally *tally, const struct decoder *decoder);
/* The launch is complete, `units` of its warps were sampled on `device`: tells the profile. */
void tally_commit(struct tally *tally, uint64_t units, uint32_t device);
/* A run has ended. */
void tally_clear(void);

#endif
