/*
 * Record planning: pairs markers, assigns records to slots, and computes the bytes used per block.
 */
#include "intra/llvm/record_plan.h"

#include "base/array.h"

#define BYTES_MAX ((int64_t)1 << 40)

/* ------------------------------------------------------------------ sites */

static bool shares_clock(const struct ir_function *function, uint32_t marker)
{
	const struct ir_marker *this = &function->markers[marker];

	return this->follows && !(this->marker.is_end && !this[-1].marker.is_end);
}

/*
 * Plans one marker. Its kind of record is decided later, because the end of its scope may follow.
 * `last` is the scope's latest marker. An end pairs with it if that is a start that no other end is
 * paired with; markers before `first` are in earlier blocks.
 */
static void plan_marker(const struct ir_function *function, struct plan *plan, uint32_t first,
			uint32_t index, uint32_t *last)
{
	const struct marker *marker = &function->markers[index].marker;
	struct plan_site *site = &plan->sites[index];

	*site = (struct plan_site){.clock = index, .start = PLAN_NONE, .stores = true};
	if (shares_clock(function, index))
		site->clock = plan->sites[index - 1].clock;
	if (marker->is_event)
		return;
	if (marker->is_end && *last != PLAN_NONE && *last >= first &&
	    !function->markers[*last].marker.is_end && plan->sites[*last].stores) {
		site->start = *last;
		plan->sites[*last].stores = false;
	}
	*last = index;
}

static enum instrument_kind kind_of(const struct marker *marker, const struct plan_site *site)
{
	if (marker->is_event)
		return marker->is_end ? INSTRUMENT_EVENT_END : INSTRUMENT_EVENT_START;
	if (site->start != PLAN_NONE)
		return INSTRUMENT_SCOPE;
	return marker->is_end ? INSTRUMENT_END : INSTRUMENT_START;
}

static int too_many(struct proton_error *err)
{
	return err_set(err, PROTON_E_UNSUPPORTED,
		       "more than %u combinations of scope and record kind in one kernel",
		       INSTRUMENT_CODE_MAX);
}

/* True if a call may end and restart the scope: an instrumented callee has markers of it. */
static bool is_elsewhere(const struct ir_function *function, const struct marker *marker)
{
	return function->callees &&
	       ir_names_find(&function->callees->scopes,
			     (struct slice){marker->name, marker->name_length}) != IR_NAME_NONE;
}

/*
 * Pairs the markers of one block. Calls of callees may be between the two markers of a pair; then
 * the start is in an earlier part of the same basic block, not before marker `head`.
 */
static int pair_block(const struct ir_function *function, struct instrument_layout *layout,
		      struct plan *plan, uint32_t b, uint32_t head, uint32_t *last,
		      struct proton_error *err)
{
	uint32_t first = function->blocks[b].first_marker;
	uint32_t end = first + function->blocks[b].marker_count;

	for (uint32_t i = first; i < end; i++) {
		const struct marker *marker = &function->markers[i].marker;
		uint32_t scope = layout_scope(layout, marker->name, marker->name_length);

		if (scope == UINT32_MAX)
			return layout->scope_count < INSTRUMENT_CODE_MAX ? err_nomem(err)
									 : too_many(err);
		plan_marker(function, plan, is_elsewhere(function, marker) ? first : head, i,
			    &last[scope]);
		plan->sites[i].scope = scope;
		plan->sites[i].block = b;
	}
	return PROTON_OK;
}

static int place_records(const struct ir_function *function, struct instrument_layout *layout,
			 struct plan *plan, struct proton_error *err)
{
	for (uint32_t i = 0; i < function->marker_count; i++) {
		struct plan_site *site = &plan->sites[i];
		struct plan_block *block = &plan->blocks[site->block];

		if (!site->stores)
			continue;
		site->slot = block->slot_count++;
		site->code = layout_code(layout, site->scope,
					 kind_of(&function->markers[i].marker, site));
		if (!site->code)
			return too_many(err);
		plan->record_count++;
		if (block->slot_count > plan->group_max)
			plan->group_max = block->slot_count;
	}
	return PROTON_OK;
}

static int plan_sites(const struct ir_function *function, struct instrument_layout *layout,
		      struct plan *plan, struct proton_error *err)
{
	uint32_t last[INSTRUMENT_CODE_MAX + 1]; /* latest marker of each scope, without events */
	uint32_t head = 0;
	int status = PROTON_OK;

	for (size_t i = 0; i < ARRAY_LENGTH(last); i++)
		last[i] = PLAN_NONE;
	for (uint32_t b = 0; b < function->block_count && status == PROTON_OK; b++) {
		if (!function->blocks[b].continues)
			head = function->blocks[b].first_marker;
		status = pair_block(function, layout, plan, b, head, last, err);
	}
	return status == PROTON_OK ? place_records(function, layout, plan, err) : status;
}

/* ------------------------------------------------------------------ blocks */

static bool find_predecessors(const struct ir_function *function, struct plan *plan)
{
	uint32_t total = function->successor_count;

	plan->predecessors = calloc(total + 1, sizeof(*plan->predecessors));
	if (!plan->predecessors)
		return false;
	for (uint32_t i = 0; i < function->successor_count; i++)
		plan->blocks[function->successors[i]].predecessor_count++;
	for (uint32_t b = plan->block_count; b-- > 0;) {
		total -= plan->blocks[b].predecessor_count;
		plan->blocks[b].first_predecessor = total;
		plan->blocks[b].predecessor_count = 0;
	}
	for (uint32_t b = 0; b < function->block_count; b++)
		for (uint32_t i = 0; i < function->blocks[b].successor_count; i++) {
			uint32_t to = function->successors[function->blocks[b].first_successor + i];
			struct plan_block *block = &plan->blocks[to];

			plan->predecessors[block->first_predecessor + block->predecessor_count++] =
				b;
		}
	return true;
}

static bool are_equal(struct plan_value a, struct plan_value b)
{
	return a.origin == b.origin && a.number == b.number;
}

/* ------------------------------------------------------------------ values */

/* The value on entry to a block: the value of all predecessors, or a phi. */
static struct plan_value value_before(const struct plan *plan, uint32_t block,
				      struct plan_value (*after)(const void *user, uint32_t block),
				      const void *user)
{
	const struct plan_block *b = &plan->blocks[block];
	struct plan_value value = {VALUE_UNREACHED, 0};

	for (uint32_t i = 0; i < b->predecessor_count; i++) {
		struct plan_value other = after(user, plan->predecessors[b->first_predecessor + i]);

		if (value.origin == VALUE_UNREACHED)
			value = other;
		else if (other.origin != VALUE_UNREACHED && !are_equal(value, other))
			return (struct plan_value){VALUE_PHI, block};
	}
	return value;
}

/*
 * Iterates to a fixed point. A phi stays, and a cycle without one has the value of its only entry,
 * so this ends: after as many passes as loops are deep, plus a few, in the order of LLVM's text.
 */
void plan_solve(const struct plan *plan, struct plan_value *values,
		struct plan_value (*after)(const void *user, uint32_t block), const void *user)
{
	bool has_changed = true;

	while (has_changed) {
		has_changed = false;
		for (uint32_t b = 1; b < plan->block_count; b++) {
			if (are_equal(values[b], (struct plan_value){VALUE_PHI, b}))
				continue;
			struct plan_value value = value_before(plan, b, after, user);
			has_changed |= !are_equal(value, values[b]);
			values[b] = value;
		}
	}
}

struct plan_value plan_used_after(const void *user, uint32_t block)
{
	const struct plan *plan = user;
	struct plan_value value = plan->used[block];
	uint32_t slots = plan->blocks[block].slot_count;

	if (value.origin == VALUE_UNREACHED || !slots)
		return value;
	if (value.origin != VALUE_CONSTANT)
		return (struct plan_value){VALUE_CODE, block};
	return (struct plan_value){VALUE_CONSTANT, value.number + slots * INSTRUMENT_RECORD_BYTES};
}

/* The caller gives the number of bytes to a callee, and a call to what follows it. */
static void find_used(const struct ir_function *function, struct plan *plan)
{
	plan->used[0] = (struct plan_value){function->is_callee ? VALUE_PHI : VALUE_CONSTANT, 0};
	for (uint32_t b = 1; b < function->block_count; b++)
		if (function->blocks[b].continues)
			plan->used[b] = (struct plan_value){VALUE_PHI, b};
	plan_solve(plan, plan->used, plan_used_after, plan);
}

/* ------------------------------------------------------------------ the longest path */

/*
 * Depth-first search for strongly connected components (Tarjan). A component is found after all its
 * successors. Its result is the maximum that can be recorded from there on.
 */
struct walk {
	const struct ir_function *function;
	const struct plan *plan;
	const struct plan *callee_plans;
	struct node {
		uint32_t number;  /* in order of the search, from 1; 0: not visited */
		uint32_t lowlink; /* lowest number that the block leads back to */
		uint32_t edge;    /* index of the next successor */
		int64_t max; /* bytes recorded from the block on; PLAN_UNREACHED: unknown yet */
	} * nodes;           /* of blocks, and of the function's end */
	uint32_t *open;      /* stack of blocks without a known component */
	uint32_t *path;      /* path from the entry to the current block */
	uint32_t open_count;
	uint32_t met;
};

/* The successor `i` of a block; false after the last. */
static bool successor_of(const struct walk *walk, uint32_t block, uint32_t i, uint32_t *out)
{
	const struct ir_block *b = &walk->function->blocks[block];

	if (i >= b->successor_count)
		return false;
	*out = walk->function->successors[b->first_successor + i];
	return true;
}

static int64_t add_bytes(int64_t a, int64_t b)
{
	/* e.g. callees that call callees twice, and so on */
	return a == PLAN_VARIES || b == PLAN_VARIES || a + b > BYTES_MAX ? PLAN_VARIES : a + b;
}

/* Bytes recorded in a block and in the callee at its end, or PLAN_VARIES. */
static int64_t max_of_block(const struct walk *walk, uint32_t block)
{
	const struct ir_call *call = walk->function->blocks[block].call;
	int64_t own = (int64_t)walk->plan->blocks[block].slot_count * INSTRUMENT_RECORD_BYTES;

	if (!call)
		return own;
	return walk->callee_plans ? add_bytes(own, walk->callee_plans[call->callee].max_bytes)
				  : PLAN_VARIES;
}

static bool is_in_component(const struct walk *walk, uint32_t root, uint32_t block)
{
	return walk->nodes[block].max == PLAN_UNREACHED &&
	       walk->nodes[block].number >= walk->nodes[root].number;
}

/*
 * The maximum number of times that a block of the component runs; 0: unknown. Known for a loop with
 * one back edge and no other loop in it: the other edges lead forward in the text.
 */
static uint32_t count_trips(const struct walk *walk, uint32_t first_open)
{
	uint32_t header = walk->open[first_open];
	uint32_t latch = PLAN_NONE;
	uint32_t to;

	for (uint32_t i = first_open; i < walk->open_count; i++) {
		uint32_t from = walk->open[i];

		for (uint32_t e = 0; successor_of(walk, from, e, &to); e++) {
			if (!is_in_component(walk, header, to))
				continue;
			if (to == header ? latch != PLAN_NONE : to <= from)
				return 0;
			if (to == header)
				latch = from;
		}
	}
	if (latch == PLAN_NONE) /* no loop */
		return 1;
	return latch >= header ? trip_count(walk->function, header, latch) : 0;
}

/* Maximum bytes recorded in all blocks of the component, or PLAN_VARIES. */
static int64_t max_of_component(const struct walk *walk, uint32_t first_open)
{
	int64_t sum = 0;

	for (uint32_t i = first_open; i < walk->open_count; i++)
		sum = add_bytes(sum, max_of_block(walk, walk->open[i]));
	if (sum <= 0)
		return sum;
	uint32_t trips = count_trips(walk, first_open);
	return trips && sum <= BYTES_MAX / trips ? trips * sum : PLAN_VARIES;
}

/* All blocks of the component with root `block` have been visited. */
static void close_loop(struct walk *walk, uint32_t block)
{
	uint32_t first = walk->open_count;
	int64_t max = 0;
	uint32_t to;

	do
		first--;
	while (walk->open[first] != block);
	for (uint32_t i = first; i < walk->open_count; i++)
		for (uint32_t e = 0; successor_of(walk, walk->open[i], e, &to); e++) {
			int64_t following = walk->nodes[to].max;

			if (following == PLAN_VARIES || (max != PLAN_VARIES && following > max))
				max = following;
		}
	max = add_bytes(max, max_of_component(walk, first));
	while (walk->open_count > first)
		walk->nodes[walk->open[--walk->open_count]].max = max;
}

static void meet_block(struct walk *walk, uint32_t block, uint32_t depth)
{
	walk->nodes[block].number = walk->nodes[block].lowlink = ++walk->met;
	walk->open[walk->open_count++] = block;
	walk->path[depth] = block;
}

static void walk_all(struct walk *walk)
{
	uint32_t depth = 1;
	uint32_t to;

	meet_block(walk, 0, 0);
	while (depth) {
		uint32_t at = walk->path[depth - 1];
		struct node *node = &walk->nodes[at];

		if (successor_of(walk, at, node->edge, &to)) {
			const struct node *next = &walk->nodes[to];

			node->edge++;
			if (next->max == PLAN_UNREACHED && !next->number)
				meet_block(walk, to, depth++);
			else if (next->max == PLAN_UNREACHED && next->number < node->lowlink)
				node->lowlink = next->number;
			continue;
		}
		if (node->lowlink == node->number)
			close_loop(walk, at);
		if (--depth && node->lowlink < walk->nodes[walk->path[depth - 1]].lowlink)
			walk->nodes[walk->path[depth - 1]].lowlink = node->lowlink;
	}
}

bool plan_find_max(const struct ir_function *function, struct plan *plan,
		   const struct plan *callee_plans)
{
	uint32_t count = function->block_count;
	struct walk walk = {
		.function = function,
		.plan = plan,
		.callee_plans = callee_plans,
		.nodes = calloc((size_t)count + 1, sizeof(*walk.nodes)),
		.open = calloc((size_t)count + 1, sizeof(*walk.open)),
		.path = calloc((size_t)count + 1, sizeof(*walk.path)),
	};
	bool is_ok = walk.nodes && walk.open && walk.path;

	if (is_ok) {
		for (uint32_t b = 0; b < count; b++)
			walk.nodes[b].max = PLAN_UNREACHED;
		walk_all(&walk);
		plan->max_bytes = walk.nodes[0].max;
	}
	FREE_ALL(walk.nodes, walk.open, walk.path);
	return is_ok;
}

int plan_make(const struct ir_function *function, struct instrument_layout *layout,
	      struct plan *plan, struct proton_error *err)
{
	*plan = (struct plan){
		.sites = calloc(function->marker_count + 1, sizeof(*plan->sites)),
		.blocks = calloc(function->block_count + 1, sizeof(*plan->blocks)),
		.used = calloc(function->block_count + 1, sizeof(*plan->used)),
		.block_count = function->block_count + 1,
	};
	if (!plan->sites || !plan->blocks || !plan->used || !find_predecessors(function, plan)) {
		plan_fini(plan);
		return err_nomem(err);
	}
	int status = plan_sites(function, layout, plan, err);
	if (status == PROTON_OK)
		find_used(function, plan);
	if (status == PROTON_OK && !function->callees && !plan_find_max(function, plan, NULL))
		status = err_nomem(err);
	if (status != PROTON_OK)
		plan_fini(plan);
	return status;
}

void plan_fini(struct plan *plan)
{
	FREE_ALL(plan->sites, plan->blocks, plan->predecessors, plan->used);
	*plan = (struct plan){0};
}
