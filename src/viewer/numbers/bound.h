/*
 * The limit of a kernel: the unit of the GPU that it uses most, or none of them. "bound" is the
 * word, and the shares are its figures.
 */
#pragma once

#include "viewer/numbers/utilization.h"

enum bound {
	BOUND_TENSOR,  /* tensor cores, or other matrix units */
	BOUND_VECTOR,  /* floating point instructions of the vector units */
	BOUND_MEMORY,  /* the GPU's memory */
	BOUND_L2,      /* between the SMs and L2 */
	BOUND_LATENCY, /* none of these: waiting, or too little work at a time */
	BOUND_LAUNCH,  /* the same, in a kernel that is shorter than its launch */
	BOUND_COUNT,
};

extern const char *const bound_words[BOUND_COUNT];

/* Shares of peak rates, over the time of the node's own kernels; 0: unknown or none. */
struct bound_shares {
	double of[BOUND_LATENCY]; /* by the units above */
};

/* False without kernels, peak rates, or anything known of the node's work. */
bool bound_shares_of_node(const struct util *util, uint32_t node, struct bound_shares *out);
/* BOUND_COUNT: not known. */
enum bound bound_of_node(const struct util *util, uint32_t node);
