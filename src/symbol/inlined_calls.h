/*
 * Inlined calls of a code object, from its .debug_info: LLVM stores the code of each inlined call,
 * and where the call is. Triton gives every inlined function the kernel's name.
 */
#pragma once

#include "symbol/code_object.h"
#include "symbol/line_table.h"

struct inlined_call {
	const char *function; /* inlined, mangled; borrowed from the code object; NULL: unknown */
	uint64_t lines;       /* offset of the unit in .debug_line */
	uint64_t file;        /* number in that unit */
	uint32_t line, column;
	uint32_t caller; /* index + 1 of the call that it is inside of; 0: the function itself */
};

/* Code from `begin` to the next segment. */
struct segment {
	uint64_t begin; /* in the section */
	uint32_t section;
	uint32_t value; /* a frame, a line of PTX, an inlined call; 0: none */
	enum line_info info;
};

struct segments {
	struct segment *segments; /* by section and begin */
	size_t count;
};

struct inlined_calls {
	struct inlined_call *calls; /* after their callers */
	size_t count;
	struct segments ranges; /* index + 1 of the innermost call */
	bool is_known;          /* the code object has .debug_info, so other code is not inlined */
};

/* PROTON_E_NOMEM is the only error. */
int inlined_calls_read(struct inlined_calls *calls, const struct code_object *object);
void inlined_calls_fini(struct inlined_calls *calls);
