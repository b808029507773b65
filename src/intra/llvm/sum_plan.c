/* Sum planning: the variables of a kernel with sums, and where their values come from. */
#include "intra/llvm/sum_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define VARIABLES_MAX 512u

/* ------------------------------------------------------------------ values */

/* True if executions of the block are counted: it has an end, or a start if those matter. */
static bool is_counted(const struct sum_plan *sums, uint32_t marker)
{
	return sums->sums[marker] != PLAN_NONE &&
	       (sums->by_scope || sums->function->markers[marker].marker.is_end);
}

/* The last marker of its block that is counted; there the counter is increased. */
static bool is_last_counted(const struct sum_plan *sums, uint32_t block, uint32_t marker)
{
	const struct ir_block *b = &sums->function->blocks[block];

	if (marker - b->first_marker >= b->marker_count || !is_counted(sums, marker))
		return false;
	for (uint32_t i = marker + 1; i < b->first_marker + b->marker_count; i++)
		if (is_counted(sums, i))
			return false;
	return true;
}

bool sum_plan_changes(const struct sum_plan *sums, uint32_t variable, uint32_t marker)
{
	const struct sum_variable *v = &sums->variables[variable];
	bool is_end = sums->function->markers[marker].marker.is_end;

	switch (v->kind) {
	case SUM_CYCLES: /* the start of a pair changes nothing */
		return sums->sums[marker] == v->index &&
		       (is_end || (sums->plan->sites[marker].stores && !sums->begins[v->index]));
	case SUM_COUNTER:
		return is_last_counted(sums, v->index, marker);
	case SUM_OPEN:
		return sums->sums[marker] == v->index;
	case SUM_BEGIN:
		return sums->sums[marker] == v->index &&
		       (is_end || sums->plan->sites[marker].stores);
	case SUM_INSIDE:
	case SUM_MIN:
	case SUM_MAX:
		return sums->sums[marker] == v->index && is_end;
	}
	return false;
}

struct plan_value sum_plan_entry(const struct sum_plan *sums, uint32_t variable, uint32_t block)
{
	return sums->values[(size_t)variable * sums->block_count + block];
}

/* Starts minus ends of the variable's sum from marker `first` to before `end`. */
static uint32_t open_executions(const struct sum_plan *sums, const struct sum_variable *variable,
				uint32_t first, uint32_t end)
{
	uint32_t open = 0;

	for (uint32_t i = first; i < end; i++)
		if (sums->sums[i] == variable->index)
			open += sums->function->markers[i].marker.is_end ? UINT32_MAX : 1;
	return open;
}

struct plan_value sum_plan_value(const struct sum_plan *sums, uint32_t variable, uint32_t block,
				 uint32_t end)
{
	const struct sum_variable *v = &sums->variables[variable];
	struct plan_value value = sum_plan_entry(sums, variable, block);
	uint32_t first = sums->function->blocks[block].first_marker;

	if (value.origin == VALUE_UNREACHED)
		return value;
	while (end > first && !sum_plan_changes(sums, variable, end - 1))
		end--;
	if (end == first)
		return value;
	if (v->kind == SUM_OPEN && value.origin == VALUE_CONSTANT)
		return (struct plan_value){VALUE_CONSTANT,
					   value.number + open_executions(sums, v, first, end)};
	if (v->kind == SUM_BEGIN && sums->function->markers[end - 1].marker.is_end)
		return (struct plan_value){VALUE_CONSTANT, 0};
	if (v->kind == SUM_COUNTER && value.origin == VALUE_CONSTANT)
		return (struct plan_value){VALUE_CONSTANT, value.number + 1};
	return (struct plan_value){VALUE_CODE, end - 1};
}

struct solving {
	const struct sum_plan *sums;
	uint32_t variable;
};

static struct plan_value value_after(const void *user, uint32_t block)
{
	const struct solving *solving = user;
	const struct ir_block *b = &solving->sums->function->blocks[block];

	return sum_plan_value(solving->sums, solving->variable, block,
			      b->first_marker + b->marker_count);
}

static void solve_variable(struct sum_plan *sums, uint32_t variable)
{
	struct plan_value *values = &sums->values[(size_t)variable * sums->block_count];
	struct solving solving = {sums, variable};

	values[0] = (struct plan_value){VALUE_CONSTANT,
					sums->variables[variable].kind == SUM_MIN ? UINT32_MAX : 0};
	plan_solve(sums->plan, values, value_after, &solving);
}

/* ------------------------------------------------------------------ variables */

static uint32_t add_variable(struct sum_plan *sums, enum sum_kind kind, uint32_t index)
{
	if (sums->variable_count == VARIABLES_MAX) {
		snprintf(sums->reason, sizeof(sums->reason), "it has too many scopes");
		return PLAN_NONE;
	}
	sums->variables[sums->variable_count] = (struct sum_variable){kind, index, PLAN_NONE};
	return sums->variable_count++;
}

/* A counter for each block with ends. */
static bool count_executions(struct sum_plan *sums, struct instrument_layout *layout)
{
	const struct ir_function *function = sums->function;

	for (uint32_t b = 0; b < function->block_count && !*sums->reason; b++) {
		const struct ir_block *block = &function->blocks[b];
		uint32_t end = block->first_marker + block->marker_count;
		uint32_t counter = PLAN_NONE;

		for (uint32_t i = block->first_marker; i < end; i++) {
			if (!is_counted(sums, i))
				continue;
			if (counter == PLAN_NONE)
				counter = add_variable(sums, SUM_COUNTER, b);
			if (counter == PLAN_NONE)
				break;
			if (!layout_sum_count(layout, sums->sums[i], counter,
					      function->markers[i].marker.is_end))
				return false;
		}
	}
	return true;
}

/* True if the variable is more than 0 at all ends of the sum. */
static bool is_always_open(const struct sum_plan *sums, uint32_t open, uint32_t sum)
{
	const struct ir_function *function = sums->function;

	for (uint32_t b = 0; b < function->block_count; b++) {
		const struct ir_block *block = &function->blocks[b];
		uint32_t end = block->first_marker + block->marker_count;

		for (uint32_t i = block->first_marker; i < end; i++) {
			struct plan_value value = sum_plan_value(sums, open, b, i);

			if (sums->sums[i] == sum && function->markers[i].marker.is_end &&
			    value.origin != VALUE_UNREACHED &&
			    (value.origin != VALUE_CONSTANT || (int32_t)value.number <= 0))
				return false;
		}
	}
	return true;
}

/* Counts executions inside the scope around them, if it may be closed. */
static void count_inside(struct sum_plan *sums, struct instrument_layout *layout, uint32_t outer)
{
	uint32_t open = add_variable(sums, SUM_OPEN, outer);
	bool is_needed = false;

	if (open == PLAN_NONE)
		return;
	solve_variable(sums, open);
	for (uint32_t s = 0; s < layout->sum_count && !*sums->reason; s++) {
		uint32_t inside;

		if (layout->sums[s].parent != outer || is_always_open(sums, open, s))
			continue;
		inside = add_variable(sums, SUM_INSIDE, s);
		if (inside == PLAN_NONE)
			return;
		is_needed = true;
		sums->variables[inside].open = open;
		layout->sums[s].inside_word = (uint16_t)inside;
	}
	if (!is_needed) {
		memset(&sums->values[(size_t)open * sums->block_count], 0,
		       sums->block_count * sizeof(*sums->values));
		sums->variable_count--;
	}
}

/* True if a unit can execute the sum more than once. */
static bool may_repeat(const struct sum_plan *sums, const struct instrument_layout *layout,
		       uint32_t sum)
{
	uint32_t total = 0;

	for (uint32_t i = 0; i < layout->sum_counts_count; i++) {
		const struct instrument_sum_count *count = &layout->sum_counts[i];
		struct plan_value value;

		if (count->sum != sum)
			continue;
		value = sum_plan_entry(sums, count->word, sums->function->block_count);
		if (value.origin != VALUE_CONSTANT)
			return true;
		total += value.number * count->times;
	}
	return total > 1;
}

/* True if start and end of the sum are in different blocks somewhere. */
static bool spans_blocks(const struct sum_plan *sums, uint32_t sum)
{
	for (uint32_t i = 0; i < sums->function->marker_count; i++)
		if (sums->sums[i] == sum && !sums->function->markers[i].marker.is_end &&
		    sums->plan->sites[i].stores)
			return true;
	return false;
}

/* The shortest and the longest execution of each sum that may have several. */
static void find_extremes(struct sum_plan *sums, struct instrument_layout *layout)
{
	uint32_t counters_end = sums->variable_count;

	if (sums->by_scope || counters_end + 3 * layout->sum_count > VARIABLES_MAX)
		return;
	for (uint32_t v = layout->sum_count; v < counters_end && !*sums->reason; v++)
		solve_variable(sums, v);
	for (uint32_t s = 0; s < layout->sum_count && !*sums->reason; s++) {
		if (!may_repeat(sums, layout, s))
			continue;
		layout->sums[s].min_word = (uint16_t)add_variable(sums, SUM_MIN, s);
		layout->sums[s].max_word = (uint16_t)add_variable(sums, SUM_MAX, s);
		if (spans_blocks(sums, s)) {
			sums->begins[s] = true;
			add_variable(sums, SUM_BEGIN, s);
		}
	}
}

static bool add_variables(struct sum_plan *sums, struct instrument_layout *layout)
{
	for (uint32_t s = 0; s < layout->sum_count; s++)
		add_variable(sums, SUM_CYCLES, s);
	if (!count_executions(sums, layout))
		return false;
	if (sums->has_extremes)
		find_extremes(sums, layout);
	for (uint32_t s = 0; s < layout->sum_count && sums->by_scope && !*sums->reason; s++)
		count_inside(sums, layout, s);
	for (uint32_t v = 0; v < sums->variable_count && !*sums->reason; v++)
		if (sums->variables[v].kind != SUM_OPEN)
			solve_variable(sums, v);
	return true;
}

/* ------------------------------------------------------------------ the plan */

static void check_kinds(const struct ir_function *function, struct sum_plan *sums)
{
	if (function->callees)
		snprintf(sums->reason, sizeof(sums->reason), "it has scopes in noinline functions");
	for (uint32_t i = 0; i < function->marker_count; i++)
		if (function->markers[i].marker.is_event)
			snprintf(sums->reason, sizeof(sums->reason), "it has async events");
}

static bool make_variables(struct sum_plan *sums, struct instrument_layout *layout)
{
	uint32_t *work = calloc((size_t)sums->block_count * 2, sizeof(*work));
	uint32_t markers = sums->function->marker_count + 1;
	bool is_ok;

	sums->sums = malloc(markers * sizeof(*sums->sums));
	sums->variables = calloc(VARIABLES_MAX, sizeof(*sums->variables));
	sums->values = calloc((size_t)VARIABLES_MAX * sums->block_count, sizeof(*sums->values));
	is_ok = work && sums->sums && sums->variables && sums->values;
	if (is_ok) {
		memset(sums->sums, 0xff, markers * sizeof(*sums->sums));
		is_ok = sum_positions_find(sums->function, sums->plan, layout, sums, work);
	}
	free(work);
	return is_ok && (*sums->reason || add_variables(sums, layout));
}

int sum_plan_make(const struct ir_function *function, const struct plan *plan, bool has_extremes,
		  struct instrument_layout *layout, struct sum_plan *sums, struct proton_error *err)
{
	bool is_ok = true;

	*sums = (struct sum_plan){
		.function = function,
		.plan = plan,
		.block_count = function->block_count + 1,
		.has_extremes = has_extremes,
	};
	check_kinds(function, sums);
	if (!*sums->reason)
		is_ok = make_variables(sums, layout);
	if (*sums->reason)
		layout_drop_sums(layout);
	return is_ok ? PROTON_OK : err_nomem(err);
}

void sum_plan_fini(struct sum_plan *sums)
{
	FREE_ALL(sums->sums, sums->variables, sums->values);
	*sums = (struct sum_plan){0};
}
