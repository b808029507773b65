/* Lines of LLVM IR: names, instructions and markers in them, and tables of names. */
#pragma once

#include "base/err.h"
#include "base/hash.h"
#include "base/slice.h"
#include "intra/marker.h"

#define IR_RESULT_MAX 32u /* length of a marker's result; LLVM prints short numbers */

struct ir_marker {
	uint32_t line;
	struct slice result; /* "%12" */
	struct marker marker;
	/* no instruction except markers between it and the previous marker of its block */
	bool follows;
};

/* The name at `at`, plain or quoted, including the quotes; empty if there is none. */
struct slice ir_name_at(const char *at, const char *end);
/* True for the name of an unnamed value, "%12". */
bool ir_is_number(struct slice name);
/* The text after " = " of a line that defines a value; else empty. */
struct slice ir_operation_of(struct slice line);
/* True for a line of a function that is not blank, a comment or a debug record. */
bool ir_is_instruction(struct slice line);
/* True for the first line of a function. */
bool ir_is_define(struct slice line);
/* True for the last line of a function. */
bool ir_is_end(struct slice line);
/* Writes the text without the words. */
void ir_write_without(struct slice text, const char *const *words, size_t count, struct out *out);
/*
 * Parses a line as a marker, whatever keywords and attributes its call has; sets all of `out` but
 * `line` and `follows`.
 */
bool ir_marker_of(struct slice line, struct ir_marker *out);
/* True if the line has assembly text with a marker, but ir_marker_of() cannot parse it. */
bool ir_is_unknown_marker(struct slice line);
/* E_UNSUPPORTED: the line, counted from 0, cannot be parsed. */
int ir_parse_error(uint32_t line, struct proton_error *err);

#define IR_NAME_NONE UINT32_MAX

/* A table of names and their numbers. All zero: empty, without capacity. */
struct ir_names {
	struct hash_table index; /* by content; entry + 1 */
	struct ir_name {
		struct slice name;
		uint32_t number;
	} * names;
	uint32_t capacity;
};

/* Allocates space for `count` names. False if out of memory. */
bool ir_names_init(struct ir_names *map, uint32_t count);
/* The number of the name, or IR_NAME_NONE. */
uint32_t ir_names_find(const struct ir_names *map, struct slice name);
/* Adds a name, which is not copied. False if it exists already or there is no space. */
bool ir_names_add(struct ir_names *map, struct slice name, uint32_t number);
void ir_names_fini(struct ir_names *map);
