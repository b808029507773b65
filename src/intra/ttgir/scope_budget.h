/* The budget of automatic scopes: which of them a kernel can have for a share of its time. */
#ifndef INTRA_TTGIR_SCOPE_BUDGET_H
#define INTRA_TTGIR_SCOPE_BUDGET_H

#include "intra/ttgir/find_operations.h"

/* Predicted costs in percent of the kernel's time. */
struct scope_budget {
	uint32_t percent;        /* the budget */
	uint32_t registers_less; /* see struct ttgir_insertion */
	struct slice without;
	uint32_t loop_levels;
	bool has_sums; /* scopes in loops have sums, not records */
	double all;    /* with all scopes */
	double kept;
	uint32_t dropped; /* for their time */
	uint32_t stride;  /* every n-th CTA records */
};

/*
 * Drops scopes of `sites`, which have names, until the prediction for the kernel and for each loop
 * with an unknown number of iterations is within `percent` of `budget`. Loops and partitions are
 * chosen first, then waits and dots, then loads and stores, then others; among equals the cheaper
 * ones. If `registers_less`, `without` or `loop_levels` is set, this choice is made again within
 * its registers. One scope is kept in any case. If copying records at the end of each CTA takes too
 * much and `can_stride`, not every CTA records. Sets the other fields of `budget`. E_UNSUPPORTED,
 * E_NOMEM.
 */
int scope_budget_apply(struct slice text, bool can_stride, struct sites *sites,
		       struct scope_budget *budget, struct proton_error *err);

/* Drops all scopes that `names` does not have, one per line. */
void scope_budget_keep(struct sites *sites, struct slice names);

#endif
