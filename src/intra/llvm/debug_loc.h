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

struct llvm_sources {
	const struct llvm_function *function;
	uint32_t *first; /* by place: one that stands for all of its line, plus 1; 0: unknown */
};

/* False: out of memory; to be ended all the same. */
bool llvm_sources_init(struct llvm_sources *sources, const struct llvm_function *function);
void llvm_sources_fini(struct llvm_sources *sources);

/* The place that a line of the function is of, as a number; NAME_NONE. */
uint32_t llvm_place_of(const struct llvm_function *function, uint32_t line);
/*
 * The same for all places of one line of the source: a load and the addition of what it loads have
 * different columns.
 */
uint32_t llvm_source_of(const struct llvm_sources *sources, uint32_t line);

#endif
