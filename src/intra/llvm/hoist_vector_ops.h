/*
 * Hoisting of vectorized float arithmetic back between markers. LLVM's SLP vectorizer pairs float
 * additions with the same debug location into vectors. It may put chains of them at the end of a
 * block, after all markers of an unrolled loop. ptxas would move them back to the loads that they
 * consume, but it moves nothing across a clock read. Then all loaded values stay in registers until
 * the end: a row sum takes 72 registers instead of 32.
 *
 * A chain is an operation and a user of it with the same debug location, after the same marker. Its
 * operations, with the instructions that pack their operands, are hoisted to the region between
 * markers where the last operand is defined. Required evidence: another instruction of the same
 * source line, such as the load or a scalar remainder, is in that region. Without it nothing moves,
 * because the operation may be the work that a scope measures. Nothing moves that would keep more
 * registers alive. Operations do not change, so results are bit-identical.
 */
#ifndef INTRA_LLVM_HOIST_VECTOR_OPS_H
#define INTRA_LLVM_HOIST_VECTOR_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "intra/llvm/ir_function.h"

/* Hoisted lines by destination. Each number is a line plus 1, or 0. */
struct hoist_vector_ops {
	uint32_t first; /* first line that moves before this one */
	uint32_t last;
	uint32_t next; /* next line with the same destination */
};

/*
 * `moves` has each line's destination if reschedule.c moves it: the line it moves before, plus 1; 0
 * if it stays. Hoisted lines are added. *hoists_out has an element per line (malloc'd), or is NULL
 * if nothing is hoisted. False if out of memory.
 */
bool hoist_vector_ops(const struct ir_function *function, uint32_t *moves,
		      struct hoist_vector_ops **hoists_out);

#endif
