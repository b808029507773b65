/*
 * Line table of machine code: the source lines of an instruction, with the calls that were inlined.
 *
 * A table is made from the bytes of a cubin or an AMD code object, and owns all it returns. It
 * cannot change, so any number of threads may read it. Input is untrusted; memory is proportional
 * to its size. Lookups are binary searches.
 *
 * The calls of AMD code are in its .debug_info. A cubin's calls are in its line program, where the
 * compiler has stored them (Triton 3.8 and later). Older cubins have only the innermost line. The
 * PTX of Triton 3.6 and 3.7 has the calls in comments, but is not in the cubin: the recorder has to
 * keep it.
 *
 *	struct line_run run;
 *
 *	if (line_table_run(table, line_table_function(table, "kernel"), pc, &run)) {
 *		for (uint32_t f = run.frame; f; f = line_table_frame(table, f)->caller)
 *			... line_table_frame(table, f)->file, ->line ...
 *	}
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define LINE_FUNCTION_NONE UINT32_MAX

/* How much is known about an instruction. */
enum line_info {
	LINE_INFO_NONE,      /* no line */
	LINE_INFO_INNERMOST, /* the line, but not whether it was inlined, and where */
	LINE_INFO_CALLS,     /* the line and all calls up to the function */
};

/* A line, and the call that it was inlined into. Equal chains have equal numbers. */
struct line_frame {
	const char *file;     /* path, as the compiler wrote it */
	const char *function; /* inlined function, mangled; NULL: unknown, or not inlined */
	uint32_t line;        /* from 1; 0: the compiler has made it */
	uint32_t column;      /* from 1; 0: unknown */
	uint32_t caller;      /* frame of the call; 0: the line is in the function itself */
};

/* Instructions of a function, next to each other, with the same frames. */
struct line_run {
	uint64_t begin, end; /* byte offsets from the start of the function */
	uint32_t frame;      /* innermost frame; 0: none */
	enum line_info info;
	/*
	 * The function that contains them, mangled: the kernel that was looked up, or a noinline
	 * function that the assembler has put after the kernel. It has the outermost line.
	 */
	const char *function;
};

struct line_table;

/*
 * `ptx` may be NULL. Neither needs to stay valid. PROTON_E_INVALID if the bytes are neither a cubin
 * nor an AMD code object. Without lines in it, the table has none. Only cubins have PTX.
 */
int line_table_open(const void *object, size_t length, const char *ptx, size_t ptx_length,
		    struct line_table **table_out, struct proton_error *err);
void line_table_close(struct line_table *table);

/* True if lines are known, but not their calls, which the PTX may have. */
bool line_table_wants_ptx(const struct line_table *table);
/* The function with this mangled name; LINE_FUNCTION_NONE: there is none. */
uint32_t line_table_function(const struct line_table *table, const char *name);
/*
 * The run that contains byte offset `pc` of a function. Offsets without a line are in runs too, so
 * pc = 0, then pc = run.end and so on give all runs. False after the function's end.
 */
bool line_table_run(const struct line_table *table, uint32_t function, uint64_t pc,
		    struct line_run *run_out);
/* A frame of this table by its number, not 0. */
const struct line_frame *line_table_frame(const struct line_table *table, uint32_t frame);
/* Frames are numbered from 1 to this. */
uint32_t line_table_frame_count(const struct line_table *table);
