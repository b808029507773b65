/*
 * Where in the source the lines of a function are from, going by its debug locations: LLVM IR names
 * a place ("!dbg !7"), and behind the functions says what it is
 * ("!7 = !DILocation(line: 3, column: 9, scope: !4, inlinedAt: !5)").
 */
#ifndef INTRA_LLVM_DEBUG_LOC_H
#define INTRA_LLVM_DEBUG_LOC_H

#include <stdbool.h>
#include <stdint.h>

#include "intra/llvm/ir_function.h"

struct debug_lines {
	const struct ir_function *function;
	uint32_t *first; /* by place: one that stands for all of its line, plus 1; 0: unknown */
};

/* False: out of memory; to be ended all the same. */
bool debug_lines_init(struct debug_lines *sources, const struct ir_function *function);
void debug_lines_fini(struct debug_lines *sources);

/* The place that a line of the function is of, as a number; IR_NAME_NONE. */
uint32_t debug_loc_of(const struct ir_function *function, uint32_t line);
/*
 * The same for all places of one line of the source: a load and the addition of what it loads have
 * different columns.
 */
uint32_t debug_line_of(const struct debug_lines *sources, uint32_t line);

#endif
