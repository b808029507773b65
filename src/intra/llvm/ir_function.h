/*
 * LLVM IR functions: the basic blocks, control flow and markers of the kernel or of an instrumented
 * callee (noinline_callees.h).
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
#include "intra/llvm/ir_text.h"

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

/* A call that ends a block. */
struct ir_call {
	uint32_t line;
	uint32_t callee;
};

struct callees;

#define IR_REASON_MAX 192u

struct ir_function {
	struct slice *lines; /* of the whole text, without newlines */
	uint32_t line_count;
	uint32_t define_line;
	uint32_t end_line; /* of the "}" */
	bool is_amd;
	bool entry_has_label;
	struct slice last_parameter; /* "%5" */
	uint32_t parameter_count;
	struct ir_block *blocks; /* the first is the entry */
	uint32_t block_count;
	uint32_t *successors;
	uint32_t successor_count;
	struct ir_marker *markers; /* in text order */
	uint32_t marker_count;
	/* lines with markers that cannot be parsed, and the first of them */
	uint32_t unknown_markers;
	uint32_t unknown_line;
	/* in functions that are neither the kernel nor instrumented callees */
	uint32_t outside_markers;
	/* why the first of those functions cannot be instrumented */
	char outside_reason[IR_REASON_MAX];
	struct callees *callees; /* of the kernel; NULL: none */
	/* Of a callee: */
	bool is_callee;
	struct slice name; /* without "@" */
	uint32_t entry_number;
	struct slice return_type;
};

/*
 * Finds the blocks and markers between define_line and end_line. `calls` is sorted by line; those
 * in this function end blocks. E_UNSUPPORTED, E_NOMEM; the caller calls ir_function_fini() in any
 * case.
 */
int ir_function_read_body(struct ir_function *function, const struct ir_call *calls,
			  uint32_t call_count, struct proton_error *err);
/* Frees what ir_function_read_body() allocated. */
void ir_function_fini(struct ir_function *function);

/*
 * The number that LLVM gives to an entry block without a label: it follows the unnamed parameters.
 */
uint32_t ir_function_entry_number(const struct ir_function *function);

/* False if types are named by number, which look like unnamed values. */
bool ir_function_can_rename(const struct ir_function *function);
/*
 * Writes a line to a text in another order. Unnamed values of the function get names, because
 * LLVM numbers them in text order; ir_function_can_rename() must be true.
 */
void ir_function_write_line(const struct ir_function *function, uint32_t line, struct out *out);
/* Writes the label of a block as an operand. */
void ir_function_write_label(const struct ir_function *function, struct out *out, uint32_t block);

#endif
