/*
 * Sum planning: the positions of scopes in the tree, the same on all paths or one per scope; the
 * variables of a kernel with sums, and where their values come from.
 */
#include "intra/llvm/sum_plan.h"

#include <stdio.h>

#include "base/array.h"

#define VARIABLES_MAX 512u
#define UNREACHED UINT32_MAX
#define MEAN_MAX (INSTRUMENT_SUM_MAX * INSTRUMENT_SUM_ONE)

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
	uint32_t counter = PLAN_NONE;

	for (uint32_t i = 0; i < function->marker_count && !*sums->reason; i++) {
		uint32_t block = sums->plan->sites[i].block;

		if (!is_counted(sums, i))
			continue;
		if (counter == PLAN_NONE || sums->variables[counter].index != block)
			counter = add_variable(sums, SUM_COUNTER, block);
		if (counter != PLAN_NONE && !layout_sum_count(layout, sums->sums[i], counter,
							      function->markers[i].marker.is_end))
			return false;
	}
	return true;
}

/* True if the variable is more than 0 at all ends of the sum. */
static bool is_always_open(const struct sum_plan *sums, uint32_t open, uint32_t sum)
{
	for (uint32_t i = 0; i < sums->function->marker_count; i++) {
		if (sums->sums[i] != sum || !sums->function->markers[i].marker.is_end)
			continue;
		struct plan_value value = sum_plan_value(sums, open, sums->plan->sites[i].block, i);
		if (value.origin != VALUE_UNREACHED &&
		    (value.origin != VALUE_CONSTANT || (int32_t)value.number <= 0))
			return false;
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
		if (layout->sums[s].parent != outer || is_always_open(sums, open, s))
			continue;
		uint32_t inside = add_variable(sums, SUM_INSIDE, s);
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

	ARRAY_EACH(count, layout->sum_counts, layout->sum_counts_count) {
		if (count->sum != sum)
			continue;
		struct plan_value value =
			sum_plan_entry(sums, count->word, sums->function->block_count);
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

/* ------------------------------------------------------------------ positions in the tree */

/* Position directly in the kernel; in a sum, it is the index of the sum + 1. */
#define KERNEL 0u

struct positions {
	struct instrument_layout *layout;
	struct sum_plan *sums;
	uint32_t *entry; /* by block: position on entry, or UNREACHED */
	bool is_dynamic; /* positions depend on the path, or scopes overlap */
	bool is_nomem;
};

/* The position inside scope `scope` at position `parent`. KERNEL, if there are too many. */
static uint32_t position_of(struct positions *at, uint32_t parent, uint32_t scope)
{
	struct instrument_layout *layout = at->layout;
	uint16_t above = parent == KERNEL ? INSTRUMENT_NO_SUM : (uint16_t)(parent - 1);

	for (uint32_t i = 0; i < layout->sum_count; i++)
		if (layout->sums[i].parent == above && layout->sums[i].scope == scope)
			return i + 1;
	if (!layout_sum(layout, (uint16_t)scope, above)) {
		at->is_nomem = layout->sum_count < INSTRUMENT_SUM_MAX;
		return KERNEL;
	}
	return layout->sum_count;
}

static uint32_t pass_marker(struct positions *at, uint32_t position, uint32_t marker)
{
	uint32_t scope = at->sums->plan->sites[marker].scope;

	if (!at->sums->function->markers[marker].marker.is_end) {
		position = position_of(at, position, scope);
		at->is_dynamic |= position == KERNEL;
		at->sums->sums[marker] = position - 1;
		return position;
	}
	if (position == KERNEL || at->layout->sums[position - 1].scope != scope) {
		at->is_dynamic = true;
		return position;
	}
	at->sums->sums[marker] = position - 1;
	position = at->layout->sums[position - 1].parent;
	return position == INSTRUMENT_NO_SUM ? KERNEL : position + 1;
}

/* Enters a block. True if it was unreached. */
static bool enter_block(struct positions *at, uint32_t block, uint32_t position)
{
	bool is_new = at->entry[block] == UNREACHED;

	if (is_new)
		at->entry[block] = position;
	at->is_dynamic |= at->entry[block] != position;
	return is_new;
}

/* Visits each reachable block once. */
static void visit_block(struct positions *at, uint32_t *list)
{
	const struct ir_function *function = at->sums->function;
	uint32_t count = 0;

	for (uint32_t b = 0; b <= function->block_count; b++)
		at->entry[b] = UNREACHED;
	enter_block(at, function->block_count, KERNEL);
	enter_block(at, 0, KERNEL);
	list[count++] = 0;
	while (count && !at->is_dynamic) {
		const struct ir_block *block = &function->blocks[list[--count]];
		uint32_t position = at->entry[block - function->blocks];

		for (uint32_t i = 0; i < block->marker_count && !at->is_dynamic; i++)
			position = pass_marker(at, position, block->first_marker + i);
		for (uint32_t i = 0; i < block->successor_count && !at->is_dynamic; i++) {
			uint32_t to = function->successors[block->first_successor + i];

			if (enter_block(at, to, position))
				list[count++] = to;
		}
	}
}

/* ------------------------------------------------------------------ one position per scope */

/* The scopes that may contain an execution of the scope, and never overlap with one. */
static void find_containers(const struct instrument_layout *layout, struct scope_set *around)
{
	for (uint32_t inner = 0; inner < layout->scope_count; inner++) {
		around[inner] = (struct scope_set){{0}};
		for (uint32_t outer = 0; outer < layout->scope_count; outer++)
			if (outer != inner && layout_may_contain(layout, outer, inner) &&
			    !layout_may_contain(layout, inner, outer))
				scope_set_add(&around[inner], outer);
	}
}

static uint32_t sum_of(const struct instrument_layout *layout, uint32_t scope)
{
	for (uint32_t i = 0; i < layout->sum_count; i++)
		if (layout->sums[i].scope == scope)
			return i;
	return INSTRUMENT_NO_SUM;
}

/* Adds a sum per scope, parents first. */
static bool add_scopes(struct instrument_layout *layout)
{
	struct scope_set around[INSTRUMENT_CODE_MAX];

	find_containers(layout, around);
	for (uint32_t round = 0; round < layout->scope_count; round++) {
		uint32_t count = layout->sum_count;

		for (uint32_t s = 0; s < layout->scope_count; s++) {
			uint16_t parent = static_nesting_parent(around, s, layout->scope_count);
			uint32_t sum = parent == INSTRUMENT_NO_SCOPE ? INSTRUMENT_NO_SUM
								     : sum_of(layout, parent);

			if (sum_of(layout, s) != INSTRUMENT_NO_SUM ||
			    (parent != INSTRUMENT_NO_SCOPE && sum == INSTRUMENT_NO_SUM))
				continue;
			if (!layout_sum(layout, (uint16_t)s, (uint16_t)sum))
				return false;
		}
		if (layout->sum_count == count)
			break;
	}
	return true;
}

static void check_markers(const struct positions *at)
{
	const struct ir_function *function = at->sums->function;
	bool ends[INSTRUMENT_CODE_MAX + 1] = {false};

	for (uint32_t i = 0; i < function->marker_count; i++)
		ends[at->sums->plan->sites[i].scope] |= function->markers[i].marker.is_end;
	for (uint32_t s = 0; s < at->layout->scope_count; s++)
		if (!at->layout->nesting || !at->layout->nesting[s].is_known || !ends[s])
			snprintf(at->sums->reason, sizeof(at->sums->reason), "scope %s never %s",
				 at->layout->scopes[s], ends[s] ? "starts" : "ends");
}

static bool find_by_scope(struct positions *at)
{
	struct instrument_layout *layout = at->layout;

	layout_drop_sums(layout);
	at->sums->by_scope = true;
	check_markers(at);
	if (*at->sums->reason)
		return true;
	if (!add_scopes(layout))
		return false;
	for (uint32_t i = 0; i < at->sums->function->marker_count; i++)
		at->sums->sums[i] = sum_of(layout, at->sums->plan->sites[i].scope);
	return true;
}

/* ------------------------------------------------------------------ overhead */

/* Records that are made between the clock read that a start shares and the start. */
static uint32_t records_before(const struct positions *at, uint32_t start)
{
	uint32_t count = 0;

	for (uint32_t i = at->sums->plan->sites[start].clock; i < start; i++)
		count += at->sums->function->markers[i].marker.is_end;
	return count;
}

static uint16_t mean_position(uint32_t sum, uint32_t count)
{
	uint32_t value = count ? sum * INSTRUMENT_SUM_ONE / count : 0;

	return value < MEAN_MAX ? (uint16_t)value : MEAN_MAX;
}

/* How many clock reads an execution makes: means over the places in the text. */
static void find_overhead(struct positions *at)
{
	for (uint32_t s = 0; s < at->layout->sum_count; s++) {
		struct instrument_sum *sum = &at->layout->sums[s];
		uint32_t starts = 0, start_reads = 0, before = 0, ends = 0, end_reads = 0;

		for (uint32_t i = 0; i < at->sums->function->marker_count; i++) {
			uint32_t reads = at->sums->plan->sites[i].clock == i;

			if (at->sums->sums[i] != s)
				continue;
			if (at->sums->function->markers[i].marker.is_end) {
				ends++;
				end_reads += reads;
			} else {
				starts++;
				start_reads += reads;
				before += records_before(at, i);
			}
		}
		sum->start_reads = mean_position(start_reads, starts);
		sum->records_before = mean_position(before, starts);
		sum->end_reads = mean_position(end_reads, ends);
	}
}

/*
 * Adds a sum for each scope at each position to `layout`, and sets sums->sums. If the scopes that
 * are open depend on the path or overlap, there is one sum per scope, by_scope is set, and the
 * parents come from the layout's nesting. False if out of memory.
 */
static bool find_positions(struct sum_plan *sums, struct instrument_layout *layout)
{
	uint32_t *work = calloc((size_t)sums->block_count * 2, sizeof(*work));
	struct positions at = {.layout = layout, .sums = sums, .entry = work};

	if (work)
		visit_block(&at, work + sums->block_count);
	free(work);
	if (!work || at.is_nomem || (at.is_dynamic && !find_by_scope(&at)))
		return false;
	if (!*sums->reason && !layout->sum_count)
		snprintf(sums->reason, sizeof(sums->reason), "it never gets to its scopes");
	if (!*sums->reason)
		find_overhead(&at);
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
	uint32_t markers = sums->function->marker_count + 1;

	sums->sums = malloc(markers * sizeof(*sums->sums));
	sums->variables = calloc(VARIABLES_MAX, sizeof(*sums->variables));
	sums->values = calloc((size_t)VARIABLES_MAX * sums->block_count, sizeof(*sums->values));
	if (!sums->sums || !sums->variables || !sums->values)
		return false;
	memset(sums->sums, 0xff, markers * sizeof(*sums->sums));
	return find_positions(sums, layout) && (*sums->reason || add_variables(sums, layout));
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
