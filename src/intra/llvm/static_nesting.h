/*
 * Static nesting of scopes: which scopes may be open where another one starts, and which one always
 * is. From the markers and the control flow of the kernel and its noinline callees, along all of
 * their paths, whether or not a launch can take them.
 *
 * It tells the decoder where a scope belongs when the records of the scopes around it are lost.
 */
#ifndef INTRA_LLVM_STATIC_NESTING_H
#define INTRA_LLVM_STATIC_NESTING_H

#include "intra/llvm/record_plan.h"

/*
 * Adds what is known to `layout`. The plans are those of the kernel and, from plans[1] on, of its
 * callees. Control flow that takes too long to follow leaves the layout without. False: no memory.
 */
bool static_nesting(const struct ir_function *kernel, const struct plan *plans,
		    struct instrument_layout *layout);

#endif
