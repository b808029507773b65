/*
 * The kernel in a text of LLVM IR, as far as instrumentation needs to know it: its lines, its
 * blocks and how they follow each other, and where the markers are; and its callees, functions that
 * stay out of line and have markers or call some that have (noinline_callees.h).
 *
 * LLVM prints one instruction a line (a switch takes several), labels at the beginning of a line
 * and "}" alone behind the last block; nothing else is relied on. What is not understood makes
 * the kernel one that cannot be instrumented, never one that is instrumented wrongly.
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
	bool follows; /* nothing but markers lies between it and the one before it in its block */
};

/*
 * A basic block; or a part of one, for a call of a callee ends a block here: what is behind it is a
 * block of its own that has the same label.
 */
struct ir_block {
	struct slice label;  /* without "%" and ":" */
	uint32_t first_line; /* behind the label */
	uint32_t end_line;   /* behind the last instruction */
	uint32_t first_marker;
	uint32_t marker_count;
	uint32_t first_successor; /* index into successors; twice where two edges lead there */
	uint32_t successor_count;
	uint32_t callee; /* that its last instruction calls; IR_NAME_NONE */
	bool continues;  /* begins behind the call that ends the block before it */
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
	struct ir_marker *markers; /* in the order of the text */
	uint32_t marker_count;
	uint32_t outside_markers; /* in functions that are neither the kernel nor a callee */
	char outside_reason[IR_REASON_MAX]; /* why not, of the first of those functions */
	struct callees *callees;            /* NULL: none; owned by the kernel */
	/* Of a callee: */
	bool is_callee;
	struct slice name; /* without "@" */
	uint32_t entry_number;
	struct slice return_type;
};

struct callees {
	struct ir_function *functions; /* in the order of the text; their lines are the kernel's */
	uint32_t count;
	struct callee_call *calls; /* of them, by line */
	uint32_t call_count;
	struct ir_names scopes; /* that they have markers of */
};

/*
 * Reads `text`, which must stay while `function` is used. A text without any marker gives
 * marker_count and outside_markers 0 and nothing else. E_UNSUPPORTED with a sentence for what
 * cannot be instrumented, E_NOMEM.
 */
int ir_function_read(const char *text, size_t length, struct ir_function *function,
		     struct proton_error *err);
void ir_function_fini(struct ir_function *function);

/*
 * For noinline_callees.c: finds the blocks and markers between define_line and end_line. The calls
 * are sorted by line; those in the function end blocks.
 */
int ir_function_read_body(struct ir_function *function, const struct callee_call *calls,
			  uint32_t call_count, struct proton_error *err);

/*
 * The number LLVM gives the entry block where it prints no label for it: the one behind the unnamed
 * parameters.
 */
uint32_t ir_function_entry_number(const struct ir_function *function);

/* What a name may be made of unless it is quoted. */
bool ir_is_name_char(char c);
/* The name at `at`, plain or quoted, quotes included; empty if there is none. */
struct slice ir_name_at(const char *at, const char *end);
/* The next "%name" of the line from *at on, outside quotes; length 0 when there is none. */
struct slice ir_next_name(struct slice line, const char **at);
/* True for a line of a function that is neither blank, nor a comment, nor a debug record. */
bool ir_is_instruction(struct slice line);
/* A line of a function may be one: then `out` has everything but `follows`. */
bool ir_marker_of(struct slice line, struct ir_marker *out);

#endif
