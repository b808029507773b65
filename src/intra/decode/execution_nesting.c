/* Nesting of a unit's executions, and closing of scopes without a recorded end. */
#include "intra/decode/decode_parts.h"

#include "base/array.h"

/* ------------------------------------------------------------------ nesting by time */

/* By start, parents first: a parent ends later, or its end was recorded later. */
static int compare_executions(const void *a, const void *b)
{
	const struct decode_execution *x = a;
	const struct decode_execution *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->duration != y->duration)
		return x->duration > y->duration ? -1 : 1;
	return (x->sequence < y->sequence) - (x->sequence > y->sequence);
}

/* Most are sorted already; a few come after executions that they contain. */
static void sort_executions(struct decode_execution *all, uint32_t count)
{
	uint64_t moves_left = (uint64_t)count * 8;

	for (uint32_t i = 1; i < count && moves_left; i++) {
		uint32_t at = i;

		if (compare_executions(&all[i - 1], &all[i]) <= 0)
			continue;
		struct decode_execution late = all[i];
		for (; at && moves_left && compare_executions(&all[at - 1], &late) > 0; at--) {
			all[at] = all[at - 1];
			moves_left--;
		}
		all[at] = late;
	}
	if (!moves_left)
		ARRAY_SORT(all, count, compare_executions);
}

static inline bool is_over(uint64_t end, uint32_t sequence, const struct decode_execution *next)
{
	return end < next->start || (end == next->start && sequence < next->sequence);
}

/* True if each starts after the previous one ended, so none contains another. */
static bool is_flat(const struct decode_execution *all, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++)
		if (all[i].start <= all[i - 1].start ||
		    !is_over(decode_end_of(&all[i - 1]), all[i - 1].sequence, &all[i]))
			return false;
	return true;
}

/* Sets the parents; the unit's executions are sorted. */
static void nest_executions(struct decode_execution *all, uint32_t first, uint32_t count)
{
	struct {
		uint64_t end;
		uint32_t sequence, index;
	} stack[DECODE_DEPTH_MAX];
	uint32_t depth = 0;

	for (uint32_t i = first; i < first + count; i++) {
		uint64_t end = decode_end_of(&all[i]);
		uint32_t at;

		while (depth && is_over(stack[depth - 1].end, stack[depth - 1].sequence, &all[i]))
			depth--;
		/* An execution that only overlaps is not a parent. */
		for (at = depth; at && stack[at - 1].end < end;)
			at--;
		all[i].parent = at ? stack[at - 1].index : DECODE_NONE;
		if (depth == DECODE_DEPTH_MAX)
			continue;
		stack[depth].end = end;
		stack[depth].sequence = all[i].sequence;
		stack[depth++].index = i;
	}
}

/* ------------------------------------------------------------------ scopes without end */

/*
 * Scopes without a recorded end: the kernel exited them on another path, or the record is corrupt.
 * The compiler knows which scopes run only inside them (static_nesting.c); while one of those runs,
 * they are open. They last from their start, or from the oldest remaining record, at least until
 * the end of the last such execution.
 */
struct opening {
	struct decoder *decoder;
	const struct decode_ring *ring;
	/* by scope: index of the open execution, or DECODE_NONE */
	uint32_t open[INSTRUMENT_CODE_MAX];
	/* By scope: start of its first execution; 0: open at the oldest record. */
	uint64_t first[INSTRUMENT_CODE_MAX];
};

static bool is_open(const struct decode_execution *execution)
{
	return execution->sequence == DECODE_OPEN;
}

/* Extends the open execution; `parent` is its last inner execution until the end is known. */
static void set_reach(struct decode_execution *all, uint32_t outer, uint32_t inner)
{
	uint32_t last = all[outer].parent;

	if (last == DECODE_NONE || decode_end_of(&all[inner]) > decode_end_of(&all[last]))
		all[outer].parent = inner;
}

/*
 * Adds an execution for a scope that was open at the oldest record and has no records, as `inner`
 * implies. The capacity was reserved.
 */
static uint32_t open_before(struct opening *opening, uint16_t scope,
			    const struct decode_execution *inner)
{
	struct decoder *decoder = opening->decoder;
	uint32_t at = (uint32_t)decoder->execution_count++;

	opening->first[scope] = 0;
	decoder->executions[at] = (struct decode_execution){
		.start = inner->start < opening->ring->oldest ? inner->start
							      : opening->ring->oldest,
		.parent = DECODE_NONE,
		.sequence = DECODE_OPEN,
		.scope = scope,
		.unit = inner->unit,
		.end_unit = inner->unit,
	};
	return at;
}

/*
 * True if `outer`, which contains `inner`, started before the oldest record. False for a scope that
 * may contain itself, because the known execution may be the inner one.
 */
static bool was_open_before(const struct opening *opening, uint16_t outer,
			    const struct decode_execution *inner)
{
	return opening->ring->first && opening->open[outer] == DECODE_NONE &&
	       opening->first[outer] && decode_end_of(inner) <= opening->first[outer] &&
	       !layout_may_contain(opening->decoder->layout, outer, outer);
}

/* An execution ended: all scopes around it last at least as long. */
static void reach_end(struct opening *opening, uint32_t index)
{
	struct decode_execution *all = opening->decoder->executions;
	const struct instrument_layout *layout = opening->decoder->layout;
	uint16_t scope = all[index].scope;
	uint16_t outer = layout->nesting[scope].parent;

	for (; outer != INSTRUMENT_NO_SCOPE && layout_may_contain(layout, outer, scope);
	     outer = layout->nesting[outer].parent) {
		if (was_open_before(opening, outer, &all[index]))
			opening->open[outer] = open_before(opening, outer, &all[index]);
		if (opening->open[outer] != DECODE_NONE)
			set_reach(all, opening->open[outer], index);
	}
}

/* Visits the unit's executions in order of their starts; new ones are appended. */
static void find_reaches(struct opening *opening, uint32_t first, uint32_t end)
{
	const struct instrument_layout *layout = opening->decoder->layout;
	const struct decode_execution *all = opening->decoder->executions;

	memset(opening->open, 0xff, sizeof(opening->open));
	memset(opening->first, 0xff, sizeof(opening->first));
	for (uint32_t i = first; i < end; i++)
		if (all[i].is_partial)
			opening->first[all[i].scope] = 0;
		else if (all[i].start < opening->first[all[i].scope])
			opening->first[all[i].scope] = all[i].start;
	for (uint32_t i = first; i < end; i++) {
		uint16_t scope = all[i].scope;

		if (is_open(&all[i])) {
			opening->open[scope] = i;
			continue;
		}
		/* The previous one has ended, unless this one is inside it. */
		if (!layout_may_contain(layout, scope, scope))
			opening->open[scope] = DECODE_NONE;
		reach_end(opening, i);
	}
}

static uint32_t depth_of(const struct instrument_layout *layout, uint16_t scope)
{
	uint32_t depth = 0;

	while ((scope = layout->nesting[scope].parent) != INSTRUMENT_NO_SCOPE)
		depth++;
	return depth;
}

/* Sequence numbers of executions closed here, greater than all records have. */
#define CLOSED_MIN (DECODE_OPEN - 1 - INSTRUMENT_CODE_MAX)

/* Closes an open execution at its last inner execution; it stays open if there is none. */
static void close_open(struct decoder *decoder, struct decode_execution *execution)
{
	if (execution->parent == DECODE_NONE)
		return;
	const struct decode_execution *last = &decoder->executions[execution->parent];
	execution->duration = decode_end_of(last) - execution->start;
	execution->parent = DECODE_NONE;
	/* Outer executions are sorted after inner ones. */
	execution->sequence = DECODE_OPEN - 1 - depth_of(decoder->layout, execution->scope);
	execution->is_partial = true;
	decoder->totals.partial[execution->scope]++;
}

/*
 * A child must end within its parent, and an execution that contains one which started before the
 * oldest record must have started there too.
 */
static void extend_parent(const struct decoder *decoder, struct decode_execution *outer,
			  const struct decode_execution *inner)
{
	uint64_t until = decode_end_of(outer);
	uint64_t inner_end = decode_end_of(inner);

	if (is_open(inner) || !layout_may_contain(decoder->layout, outer->scope, inner->scope))
		return;
	if (inner->start >= outer->start)
		until = inner->start < until && inner_end > until ? inner_end : until;
	else if (inner_end > outer->start && inner_end < until)
		outer->start = inner->start;
	outer->duration = until - outer->start;
}

/*
 * Executions from `unordered` on are not sorted: they started before the oldest record. True if the
 * execution became longer.
 */
static bool extend_around_children(const struct decoder *decoder, uint32_t first,
				   uint32_t unordered, uint32_t index)
{
	const struct decode_execution *all = decoder->executions;
	struct decode_execution *outer = &decoder->executions[index];
	uint64_t duration = outer->duration;

	for (uint32_t i = index < unordered ? index + 1 : first;
	     i < unordered && all[i].start < decode_end_of(outer); i++)
		extend_parent(decoder, outer, &all[i]);
	for (uint32_t i = unordered; i < decoder->execution_count; i++)
		if (i != index)
			extend_parent(decoder, outer, &all[i]);
	return outer->duration != duration;
}

static void extend_all(const struct decoder *decoder, uint32_t first, uint32_t unordered)
{
	const struct decode_execution *all = decoder->executions;
	uint32_t rounds = DECODE_DEPTH_MAX;
	bool has_changed = true;

	while (has_changed && rounds--) {
		has_changed = false;
		for (uint32_t i = (uint32_t)decoder->execution_count; i-- > first;)
			if (all[i].sequence >= CLOSED_MIN && !is_open(&all[i]))
				has_changed |= extend_around_children(decoder, first, unordered, i);
	}
}

/* Removes executions that are still open. */
static void remove_open(struct decoder *decoder, uint32_t first)
{
	size_t kept = first;

	for (size_t i = first; i < decoder->execution_count; i++)
		if (!is_open(&decoder->executions[i]))
			decoder->executions[kept++] = decoder->executions[i];
	decoder->execution_count = kept;
}

static bool close_all(struct decoder *decoder, uint32_t first, const struct decode_ring *ring)
{
	uint32_t end = (uint32_t)decoder->execution_count;
	struct opening opening = {.decoder = decoder, .ring = ring};

	if (!array_reserve(&decoder->executions, &decoder->execution_capacity,
			   (size_t)end + decoder->layout->scope_count,
			   sizeof(*decoder->executions)))
		return false;
	/* A scope that is still open contains what starts with it. */
	for (uint32_t i = first; i < end; i++)
		if (is_open(&decoder->executions[i]))
			decoder->executions[i].duration = UINT64_MAX - decoder->executions[i].start;
	sort_executions(decoder->executions + first, end - first);
	find_reaches(&opening, first, end);
	for (uint32_t i = first; i < decoder->execution_count; i++)
		if (is_open(&decoder->executions[i]))
			close_open(decoder, &decoder->executions[i]);
	extend_all(decoder, first, end);
	return true;
}

bool decode_execution_nesting(struct decoder *decoder, uint32_t first,
			      const struct decode_ring *ring)
{
	bool has_nesting = decoder->layout->nesting;

	if (has_nesting && (ring->open_count || ring->first) && !close_all(decoder, first, ring))
		return false;
	if (ring->open_count)
		remove_open(decoder, first);
	uint32_t count = (uint32_t)decoder->execution_count - first;
	if (count && !is_flat(decoder->executions + first, count)) {
		sort_executions(decoder->executions + first, count);
		nest_executions(decoder->executions, first, count);
	}
	return true;
}
