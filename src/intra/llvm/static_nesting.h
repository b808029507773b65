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
 * Adds the nesting to `layout`. plans[0] is the kernel's plan, the others those of its callees. If
 * the analysis needs too many passes, the layout stays without. False if out of memory.
 */
bool static_nesting(const struct ir_function *kernel, const struct plan *plans,
		    struct instrument_layout *layout);

#endif
