/*
 * Static nesting of scopes: which scopes may be open where another one starts, and which one always
 * is. Derived from the markers and the control flow of the kernel and its instrumented callees, on
 * all paths.
 *
 * The decoder uses it to find a scope's parent when the records of the scopes around it are lost.
 */
#ifndef INTRA_LLVM_STATIC_NESTING_H
#define INTRA_LLVM_STATIC_NESTING_H

#include "intra/llvm/record_plan.h"

/*
 * Adds the nesting to `layout`. plans[0] is the kernel's plan, the others are its callees'. If the
 * analysis needs too many passes, the layout stays without. False if out of memory.
 */
bool static_nesting(const struct ir_function *kernel, const struct plan *plans,
		    struct instrument_layout *layout);

/*
 * The innermost scope around `scope` that is ordered with all others around it: one contains the
 * other. INSTRUMENT_NO_SCOPE if there is none. `around[i]` are the scopes that contain scope i.
 */
uint16_t static_nesting_parent(const struct scope_set *around, uint32_t scope, uint32_t count);

#endif
