/*
 * Keeping a kernel's work where it was: a kernel computes its next addresses while it waits (for
 * its matrix products, for its copies), because the assembler moves them there. It moves nothing
 * across a reading of the clock; a marker behind a wait would leave that work undone until the
 * wait is over, and the kernel would slow down by more than the records cost. So integer and
 * pointer arithmetic in loops that follows a marker behind a wait, and needs nothing the wait
 * gives, is put before the wait in the text. Behind loops it stays: what is gained once is not
 * worth the registers that all the addresses of an epilogue take while its last products are
 * waited for.
 *
 * And the other way: fragments of matrices that are fetched right before a marker go behind it, to
 * the products that take them, where ptxas has them without a marker. All at once they need many
 * registers. Not if they are all that lies between two markers: then they are what is measured.
 *
 * Measured on an H200: a matrix product of three stages with two scopes in its loop lost 6.9 % of
 * its time before; docs/design/intra-kernel-pass.md has the rest.
 */
#ifndef INTRA_LLVM_RESCHEDULE_H
#define INTRA_LLVM_RESCHEDULE_H

#include <stddef.h>

#include "base/err.h"
#include "intra/llvm/ir_function.h"

/*
 * *text_out is the text with such lines moved (malloc'd, terminated), or NULL if there are none.
 * Values without a name get one, for LLVM counts those in the order of the text. E_NOMEM.
 */
int reschedule(const struct ir_function *function, char **text_out, size_t *length_out,
	       struct proton_error *err);

#endif
