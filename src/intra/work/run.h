/* Evaluating a kernel for a launch: values, control flow and counting. */
#pragma once

#include "intra/work/program.h"
#include "intra/work/work.h"

/* ------------------------------------------------------------------ values */

enum value_kind {
	VALUE_UNKNOWN, /* data */
	VALUE_NUMBER,
	VALUE_POINTER, /* `form` bytes after the argument */
	VALUE_MASK,    /* true where none of the bounds is negative */
	VALUE_DESCRIPTOR,
};

struct value {
	enum value_kind kind;
	uint32_t argument; /* a pointer's; a descriptor's first operand */
	uint32_t bound_count;
	union {
		struct affine form;
		struct affine bounds[AFFINE_BOUNDS];
	};
};

/* Copies what is in use, which is mostly one of the forms. */
static inline void value_copy(struct value *to, const struct value *from)
{
	uint32_t forms = from->kind == VALUE_MASK ? from->bound_count : 1;

	memmove(to, from, offsetof(struct value, bounds) + forms * sizeof(struct affine));
}

struct evaluation {
	const struct program *program;
	struct value *values;
	struct atom_sizes sizes;
	int64_t grid[3];
	/* atoms that something other than a sum depends on */
	uint64_t needed;
	bool has_no_tiles; /* does not need atoms where a tensor's position stays in it */
};

/* The value of an operand; unknown if it is missing. */
const struct value *operand_of(const struct evaluation *evaluation, const struct program_line *line,
			       uint32_t number);
void value_set_number(struct value *value, int64_t number);
/* 1, 0; -1: unknown. Adds to `needed` what it depends on. */
int value_is_true(struct evaluation *evaluation, const struct value *value);
/* The value as a mask; false if it is unknown. */
bool value_as_mask(const struct value *value, struct value *out);
/* Adds the bounds of a mask to another. False if there are too many. */
bool mask_and(struct value *mask, const struct value *more);
/* Evaluates an operation without effects. Its result is the value of the line's first result. */
void value_compute(struct evaluation *evaluation, const struct program_line *line);

/* ------------------------------------------------------------------ runs */

struct run {
	struct evaluation evaluation;
	const struct program *program;
	struct work *work;
	bool *is_single; /* by line: the loop's iterations are evaluated one by one */
	/* by atom: the loop's line */
	uint32_t loop_lines[ATOM_COUNT];
	uint32_t loop_depth;
	uint32_t carried_count;
	uint32_t single_axes;  /* bits: programs along these are evaluated one by one */
	uint64_t active;       /* atoms that what is evaluated now is repeated for */
	uint32_t branch_count; /* branches of this program that depend on data */
	uint32_t unsure;       /* conditions around it that depend on data */
	uint32_t unbounded;    /* loops around it that run unknown times */
	uint32_t muted;        /* loops of which only the change per iteration is evaluated */
	uint64_t steps;        /* that are left */
	uint32_t yielded;      /* line of the last scf.yield, scf.condition */
	struct footprint *footprints; /* of loads and stores by argument */
	bool is_footprint_unknown[2];
	int64_t programs[3]; /* the current one, along axes that are evaluated one by one */
	bool is_restarted;
	bool is_out_of_memory;
};

/* Adds what one operation does. */
void count_operation(struct run *run, const struct program_line *line);
/* Adds to everything an unknown amount. */
void count_anything(struct run *run);
