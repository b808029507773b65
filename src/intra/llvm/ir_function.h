/*
 * LLVM IR functions: the lines, basic blocks, control flow and markers of the kernel and of its
 * instrumented callees (noinline_callees.h).
 *
 * LLVM prints one instruction per line (a switch takes several), a label at the beginning of a
 * line, and "}" alone after the last block. The parser relies on nothing else. A kernel that cannot
 * be parsed is not instrumented.
 */
#ifndef INTRA_LLVM_IR_FUNCTION_H
#define INTRA_LLVM_IR_FUNCTION_H

#include <stdint.h>

#include "base/err.h"
#include "intra/llvm/ir_names.h"
#include "intra/marker.h"

#define IR_REASON_MAX 192u

struct ir_marker {
	uint32_t line;
	struct slice result; /* "%12" */
	struct marker marker;
	/* no instruction except markers between it and the previous marker of its block */
	bool follows;
};

/*
 * A basic block, or a part of one: a call of an instrumented callee ends a block here, and the rest
 * is another block with the same label.
 */
struct ir_block {
	struct slice label;  /* without "%" and ":" */
	uint32_t first_line; /* after the label */
	uint32_t end_line;   /* after the last instruction */
	uint32_t first_marker;
	uint32_t marker_count;
	/* index into successors; a block is listed twice if two edges lead to it */
	uint32_t first_successor;
	uint32_t successor_count;
	uint32_t callee; /* callee of its last instruction, or IR_NAME_NONE */
	bool continues;  /* begins after the call that ends the previous block */
	bool is_return;
};

struct callee_call {
	uint32_t line;
	uint32_t callee;
};

struct ir_function {
	struct slice *lines; /* of the whole text, without newlines */
	uint32_t line_count;
	uint32_t define_line;
	uint32_t end_line; /* of the "}" */
	bool is_amd;
	bool entry_has_label;
	struct slice last_parameter; /* "%5" */
	struct ir_block *blocks;     /* the first is the entry */
	uint32_t block_count;
	uint32_t *successors;
	uint32_t successor_count;
	struct ir_marker *markers; /* in text order */
	uint32_t marker_count;
	/* in functions that are neither the kernel nor instrumented callees */
	uint32_t outside_markers;
	/* why the first of those functions cannot be instrumented */
	char outside_reason[IR_REASON_MAX];
	struct callees *callees; /* NULL: none; owned by the kernel */
	/* Of a callee: */
	bool is_callee;
	struct slice name; /* without "@" */
	uint32_t entry_number;
	struct slice return_type;
};

struct callees {
	struct ir_function *functions; /* in text order; their lines are the kernel's */
	uint32_t count;
	struct callee_call *calls; /* calls of them, by line */
	uint32_t call_count;
	struct ir_names scopes; /* scopes that have markers in them */
};

/*
 * Parses `text`, which `function` refers to. If there are no markers, only marker_count and
 * outside_markers are set, to 0. E_UNSUPPORTED with an error message if the kernel cannot be
 * instrumented, E_NOMEM.
 */
int ir_function_read(const char *text, size_t length, struct ir_function *function,
		     struct proton_error *err);
void ir_function_fini(struct ir_function *function);

/*
 * For noinline_callees.c: finds the blocks and markers between define_line and end_line. `calls` is
 * sorted by line; those in this function end blocks.
 */
int ir_function_read_body(struct ir_function *function, const struct callee_call *calls,
			  uint32_t call_count, struct proton_error *err);

/*
 * The number that LLVM gives to an entry block without a label: it follows the unnamed parameters.
 */
uint32_t ir_function_entry_number(const struct ir_function *function);

/* True for characters of an unquoted name. */
bool ir_is_name_char(char c);
/* The name at `at`, plain or quoted, including the quotes; empty if there is none. */
struct slice ir_name_at(const char *at, const char *end);
/* The next "%name" of the line from *at, outside quotes; length 0 if there is none. */
struct slice ir_next_name(struct slice line, const char **at);
/* True for a line of a function that is not blank, a comment or a debug record. */
bool ir_is_instruction(struct slice line);
/* Parses a line as a marker; sets all of `out` but `follows`. */
bool ir_marker_of(struct slice line, struct ir_marker *out);

#endif
