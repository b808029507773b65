/* Positions of scopes in the tree that are known at compile time. */
#ifndef INTRA_LLVM_SUM_POSITIONS_H
#define INTRA_LLVM_SUM_POSITIONS_H

#include "intra/llvm/sum_plan.h"

/*
 * Adds a sum for each scope at each position to `layout`, and sets plan->sums. If the scopes that
 * are open depend on the path or overlap, there is one sum per scope, by_scope is set, and the
 * parents come from the layout's nesting. `work` has two numbers per block. False if out of
 * memory.
 */
bool sum_positions_find(const struct ir_function *function, const struct plan *plan,
			struct instrument_layout *layout, struct sum_plan *sums, uint32_t *work);

#endif
