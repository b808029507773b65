/*
 * Pairing the starts and ends of async events into executions.
 *
 * An end is paired with the oldest open start of its own unit. The remaining starts and ends of a
 * scope are in different units, often several: each warp of a partition records that it has seen
 * the end. A record does not identify its event, but units start and wait for events in the same
 * order. So the k-th end of one unit is paired with the k-th start of the other, no matter how far
 * ahead that is. Pairing with the oldest open start instead would give the second warp that sees an
 * end the start of the next event.
 */
#include "intra/decode/decode_parts.h"

#include "base/array.h"

/* Unpaired starts or ends of one unit and scope: ascending indices. */
struct list {
	uint32_t *at;
	uint32_t count;
	bool is_cut; /* counterparts may have been overwritten */
};

struct matching {
	struct decoder *decoder;
	struct decode_async_event *events; /* the decoder's, sorted */
	bool any_dropped;
	struct list starts[INSTRUMENT_UNIT_MAX];
	struct list ends[INSTRUMENT_UNIT_MAX];
};

/* At equal clocks starts first. */
ARRAY_ORDER(compare_events, struct decode_async_event,
	    ORDER_OF(a->scope, b->scope)
		    ?: ORDER_OF(a->clock, b->clock)
		    ?: ORDER_OF(a->is_end, b->is_end)
		    ?: ORDER_OF(a->unit, b->unit)
		    ?: ORDER_OF(a->sequence, b->sequence))

static struct list *list_of(struct matching *matching, const struct decode_async_event *event)
{
	return event->is_end ? &matching->ends[event->unit] : &matching->starts[event->unit];
}

/* Splits the events [first, last) into lists, which use the decoder's work space. */
static void make_lists(struct matching *matching, uint32_t first, uint32_t last)
{
	uint32_t *at = matching->decoder->event_lists;

	memset(matching->starts, 0, sizeof(matching->starts));
	memset(matching->ends, 0, sizeof(matching->ends));
	for (uint32_t i = first; i < last; i++)
		list_of(matching, &matching->events[i])->count++;
	for (uint32_t u = 0; u < INSTRUMENT_UNIT_MAX; u++) {
		matching->starts[u].at = at;
		at += matching->starts[u].count;
		matching->starts[u].count = 0;
		matching->ends[u].at = at;
		at += matching->ends[u].count;
		matching->ends[u].count = 0;
	}
	for (uint32_t i = first; i < last; i++) {
		struct list *list = list_of(matching, &matching->events[i]);

		list->at[list->count++] = i;
	}
}

/* False if the end would be before the start. */
static bool match_event(struct decode_async_event *events, uint32_t start, uint32_t end)
{
	if (end < start)
		return false;
	if (end < events[start].mate)
		events[start].mate = end;
	events[end].mate = start;
	return true;
}

/* Pairs a unit's ends with its own starts, oldest first; the others stay in the lists. */
static void match_own(struct decode_async_event *events, struct list *starts, struct list *ends)
{
	uint32_t kept = 0, next = 0;

	for (uint32_t i = 0; i < ends->count; i++) {
		if (next < starts->count && match_event(events, starts->at[next], ends->at[i]))
			next++;
		else
			ends->at[kept++] = ends->at[i];
	}
	ends->count = kept;
	starts->at += next;
	starts->count -= next;
}

static bool has_lost(const struct matching *matching, const struct list *list)
{
	return matching->decoder->units[matching->events[*list->at].unit].dropped != 0;
}

/* Pairs in order, or backwards from the last if the first ones may have been overwritten. */
static void match_lists(struct matching *matching, struct list *starts, struct list *ends)
{
	uint32_t count = starts->count < ends->count ? starts->count : ends->count;
	const uint32_t *start = starts->at;
	const uint32_t *end = ends->at;

	if (has_lost(matching, starts) || has_lost(matching, ends)) {
		start += starts->count - count;
		end += ends->count - count;
		starts->is_cut = true;
		ends->is_cut = true;
	}
	for (uint32_t i = 0; i < count; i++)
		match_event(matching->events, start[i], end[i]);
}

/* Selects the lists that are not empty. */
static uint32_t choose_lists(struct list *lists, struct list **chosen)
{
	uint32_t count = 0;

	for (uint32_t u = 0; u < INSTRUMENT_UNIT_MAX; u++)
		if (lists[u].count)
			chosen[count++] = &lists[u];
	return count;
}

/*
 * With as many starting units as ending units, pairs one with one. Otherwise each unit of the
 * shorter side is paired with several of the longer. Each list of the longer side is visited once,
 * so this is linear in the events.
 */
static void match_across(struct matching *matching)
{
	struct list *starts[INSTRUMENT_UNIT_MAX];
	struct list *ends[INSTRUMENT_UNIT_MAX];
	uint32_t start_count = choose_lists(matching->starts, starts);
	uint32_t end_count = choose_lists(matching->ends, ends);
	uint32_t count = start_count > end_count ? start_count : end_count;

	if (start_count && end_count)
		for (uint32_t i = 0; i < count; i++)
			match_lists(matching, starts[i % start_count], ends[i % end_count]);
	else
		/* All records of the other side may have been overwritten, in any unit. */
		for (uint32_t i = 0; i < count; i++)
			(start_count ? starts : ends)[i]->is_cut = matching->any_dropped;
}

static void count_alone(struct matching *matching, const struct decode_async_event *event)
{
	struct decode_totals *totals = &matching->decoder->totals;

	if (list_of(matching, event)->is_cut)
		totals->cut_by_drop[event->scope]++;
	else
		totals->broken[event->scope]++;
}

/* The capacity was reserved. */
static void add_execution(struct decoder *decoder, struct decode_async_event *start)
{
	const struct decode_async_event *end = &decoder->events[start->mate];

	start->execution = (uint32_t)decoder->execution_count;
	decoder->executions[decoder->execution_count++] = (struct decode_execution){
		.start = start->clock,
		.duration = end->clock - start->clock,
		.parent = DECODE_NONE,
		.sequence = end->sequence,
		.scope = start->scope,
		.unit = start->unit,
		.end_unit = end->unit,
		.is_async = true,
	};
}

/* Makes an execution of a start, or adds an end to its execution. Starts come before their ends. */
static void add_event(struct matching *matching, uint32_t index)
{
	struct decoder *decoder = matching->decoder;
	struct decode_async_event *event = &matching->events[index];

	if (event->mate == DECODE_NONE) {
		count_alone(matching, event);
		return;
	}
	if (!event->is_end) {
		add_execution(decoder, event);
		return;
	}
	const struct decode_async_event *start = &matching->events[event->mate];
	if (start->mate != index)
		decoder->late_ends[decoder->late_end_count++] =
			(struct decode_late_end){event->clock, start->execution, event->unit};
}

/* The events [first, last) have the same scope. */
static void match_scope(struct matching *matching, uint32_t first, uint32_t last)
{
	struct decode_async_event *events = matching->events;

	make_lists(matching, first, last);
	for (uint32_t u = 0; u < INSTRUMENT_UNIT_MAX; u++)
		match_own(events, &matching->starts[u], &matching->ends[u]);
	match_across(matching);
	for (uint32_t i = first; i < last; i++)
		add_event(matching, i);
}

bool decode_async_events(struct decoder *decoder)
{
	uint32_t count = (uint32_t)decoder->event_count;
	struct matching matching;
	uint32_t first = 0;

	if (!count)
		return true;
	if (!array_reserve(&decoder->executions, &decoder->execution_capacity,
			   decoder->execution_count + count, sizeof(*decoder->executions)) ||
	    !array_reserve(&decoder->late_ends, &decoder->late_end_capacity, count,
			   sizeof(*decoder->late_ends)) ||
	    !array_reserve(&decoder->event_lists, &decoder->event_list_capacity, count,
			   sizeof(*decoder->event_lists)))
		return false;
	matching.decoder = decoder;
	matching.events = decoder->events;
	matching.any_dropped = false;
	for (uint32_t u = 0; u < decoder->layout->unit_count; u++)
		matching.any_dropped |= decoder->units[u].dropped != 0;
	ARRAY_SORT(decoder->events, count, compare_events);
	for (uint32_t i = 1; i <= count; i++) {
		if (i < count && decoder->events[i].scope == decoder->events[first].scope)
			continue;
		match_scope(&matching, first, i);
		first = i;
	}
	return true;
}
