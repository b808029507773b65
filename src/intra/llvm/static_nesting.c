/*
 * Static nesting of scopes: which scopes may be open where another one starts, and which one always
 * is. The decoder uses it to find a scope's parent when the records of the scopes around it are
 * lost. It is derived by dataflow from the markers and the control flow of the kernel and its
 * instrumented callees, on all paths.
 *
 * Three sets of scopes are propagated along control flow edges. Forward: scopes that may be open
 * (on some path) and that must be open (on every path). Backward: scopes that may still end. A
 * scope surrounds another one if it must be open at each start of the other and may end after it. A
 * scope without an end is open for the rest of the kernel, but is not meant to contain everything.
 *
 * A call leads into the callee. Scopes without markers in any noinline function also pass by it.
 * For the others all calls of a function are merged. That only weakens the result: more scopes may
 * be open, fewer must be.
 */

#include "base/array.h"
#include "intra/llvm/record_plan.h"

/* Maximum passes over all blocks. The depth of loops and calls plus a few is enough. */
#define ROUNDS_MAX 64u

/* A block, or the end of a function, to which its returns lead, with the state there. */
struct node {
	const struct ir_function *function;
	const struct ir_block *block; /* NULL: the end */
	const struct plan *plan;
	struct node *nodes;   /* the function's */
	struct scope_set may; /* open on entry */
	struct scope_set must;
	struct scope_set ending; /* on entry: may end later, before its next start */
	struct scope_set opens;  /* started by the block and open at its end */
	struct scope_set closes;
	struct scope_set ends; /* ended in the block before any start */
	struct scope_set starts;
	bool is_reached;
};

struct flow {
	struct node *nodes; /* of all functions, the kernel first */
	uint32_t count;
	struct node **callees;       /* the first node of each */
	struct scope_set in_callees; /* scopes with markers in noinline functions */
	bool has_changed;
};

/* ------------------------------------------------------------------ sets */

static void scope_set_remove(struct scope_set *set, uint32_t scope)
{
	set->bits[scope / 64] &= ~(1ull << scope % 64);
}

/* (set minus `without`) plus `more` */
static struct scope_set apply_sets(const struct scope_set *set, const struct scope_set *without,
				   const struct scope_set *more)
{
	struct scope_set result;

	for (uint32_t i = 0; i < INSTRUMENT_SCOPE_WORDS; i++)
		result.bits[i] = (set->bits[i] & ~without->bits[i]) | more->bits[i];
	return result;
}

/* Bits of `yes` where `mask` is set, else of `no`. */
static struct scope_set choose_bits(const struct scope_set *mask, const struct scope_set *yes,
				    const struct scope_set *no)
{
	struct scope_set result;

	for (uint32_t i = 0; i < INSTRUMENT_SCOPE_WORDS; i++)
		result.bits[i] = (yes->bits[i] & mask->bits[i]) | (no->bits[i] & ~mask->bits[i]);
	return result;
}

static void join_sets(struct scope_set *set, const struct scope_set *more)
{
	for (uint32_t i = 0; i < INSTRUMENT_SCOPE_WORDS; i++)
		set->bits[i] |= more->bits[i];
}

static void meet_sets(struct scope_set *set, const struct scope_set *other)
{
	for (uint32_t i = 0; i < INSTRUMENT_SCOPE_WORDS; i++)
		set->bits[i] &= other->bits[i];
}

/* ------------------------------------------------------------------ control flow */

/* The end of the function that begins with `node`. */
static struct node *end_of(struct node *node)
{
	return &node[node->function->block_count];
}

static struct node *successor_of(const struct node *node, uint32_t i)
{
	return &node->nodes[node->function->successors[node->block->first_successor + i]];
}

/* The marker `i` of a block, and its scope; NULL if it is an event. */
static const struct marker *marker_of(const struct node *node, uint32_t i, uint32_t *scope)
{
	uint32_t index = node->block->first_marker + i;
	const struct marker *marker = &node->function->markers[index].marker;

	*scope = node->plan->sites[index].scope;
	return marker->is_event ? NULL : marker;
}

/* Effect of a block's markers on the sets. */
static void read_block(struct flow *flow, struct node *node)
{
	for (uint32_t i = 0; i < node->block->marker_count; i++) {
		uint32_t scope;
		const struct marker *marker = marker_of(node, i, &scope);

		if (!marker)
			continue;
		if (node->function->is_callee)
			scope_set_add(&flow->in_callees, scope);
		if (marker->is_end) {
			scope_set_remove(&node->opens, scope);
			scope_set_add(&node->closes, scope);
			if (!scope_set_has(&node->starts, scope))
				scope_set_add(&node->ends, scope);
		} else {
			scope_set_add(&node->opens, scope);
			if (!scope_set_has(&node->ends, scope))
				scope_set_add(&node->starts, scope);
		}
	}
}

/* Appends the nodes of a function. */
static void add_function(struct flow *flow, const struct ir_function *function,
			 const struct plan *plan)
{
	struct node *first = &flow->nodes[flow->count];

	for (uint32_t b = 0; b <= function->block_count; b++) {
		struct node *node = &flow->nodes[flow->count++];

		node->function = function;
		node->plan = plan;
		node->nodes = first;
		if (b == function->block_count)
			break;
		node->block = &function->blocks[b];
		read_block(flow, node);
	}
}

static bool flow_init(struct flow *flow, const struct ir_function *kernel, const struct plan *plans)
{
	const struct callees *callees = kernel->callees;
	uint32_t callee_count = callees ? callees->count : 0;
	uint32_t count = kernel->block_count + 1;

	for (uint32_t i = 0; i < callee_count; i++)
		count += callees->functions[i].block_count + 1;
	flow->nodes = calloc(count, sizeof(*flow->nodes));
	flow->callees = calloc(callee_count + 1, sizeof(void *));
	if (!flow->nodes || !flow->callees)
		return false;
	add_function(flow, kernel, &plans[0]);
	for (uint32_t i = 0; i < callee_count; i++) {
		flow->callees[i] = &flow->nodes[flow->count];
		add_function(flow, &callees->functions[i], &plans[i + 1]);
	}
	flow->nodes[0].is_reached = true;
	return true;
}

/* The first node of the function that the block calls, or NULL. */
static struct node *callee_of(const struct flow *flow, const struct node *node)
{
	return node->block->call ? flow->callees[node->block->call->callee] : NULL;
}

/* ------------------------------------------------------------------ forward */

static void enter_block(struct flow *flow, struct node *to, const struct scope_set *may,
			const struct scope_set *must)
{
	struct node before = *to;

	if (!to->is_reached)
		to->must = *must;
	to->is_reached = true;
	join_sets(&to->may, may);
	meet_sets(&to->must, must);
	flow->has_changed |= !before.is_reached ||
			     memcmp(&before.may, &to->may, sizeof(to->may)) != 0 ||
			     memcmp(&before.must, &to->must, sizeof(to->must)) != 0;
}

static void propagate_forward(struct flow *flow, const struct node *node)
{
	struct node *callee = callee_of(flow, node);

	if (!node->is_reached)
		return;
	struct scope_set may = apply_sets(&node->may, &node->closes, &node->opens);
	struct scope_set must = apply_sets(&node->must, &node->closes, &node->opens);
	if (callee) {
		const struct node *end = end_of(callee);

		enter_block(flow, callee, &may, &must);
		if (!end->is_reached)
			return;
		may = choose_bits(&flow->in_callees, &end->may, &may);
		must = choose_bits(&flow->in_callees, &end->must, &must);
	}
	for (uint32_t i = 0; i < node->block->successor_count; i++)
		enter_block(flow, successor_of(node, i), &may, &must);
}

/* ------------------------------------------------------------------ backward */

static void merge_ending(struct flow *flow, struct node *to, const struct scope_set *ending)
{
	struct scope_set before = to->ending;

	join_sets(&to->ending, ending);
	flow->has_changed |= memcmp(&before, &to->ending, sizeof(before)) != 0;
}

/* Scopes that may end after a block. */
static struct scope_set ending_after(const struct flow *flow, const struct node *node)
{
	const struct node *callee = callee_of(flow, node);
	struct scope_set ending = {{0}};

	for (uint32_t i = 0; i < node->block->successor_count; i++)
		join_sets(&ending, &successor_of(node, i)->ending);
	return callee ? choose_bits(&flow->in_callees, &callee->ending, &ending) : ending;
}

static void propagate_backward(struct flow *flow, struct node *node)
{
	struct scope_set ending = ending_after(flow, node);
	struct node *callee = callee_of(flow, node);

	if (callee)
		merge_ending(flow, end_of(callee), &node[1].ending);
	ending = apply_sets(&ending, &node->starts, &node->ends);
	merge_ending(flow, node, &ending);
}

/* Iterates to a fixed point. False if there are too many passes. */
static bool solve_nesting(struct flow *flow)
{
	uint32_t rounds = 0;

	do {
		flow->has_changed = false;
		for (uint32_t i = 0; i < flow->count; i++)
			if (flow->nodes[i].block)
				propagate_forward(flow, &flow->nodes[i]);
	} while (flow->has_changed && ++rounds < ROUNDS_MAX);
	if (flow->has_changed)
		return false;
	rounds = 0;
	do {
		flow->has_changed = false;
		for (uint32_t i = flow->count; i-- > 0;)
			if (flow->nodes[i].block)
				propagate_backward(flow, &flow->nodes[i]);
	} while (flow->has_changed && ++rounds < ROUNDS_MAX);
	return !flow->has_changed;
}

/* ------------------------------------------------------------------ results */

/* Per scope: the scopes open at its starts. */
struct found {
	struct scope_set around[INSTRUMENT_CODE_MAX]; /* may be open at a start or an end */
	struct scope_set must[INSTRUMENT_CODE_MAX];   /* at every start */
	struct scope_set ending[INSTRUMENT_CODE_MAX]; /* may end after some start */
	bool is_started[INSTRUMENT_CODE_MAX];
};

static void collect_forward(const struct node *node, struct found *found)
{
	struct scope_set may = node->may;
	struct scope_set must = node->must;

	for (uint32_t i = 0; i < node->block->marker_count; i++) {
		uint32_t scope;
		const struct marker *marker = marker_of(node, i, &scope);

		if (!marker)
			continue;
		if (marker->is_end) {
			scope_set_remove(&may, scope);
			scope_set_remove(&must, scope);
			join_sets(&found->around[scope], &may);
			continue;
		}
		join_sets(&found->around[scope], &may);
		if (!found->is_started[scope])
			found->must[scope] = must;
		meet_sets(&found->must[scope], &must);
		found->is_started[scope] = true;
		scope_set_add(&may, scope);
		scope_set_add(&must, scope);
	}
}

static void collect_backward(const struct flow *flow, const struct node *node, struct found *found)
{
	struct scope_set ending = ending_after(flow, node);

	for (uint32_t i = node->block->marker_count; i-- > 0;) {
		uint32_t scope;
		const struct marker *marker = marker_of(node, i, &scope);

		if (marker && marker->is_end) {
			scope_set_add(&ending, scope);
		} else if (marker) {
			join_sets(&found->ending[scope], &ending);
			scope_set_remove(&ending, scope);
		}
	}
}

uint16_t static_nesting_parent(const struct scope_set *around, uint32_t scope, uint32_t count)
{
	uint16_t parent = INSTRUMENT_NO_SCOPE;

	for (uint32_t p = 0; p < count; p++) {
		bool is_ordered = scope_set_has(&around[scope], p);

		for (uint32_t q = 0; q < count && is_ordered; q++)
			is_ordered = q == p || !scope_set_has(&around[scope], q) ||
				     scope_set_has(&around[p], q) || scope_set_has(&around[q], p);
		if (is_ordered &&
		    (parent == INSTRUMENT_NO_SCOPE || scope_set_has(&around[p], parent)))
			parent = (uint16_t)p;
	}
	return parent;
}

static bool store_found(const struct flow *flow, struct found *found,
			struct instrument_layout *layout)
{
	struct instrument_nesting *nesting = layout_nesting(layout);

	if (!nesting)
		return false;
	for (uint32_t i = 0; i < flow->count; i++) {
		if (!flow->nodes[i].is_reached || !flow->nodes[i].block)
			continue;
		collect_forward(&flow->nodes[i], found);
		collect_backward(flow, &flow->nodes[i], found);
	}
	for (uint32_t i = 0; i < layout->scope_count; i++) {
		meet_sets(&found->must[i], &found->ending[i]);
		scope_set_remove(&found->must[i], i);
	}
	for (uint32_t i = 0; i < layout->scope_count; i++) {
		nesting[i].is_known = found->is_started[i];
		if (!found->is_started[i])
			continue;
		nesting[i].around = found->around[i];
		nesting[i].parent = static_nesting_parent(found->must, i, layout->scope_count);
	}
	return true;
}

bool static_nesting(const struct ir_function *kernel, const struct plan *plans,
		    struct instrument_layout *layout)
{
	struct flow flow = {.nodes = NULL};
	struct found *found = calloc(1, sizeof(*found));
	bool is_ok = found && flow_init(&flow, kernel, plans);

	if (is_ok && solve_nesting(&flow))
		is_ok = store_found(&flow, found, layout);
	FREE_ALL(flow.nodes, flow.callees, found);
	return is_ok;
}
