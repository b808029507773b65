/* Positions of scopes in the tree: the same on all paths, or one per scope. */
#include <stdio.h>

#include "intra/llvm/sum_plan.h"

#define UNREACHED UINT32_MAX
#define MEAN_MAX (INSTRUMENT_SUM_MAX * INSTRUMENT_SUM_ONE)

/* ------------------------------------------------------------------ positions in the tree */

/* Position directly in the kernel; in a sum, it is the index of the sum + 1. */
#define KERNEL 0u

struct positions {
	const struct ir_function *function;
	const struct plan *plan;
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
	uint32_t scope = at->plan->sites[marker].scope;

	if (!at->function->markers[marker].marker.is_end) {
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
	const struct ir_function *function = at->function;
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
	const struct ir_function *function = at->function;
	bool ends[INSTRUMENT_CODE_MAX + 1] = {false};

	for (uint32_t i = 0; i < function->marker_count; i++)
		ends[at->plan->sites[i].scope] |= function->markers[i].marker.is_end;
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
	for (uint32_t i = 0; i < at->function->marker_count; i++)
		at->sums->sums[i] = sum_of(layout, at->plan->sites[i].scope);
	return true;
}

/* ------------------------------------------------------------------ overhead */

/* Records that are made between the clock read that a start shares and the start. */
static uint32_t records_before(const struct positions *at, uint32_t start)
{
	uint32_t count = 0;

	for (uint32_t i = at->plan->sites[start].clock; i < start; i++)
		count += at->function->markers[i].marker.is_end;
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

		for (uint32_t i = 0; i < at->function->marker_count; i++) {
			uint32_t reads = at->plan->sites[i].clock == i;

			if (at->sums->sums[i] != s)
				continue;
			if (at->function->markers[i].marker.is_end) {
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

bool sum_positions_find(const struct ir_function *function, const struct plan *plan,
			struct instrument_layout *layout, struct sum_plan *sums, uint32_t *work)
{
	struct positions at = {
		.function = function,
		.plan = plan,
		.layout = layout,
		.sums = sums,
		.entry = work,
	};

	visit_block(&at, work + function->block_count + 1);
	if (at.is_nomem || (at.is_dynamic && !find_by_scope(&at)))
		return false;
	if (!*sums->reason && !layout->sum_count)
		snprintf(sums->reason, sizeof(sums->reason), "it never gets to its scopes");
	if (!*sums->reason)
		find_overhead(&at);
	return true;
}
