/*
 * Hoisting of vectorized float arithmetic back to the values it uses. LLVM pairs additions of an
 * unrolled loop into vectors and puts chains of them at the end of the block, after all markers.
 * ptxas moves nothing across a clock read, so all loaded values stay in registers until then.
 *
 * Work that a scope measures must not leave it, so evidence is required. An operation moves only if
 * its region (between two groups of markers) has a chain of vector operations with its debug
 * location, and if the region it moves to has both a value that it uses and another instruction of
 * the same source line. Operations do not change, so results are bit-identical.
 *
 * Not done for every kernel, because then a scope waits for the loads in it. Whether it pays is
 * decided by what the assembler makes of both texts; see docs/design/intra-kernel-pass.md.
 */
#ifndef INTRA_LLVM_HOIST_H
#define INTRA_LLVM_HOIST_H

#include <stddef.h>

#include "base/err.h"
#include "intra/llvm/ir_function.h"

/* *text_out is the text with hoisted lines (malloc'd), or NULL if there are none. E_NOMEM. */
int hoist(const struct ir_function *function, char **text_out, size_t *length_out,
	  struct proton_error *err);

#endif
