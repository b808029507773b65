/*
 * Verification of the pass's output: in each function, each name of the form %proton.NAME is
 * defined exactly once, and every used one is defined. Triton passes the text to LLVM, which aborts
 * the process on such an error.
 */
#ifndef INTRA_LLVM_VERIFY_NAMES_H
#define INTRA_LLVM_VERIFY_NAMES_H

#include <stddef.h>

#include "base/err.h"

/* E_UNSUPPORTED with the name, E_NOMEM. */
int verify_names(const char *text, size_t length, struct proton_error *err);

#endif
