/*
 * Putting arithmetic on vectors back between the markers it came from: LLVM pairs additions of
 * floats of one place of the source into vectors (its SLP vectorizer), and may put chains of them
 * at the end of a block, behind all markers of an unrolled loop. The assembler would move them
 * back to the loads they consume, but not across a reading of the clock: all loaded values stay in
 * registers until the end, and a sum of rows takes 72 of them instead of 32.
 *
 * So where an operation and another one that consumes it are of one place of the source and behind
 * the same marker (that is what such a chain looks like), they move up, with what packs their
 * operands: to behind the marker where the last operand is made, if something of the same line of
 * the source is there too, such as the load or a scalar that was left over. That says that the
 * source has them there. Nothing without that evidence moves, for it may be the work that a scope
 * is about; nothing that would keep more registers alive does either. No operation changes, so
 * results stay the same to the bit.
 */
#ifndef INTRA_LLVM_HOIST_VECTOR_OPS_H
#define INTRA_LLVM_HOIST_VECTOR_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "intra/llvm/ir_function.h"

/* Of a line, each plus 1, 0 for none. */
struct hoist_vector_ops {
	uint32_t first; /* that moves before it */
	uint32_t last;
	uint32_t next; /* that moves to the same place as it does, behind it */
};

/*
 * `moves` says of each line where it moves anyway: before the line with that number, less 1; 0 if
 * it stays. What is hoisted is added. *hoists_out has an element per line (malloc'd), or is NULL if
 * nothing is. False: out of memory.
 */
bool hoist_vector_ops(const struct ir_function *function, uint32_t *moves,
		      struct hoist_vector_ops **hoists_out);

#endif
