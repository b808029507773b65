/*
 * Instrumented callees: noinline functions that contain markers or call a function that does. A
 * callee gets the bytes used in the ring buffer as an additional parameter, and returns the new
 * number in addition to its value. So its signature and all calls are rewritten. This requires that
 * it is called only directly and only from this module.
 */
#ifndef INTRA_LLVM_NOINLINE_CALLEES_H
#define INTRA_LLVM_NOINLINE_CALLEES_H

#include "base/err.h"
#include "intra/llvm/ir_function.h"

struct callees {
	struct ir_function *functions; /* in text order; their lines are the kernel's */
	uint32_t count;
	struct ir_call *calls; /* calls of them, by line */
	uint32_t call_count;
	struct ir_names scopes; /* scopes that have markers in them */
};

/*
 * Finds and reads the instrumented callees of the kernel's module. Sets outside_markers to the
 * number of markers in other functions, and outside_reason to the reason. E_NOMEM.
 */
int callees_find(struct ir_function *kernel, struct proton_error *err);
void callees_free(struct callees *callees);

#endif
