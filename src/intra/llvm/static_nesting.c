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
#include <stdlib.h>
#include <string.h>

#include "intra/llvm/record_plan.h"

/* Maximum passes over all blocks. The depth of loops and calls plus a few is enough. */
#define ROUNDS_MAX 64u

/* State at a block, or at the end of a function, the target of its returns. */
struct state {
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
	const struct ir_function *kernel;
	const struct plan *plans;
	struct state *states;
	uint32_t *first; /* per function: index of its first block's state */
	uint32_t function_count;
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

static const struct ir_function *function_of(const struct flow *flow, uint32_t function)
{
	return function ? &flow->kernel->callees->functions[function - 1] : flow->kernel;
}

static struct state *state_of(const struct flow *flow, uint32_t function, uint32_t block)
{
	return &flow->states[flow->first[function] + block];
}

static struct state *end_of(const struct flow *flow, uint32_t function)
{
	return state_of(flow, function, function_of(flow, function)->block_count);
}

/* Effect of a block's markers on the sets. */
static void read_block(struct flow *flow, uint32_t f, uint32_t b)
{
	const struct ir_function *function = function_of(flow, f);
	const struct ir_block *block = &function->blocks[b];
	struct state *state = state_of(flow, f, b);

	for (uint32_t i = 0; i < block->marker_count; i++) {
		uint32_t marker = block->first_marker + i;
		uint32_t scope = flow->plans[f].sites[marker].scope;

		if (function->markers[marker].marker.is_event)
			continue;
		if (f)
			scope_set_add(&flow->in_callees, scope);
		if (function->markers[marker].marker.is_end) {
			scope_set_remove(&state->opens, scope);
			scope_set_add(&state->closes, scope);
			if (!scope_set_has(&state->starts, scope))
				scope_set_add(&state->ends, scope);
		} else {
			scope_set_add(&state->opens, scope);
			if (!scope_set_has(&state->ends, scope))
				scope_set_add(&state->starts, scope);
		}
	}
}

static bool flow_init(struct flow *flow)
{
	const struct callees *callees = flow->kernel->callees;
	uint32_t count = 0;

	flow->function_count = 1 + (callees ? callees->count : 0);
	flow->first = calloc(flow->function_count, sizeof(*flow->first));
	if (!flow->first)
		return false;
	for (uint32_t f = 0; f < flow->function_count; f++) {
		flow->first[f] = count;
		count += function_of(flow, f)->block_count + 1;
	}
	flow->states = calloc(count, sizeof(*flow->states));
	if (!flow->states)
		return false;
	for (uint32_t f = 0; f < flow->function_count; f++)
		for (uint32_t b = 0; b < function_of(flow, f)->block_count; b++)
			read_block(flow, f, b);
	flow->states[0].is_reached = true;
	return true;
}

static void flow_fini(struct flow *flow)
{
	free(flow->first);
	free(flow->states);
}

/* ------------------------------------------------------------------ forward */

static void enter_block(struct flow *flow, struct state *to, const struct scope_set *may,
			const struct scope_set *must)
{
	struct state before = *to;

	if (!to->is_reached)
		to->must = *must;
	to->is_reached = true;
	join_sets(&to->may, may);
	meet_sets(&to->must, must);
	flow->has_changed |= !before.is_reached ||
			     memcmp(&before.may, &to->may, sizeof(to->may)) != 0 ||
			     memcmp(&before.must, &to->must, sizeof(to->must)) != 0;
}

static void propagate_forward(struct flow *flow, uint32_t f, uint32_t b)
{
	const struct ir_function *function = function_of(flow, f);
	const struct ir_block *block = &function->blocks[b];
	const struct state *state = state_of(flow, f, b);
	struct scope_set may;
	struct scope_set must;

	if (!state->is_reached)
		return;
	may = apply_sets(&state->may, &state->closes, &state->opens);
	must = apply_sets(&state->must, &state->closes, &state->opens);
	if (block->call) {
		const struct state *end = end_of(flow, block->call->callee + 1);

		enter_block(flow, state_of(flow, block->call->callee + 1, 0), &may, &must);
		if (!end->is_reached)
			return;
		may = choose_bits(&flow->in_callees, &end->may, &may);
		must = choose_bits(&flow->in_callees, &end->must, &must);
	}
	for (uint32_t i = 0; i < block->successor_count; i++)
		enter_block(flow,
			    state_of(flow, f, function->successors[block->first_successor + i]),
			    &may, &must);
}

/* ------------------------------------------------------------------ backward */

static void merge_ending(struct flow *flow, struct state *to, const struct scope_set *ending)
{
	struct scope_set before = to->ending;

	join_sets(&to->ending, ending);
	flow->has_changed |= memcmp(&before, &to->ending, sizeof(before)) != 0;
}

/* Scopes that may end after a block. */
static struct scope_set ending_after(const struct flow *flow, uint32_t f, uint32_t b)
{
	const struct ir_function *function = function_of(flow, f);
	const struct ir_block *block = &function->blocks[b];
	struct scope_set ending = {{0}};

	for (uint32_t i = 0; i < block->successor_count; i++)
		join_sets(&ending,
			  &state_of(flow, f, function->successors[block->first_successor + i])
				   ->ending);
	if (block->call)
		ending = choose_bits(&flow->in_callees,
				     &state_of(flow, block->call->callee + 1, 0)->ending, &ending);
	return ending;
}

static void propagate_backward(struct flow *flow, uint32_t f, uint32_t b)
{
	const struct ir_block *block = &function_of(flow, f)->blocks[b];
	struct state *state = state_of(flow, f, b);
	struct scope_set ending = ending_after(flow, f, b);

	if (block->call)
		merge_ending(flow, end_of(flow, block->call->callee + 1),
			     &state_of(flow, f, b + 1)->ending);
	ending = apply_sets(&ending, &state->starts, &state->ends);
	merge_ending(flow, state, &ending);
}

/* Iterates to a fixed point. False if there are too many passes. */
static bool solve_nesting(struct flow *flow)
{
	uint32_t rounds = 0;

	do {
		flow->has_changed = false;
		for (uint32_t f = 0; f < flow->function_count; f++)
			for (uint32_t b = 0; b < function_of(flow, f)->block_count; b++)
				propagate_forward(flow, f, b);
	} while (flow->has_changed && ++rounds < ROUNDS_MAX);
	if (flow->has_changed)
		return false;
	rounds = 0;
	do {
		flow->has_changed = false;
		for (uint32_t f = flow->function_count; f-- > 0;)
			for (uint32_t b = function_of(flow, f)->block_count; b-- > 0;)
				propagate_backward(flow, f, b);
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

static void collect_forward(const struct flow *flow, uint32_t f, uint32_t b, struct found *found)
{
	const struct ir_function *function = function_of(flow, f);
	const struct ir_block *block = &function->blocks[b];
	struct scope_set may = state_of(flow, f, b)->may;
	struct scope_set must = state_of(flow, f, b)->must;

	for (uint32_t i = 0; i < block->marker_count; i++) {
		const struct marker *marker = &function->markers[block->first_marker + i].marker;
		uint32_t scope = flow->plans[f].sites[block->first_marker + i].scope;

		if (marker->is_event)
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

static void collect_backward(const struct flow *flow, uint32_t f, uint32_t b, struct found *found)
{
	const struct ir_function *function = function_of(flow, f);
	const struct ir_block *block = &function->blocks[b];
	struct scope_set ending = ending_after(flow, f, b);

	for (uint32_t i = block->marker_count; i-- > 0;) {
		const struct marker *marker = &function->markers[block->first_marker + i].marker;
		uint32_t scope = flow->plans[f].sites[block->first_marker + i].scope;

		if (marker->is_event)
			continue;
		if (marker->is_end) {
			scope_set_add(&ending, scope);
			continue;
		}
		join_sets(&found->ending[scope], &ending);
		scope_set_remove(&ending, scope);
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
	for (uint32_t f = 0; f < flow->function_count; f++)
		for (uint32_t b = 0; b < function_of(flow, f)->block_count; b++) {
			if (!state_of(flow, f, b)->is_reached)
				continue;
			collect_forward(flow, f, b, found);
			collect_backward(flow, f, b, found);
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
	struct flow flow = {.kernel = kernel, .plans = plans};
	struct found *found = calloc(1, sizeof(*found));
	bool is_ok = found && flow_init(&flow);

	if (is_ok && solve_nesting(&flow))
		is_ok = store_found(&flow, found, layout);
	flow_fini(&flow);
	free(found);
	return is_ok;
}
