/*
 * Source lines of PTX text: its .loc directives, and the inlined calls in the comments that LLVM
 * writes after them, as in "// k.py:6:18 @[ k.py:10:16 @[ k.py:23:20 ] ]".
 */
#pragma once

#include "symbol/line_frames.h"

struct ptx_line {
	uint32_t line;  /* number of the line of PTX, 1 first; its instructions follow */
	uint32_t frame; /* 0: the calls are unknown */
};

struct ptx_lines {
	struct ptx_line *lines; /* by line */
	size_t count;
	uint32_t *by_source; /* indexes of lines with a frame, by file, line and caller */
	size_t source_count;
};

/* PROTON_E_NOMEM is the only error. */
int ptx_lines_read(struct ptx_lines *ptx, const char *text, size_t length,
		   struct line_frames *frames);
void ptx_lines_fini(struct ptx_lines *ptx);

/* The frame of the instruction in this line of PTX; 0: none. */
uint32_t ptx_lines_at(const struct ptx_lines *ptx, uint32_t line);
/*
 * The frame of all instructions of a source line: 0 if there is none, or they were inlined into
 * different calls. Its column is 0 if they have different ones.
 */
uint32_t ptx_lines_of(const struct ptx_lines *ptx, const char *file, uint32_t line,
		      struct line_frames *frames);
