/* Evaluating a kernel for a launch: shared by control flow and counting. */
#ifndef INTRA_WORK_RUN_H
#define INTRA_WORK_RUN_H

#include "intra/work/footprint.h"
#include "intra/work/values.h"
#include "intra/work/work.h"

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

#endif
