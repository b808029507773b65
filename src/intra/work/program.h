/*
 * A kernel in TTIR, the first of Triton's dialects, as operations on numbered values. TTIR has the
 * operations of the source; TTGIR has copies of them, which the pipeliner made.
 */
#pragma once

#include "base/err.h"
#include "base/slice.h"
#include "intra/work/affine.h"

#define PROGRAM_NO_LINE UINT32_MAX
#define PROGRAM_NO_VALUE UINT32_MAX

enum program_op {
#define OP(name, names) OP_##name,
#include "intra/work/operations.def"
#undef OP
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
	uint32_t value_count;
	struct program_type *parameters; /* their values are the first ones */
	uint32_t parameter_count;
};

/* E_UNSUPPORTED for text that is not formatted as MLIR prints it, or has no kernel; E_NOMEM. */
int program_read(struct slice text, struct program *out, struct proton_error *err);
void program_fini(struct program *program);
