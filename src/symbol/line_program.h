/*
 * Line programs of DWARF 2 to 5, as NVIDIA's assembler and LLVM write them: .debug_line, and a
 * cubin's .nv_debug_line_sass, which has lines of the PTX. A cubin has one sequence of rows per
 * function; its start is relocated. An AMD code object has virtual addresses.
 */
#pragma once

#include "symbol/code_object.h"
#include "symbol/line_frames.h"

struct line_row {
	uint64_t address; /* in the section */
	const char *file; /* from line_frames_text(); NULL: none */
	const char
		*function; /* inlined function, borrowed from the code object; NULL: not inlined */
	uint32_t section;  /* where the code is; 0: unknown */
	uint32_t line, column;
	uint32_t caller; /* index + 1 of an earlier row, the call; 0: not inlined */
	bool is_end;     /* the first address after a sequence */
};

/* A directory, or a file. */
struct line_name {
	const char *name;   /* borrowed from the code object */
	const char *path;   /* a file's, joined; NULL: not needed yet */
	uint64_t directory; /* a file's */
};

/* The names of a unit of the section. */
struct line_unit {
	uint64_t offset; /* in the section */
	size_t first_directory, directory_count;
	size_t file_count; /* after the directories */
};

struct line_rows {
	struct line_row *rows;
	size_t count;
	struct line_name *names; /* of all units */
	size_t name_count;
	struct line_unit *units; /* by offset */
	size_t unit_count;
	bool has_calls; /* the compiler stores calls that were inlined */
};

/* Reads section `name`. No rows if there is none. PROTON_E_NOMEM is the only error. */
int line_rows_read(struct line_rows *rows, const struct code_object *object, const char *name,
		   struct line_frames *frames);
/*
 * The path of file `number` of the unit at `offset`, while the code object is open. NULL: there is
 * none, or out of memory.
 */
const char *line_rows_path(struct line_rows *rows, uint64_t offset, uint64_t number,
			   struct line_frames *frames);
void line_rows_fini(struct line_rows *rows);
