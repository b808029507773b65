/*
 * Plan for sums: instead of a record per execution, a warp keeps the number of executions and the
 * sum of their cycles, per scope and position in the tree of scopes (layout.h). They are SSA
 * values, stored once at the kernel's end. A start subtracts the clock from the sum and an end adds
 * it, so nothing else is kept while a scope is open. Executions are counted per block.
 *
 * The shortest and the longest execution need a value each. If start and end are in different
 * blocks, the clock at the start is kept too.
 *
 * Which scopes are open may depend on the path, for example if a compiler has merged two loops into
 * one. Then there is one sum per scope, starts are counted too, and if the scope around another one
 * is uncertain, the executions inside it are counted.
 */
#pragma once

#include "intra/llvm/record_plan.h"

#define SUM_REASON_MAX 400u

/* Contents of a variable. */
enum sum_kind {
	SUM_CYCLES,  /* of sum `index` */
	SUM_COUNTER, /* executions of block `index` */
	SUM_OPEN,    /* open executions of sum `index`; a pipelined loop may have several */
	SUM_INSIDE,  /* executions of sum `index` that ended in the sum around it */
	SUM_BEGIN,   /* clock at the start of sum `index`; 0 outside of it */
	SUM_MIN,     /* the cycles of the shortest execution of sum `index` */
	SUM_MAX,     /* and of the longest one */
};

struct sum_variable {
	enum sum_kind kind;
	uint32_t index;
	uint32_t open; /* SUM_INSIDE: the variable SUM_OPEN of the enclosing sum */
};

struct sum_plan {
	const struct ir_function *function;
	const struct plan *plan;
	uint32_t *sums; /* by marker: index of its sum, or PLAN_NONE if it is unreachable */
	bool by_scope;
	bool has_extremes;               /* sums with several executions have them */
	bool begins[INSTRUMENT_SUM_MAX]; /* by sum: a variable SUM_BEGIN exists */
	/* The words that are stored, in this order; first one for each sum. */
	struct sum_variable *variables;
	uint32_t variable_count;
	struct plan_value *values; /* by variable and block, with one for the function's end */
	uint32_t block_count;      /* including the function's end */
	/* why the kernel needs records instead; empty if it does not */
	char reason[SUM_REASON_MAX];
};

/*
 * Plans the sums and adds them to `layout`, or sets `reason`. The caller calls sum_plan_fini() in
 * any case. E_NOMEM.
 */
int sum_plan_make(const struct ir_function *function, const struct plan *plan, bool has_extremes,
		  struct instrument_layout *layout, struct sum_plan *sums,
		  struct proton_error *err);
void sum_plan_fini(struct sum_plan *sums);
/* Bytes that a warp stores at the end. */
static inline uint32_t sum_plan_bytes(const struct sum_plan *sums)
{
	return (sums->variable_count + 3) / 4 * 16;
}

/* True if the code of the marker changes the variable. */
bool sum_plan_changes(const struct sum_plan *sums, uint32_t variable, uint32_t marker);
/* The value on entry to a block. */
struct plan_value sum_plan_entry(const struct sum_plan *sums, uint32_t variable, uint32_t block);
/* The value in a block before marker `end`. */
struct plan_value sum_plan_value(const struct sum_plan *sums, uint32_t variable, uint32_t block,
				 uint32_t end);
