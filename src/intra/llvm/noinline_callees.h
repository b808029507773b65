/*
 * Callees: functions that stay out of line (Triton's noinline) and have markers, or call some that
 * have. A callee is given the ring's use by its caller as one parameter more and returns the new
 * one beside its value. So its signature and every call of it are rewritten, which asks for a
 * function that is called from this module only, and by name.
 */
#ifndef INTRA_LLVM_NOINLINE_CALLEES_H
#define INTRA_LLVM_NOINLINE_CALLEES_H

#include "base/buf.h"
#include "base/err.h"
#include "intra/llvm/ir_function.h"

/*
 * Finds and reads the callees of the kernel's module, and leaves in outside_markers those of
 * functions that cannot be callees, with a sentence in outside_reason. E_NOMEM.
 */
int callees_find(struct ir_function *kernel, struct proton_error *err);
void callees_free(struct callees *callees);

/* A line that defines or calls a function: "[RESULT = ]BEFORE TYPE @NAME(ARGUMENTS)AFTER". */
struct ir_signature {
	struct slice result; /* "%12" */
	struct slice before; /* words, attributes of what is returned among them */
	struct slice type;
	struct slice name; /* with "@" */
	struct slice arguments;
	struct slice after;
};

/* Takes apart the line, which has the name `name` at `at`; false for what is not understood. */
bool ir_signature_read(struct slice line, const char *at, struct ir_signature *out);

/* BEFORE without the attributes of what is returned: they do not fit the new type. */
void ir_signature_before(const struct ir_signature *signature, struct out *out);
/* The arguments without what holds no longer. */
void ir_signature_arguments(const struct ir_signature *signature, struct out *out);

#endif
