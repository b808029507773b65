/* Signatures of LLVM IR functions, in their definitions and calls. */
#ifndef INTRA_LLVM_IR_SIGNATURE_H
#define INTRA_LLVM_IR_SIGNATURE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/slice.h"

/* A line that defines or calls a function: "[RESULT = ]BEFORE TYPE @NAME(ARGUMENTS)AFTER". */
struct ir_signature {
	struct slice result; /* "%12" */
	struct slice before; /* keywords and attributes, also the return value's */
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
