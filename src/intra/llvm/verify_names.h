/*
 * What the pass has written, looked at once more: in each function, each of our names is defined
 * once, and what is used is defined. Triton hands the text to LLVM, which ends the whole program
 * over such a mistake, so it must not get there.
 */
#ifndef INTRA_LLVM_VERIFY_NAMES_H
#define INTRA_LLVM_VERIFY_NAMES_H

#include <stddef.h>

#include "base/err.h"

/* E_UNSUPPORTED with the name, E_NOMEM. */
int verify_names(const char *text, size_t length, struct proton_error *err);

#endif
