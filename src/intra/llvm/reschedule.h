/*
 * Rescheduling around markers, to keep the schedule that the kernel has without them. A kernel
 * computes its next addresses while it waits for dots or copies, because ptxas moves that
 * arithmetic there. But ptxas moves nothing across a clock read. With a marker after a wait, the
 * arithmetic would start only after the wait, which costs more than the records. So inside loops,
 * integer and pointer arithmetic that follows a marker placed after a wait, and does not depend on
 * the wait, is moved before the wait. Arithmetic that follows a second wait stays, and so do
 * predicates that nothing moved needs, because a thread has few. After loops all stays: the
 * one-time gain is not worth the registers for all addresses of an epilogue during the last dots.
 *
 * In the other direction, operand fragments loaded right before a marker are moved after it, to the
 * dots that use them, where ptxas puts them without a marker. Loaded all at once they need many
 * registers. They stay if nothing else is between two markers, because then they are what is
 * measured. The same applies to the dot of fp32 values, which is plain arithmetic: its loads and
 * the part that LLVM moved before the start of its scope are moved after it.
 *
 * A dot of sm_90 runs while its warp continues. Its operands in registers are scaled and converted
 * before the marker of its start, and its results scaled after the marker of its end, because ptxas
 * fills the waits of other arithmetic with that.
 *
 * Measured on an H200: without this step a three-stage matmul with two scopes in its loop lost 6.9
 * % of its speed; see docs/design/intra-kernel-pass.md.
 */
#ifndef INTRA_LLVM_RESCHEDULE_H
#define INTRA_LLVM_RESCHEDULE_H

#include <stddef.h>

#include "base/err.h"
#include "intra/llvm/ir_function.h"

/*
 * *text_out is the rescheduled text (malloc'd, terminated), or NULL if nothing moves. Unnamed
 * values get names, because LLVM numbers them in text order. E_NOMEM.
 */
int reschedule(const struct ir_function *function, char **text_out, size_t *length_out,
	       struct proton_error *err);

#endif
