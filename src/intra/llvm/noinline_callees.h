/*
 * Instrumented callees: noinline functions that contain markers or call a function that does. A
 * callee gets the bytes used in the ring buffer as an additional parameter, and returns the new
 * number in addition to its value. So its signature and all calls are rewritten. This requires that
 * it is called only directly and only from this module.
 */
#ifndef INTRA_LLVM_NOINLINE_CALLEES_H
#define INTRA_LLVM_NOINLINE_CALLEES_H

#include "base/buf.h"
#include "base/err.h"
#include "intra/llvm/ir_function.h"

/*
 * Finds and reads the instrumented callees of the kernel's module. Sets outside_markers to the
 * number of markers in other functions, and outside_reason to the reason. E_NOMEM.
 */
int callees_find(struct ir_function *kernel, struct proton_error *err);
void callees_free(struct callees *callees);

/* A line that defines or calls a function: "[RESULT = ]BEFORE TYPE @NAME(ARGUMENTS)AFTER". */
struct ir_signature {
	struct slice result; /* "%12" */
	struct slice before; /* keywords and attributes, including those of the return value */
	struct slice type;
	struct slice name; /* with "@" */
	struct slice arguments;
	struct slice after;
};

/* Parses the line; `at` is at the "@" of the function name. False if it cannot be parsed. */
bool ir_signature_read(struct slice line, const char *at, struct ir_signature *out);

/* Writes BEFORE without attributes of the return value, which do not fit the new type. */
void ir_signature_before(const struct ir_signature *signature, struct out *out);
/* Writes the arguments without attributes that no longer hold. */
void ir_signature_arguments(const struct ir_signature *signature, struct out *out);

#endif
