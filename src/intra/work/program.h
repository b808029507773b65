/*
 * A kernel in TTIR, the first of Triton's dialects, as operations on numbered values. TTIR has the
 * operations of the source; TTGIR has copies of them, which the pipeliner made.
 */
#ifndef INTRA_WORK_PROGRAM_H
#define INTRA_WORK_PROGRAM_H

#include "base/err.h"
#include "base/slice.h"
#include "intra/work/affine.h"

#define PROGRAM_NO_LINE UINT32_MAX
#define PROGRAM_NO_VALUE UINT32_MAX

enum program_op {
	OP_NONE,  /* nothing to do */
	OP_OTHER, /* its results are unknown */
	OP_CONSTANT,
	OP_PROGRAM_ID,
	OP_PROGRAM_COUNT,
	OP_RANGE,
	OP_SAME,
	OP_EXPAND,
	OP_TRANSPOSE,
	OP_RESHAPE,
	OP_ADD_POINTER,
	OP_ADD,
	OP_SUB,
	OP_MUL,
	OP_DIV,
	OP_FLOOR_DIV,
	OP_CEIL_DIV,
	OP_REM,
	OP_MIN,
	OP_MAX,
	OP_AND,
	OP_OR,
	OP_XOR,
	OP_SHIFT_LEFT,
	OP_SHIFT_RIGHT,
	OP_COMPARE,
	OP_SELECT,
	OP_LOAD,
	OP_STORE,
	OP_ATOMIC,
	OP_DESCRIPTOR,
	OP_DESCRIPTOR_LOAD,
	OP_DESCRIPTOR_STORE,
	OP_DESCRIPTOR_REDUCE,
	OP_DOT,
	OP_REDUCE,
	OP_SCAN,
	OP_FOR,
	OP_WHILE,
	OP_IF,
	OP_CONDITION,
	OP_YIELD,
	OP_LABEL,
	OP_BRANCH,
	OP_BRANCH_IF,
	OP_RETURN,
	OP_ASSEMBLY, /* arithmetic of an unknown amount */
	OP_UNKNOWN,  /* with unknown effects: a call, assembly, a new operation */
};

struct program_type {
	uint32_t rank;
	int64_t shape[TILE_RANK];
	uint32_t bits; /* per element, or element pointed to */
	bool is_pointer;
	bool is_float;
	bool is_descriptor;
	uint32_t parts; /* if it is a descriptor's parameter: operands */
};

/* One for each line of the text. */
struct program_line {
	enum program_op op;
	uint32_t first_operand; /* in program.operands */
	uint32_t operand_count;
	uint32_t first_result; /* results are adjacent */
	uint32_t result_count;
	uint32_t end;  /* last line of the region; if it has two blocks, of the second */
	uint32_t next; /* line between the two blocks; else `end` */
	struct program_type types[2]; /* first operand; second one, or result */
	int64_t number;               /* a constant, an axis, an order, a line */
	int64_t other;
	bool is_known; /* the constant is a number */
	double flops;  /* per element of types[0] */
};

struct program {
	struct program_line *lines;
	uint32_t line_count;
	uint32_t body; /* first line of the kernel */
	uint32_t end;
	uint32_t *operands;
	size_t operand_count;
	size_t operand_capacity;
	uint32_t value_count;
	struct program_type *parameters; /* their values are the first ones */
	size_t parameter_capacity;
	uint32_t parameter_count;
};

/* E_UNSUPPORTED for text that is not formatted as MLIR prints it, or has no kernel; E_NOMEM. */
int program_read(struct slice text, struct program *out, struct proton_error *err);
void program_fini(struct program *program);

#endif
