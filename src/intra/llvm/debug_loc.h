/*
 * Debug locations of LLVM IR instructions. An instruction refers to its location by number ("!dbg
 * !7"); metadata after the functions defines it ("!7 = !DILocation(line: 3, column: 9, scope: !4,
 * inlinedAt: !5)").
 */
#ifndef INTRA_LLVM_DEBUG_LOC_H
#define INTRA_LLVM_DEBUG_LOC_H

#include <stdbool.h>
#include <stdint.h>

#include "intra/llvm/ir_function.h"

struct debug_lines {
	const struct ir_function *function;
	/* by location: one location that represents its source line, plus 1; 0: unknown */
	uint32_t *first;
};

/* False if out of memory; debug_lines_fini() must be called in either case. */
bool debug_lines_init(struct debug_lines *sources, const struct ir_function *function);
void debug_lines_fini(struct debug_lines *sources);

/* The number of the instruction's debug location, or IR_NAME_NONE. */
uint32_t debug_loc_of(const struct ir_function *function, uint32_t line);
/*
 * The same for the source line: all locations of one line give one number. A load and the addition
 * of its result have different columns.
 */
uint32_t debug_line_of(const struct debug_lines *sources, uint32_t line);

#endif
