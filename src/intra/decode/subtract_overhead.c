/*
 * Executions become as if the clock had stood still while records were made. Between two readings
 * lies the cost of a reading, and of the records that were stored behind the first one: those of
 * the executions that ended with it. Executions that begin or end together share a reading and have
 * equal clocks.
 *
 * Costs are means: where less time than that has passed, what is missing is taken off later.
 */
#include "intra/decode/subtract_overhead.h"

#include <stdlib.h>

#include "base/array.h"

/* No kernel runs for years: what bytes say beyond that is cut, so that sums of it have room. */
#define ELAPSED_MAX (1ull << 58)

struct decode_end {
	uint64_t clock;
	uint32_t index; /* of the execution in its unit */
};

/* The clock that stood still. */
struct stopped {
	const struct decode_overhead *cost;
	uint64_t origin; /* the first reading */
	uint64_t at;     /* the latest */
	int64_t spent;   /* on records until then, in parts of a cycle */
	int64_t moved;   /* the latest without that, after `origin`, in parts of a cycle */
	uint32_t stored; /* records behind the latest */
};

/* The reading of `clock`, which is not before the latest, on the clock that stood still. */
static uint64_t pass(struct stopped *stopped, uint64_t clock)
{
	if (clock != stopped->at) {
		int64_t reading = stopped->cost->empty;
		int64_t record = stopped->cost->scope - 2 * reading;
		uint64_t elapsed = clock - stopped->origin;
		int64_t moved;

		if (elapsed > ELAPSED_MAX)
			elapsed = ELAPSED_MAX;
		stopped->spent += reading + stopped->stored * record;
		stopped->stored = 0;
		stopped->at = clock;
		moved = (int64_t)(elapsed * DECODE_CYCLE) - stopped->spent;
		if (moved > stopped->moved)
			stopped->moved = moved;
	}
	return stopped->origin +
	       (uint64_t)(stopped->moved + (int64_t)(DECODE_CYCLE / 2)) / DECODE_CYCLE;
}

static int compare_ends(const void *a, const void *b)
{
	const struct decode_end *x = a;
	const struct decode_end *y = b;

	return (x->clock > y->clock) - (x->clock < y->clock);
}

/* By clock. An end is mostly behind those of a few executions that lie around it. */
static void sort_ends(struct decode_end *ends, uint32_t count)
{
	uint64_t moves_left = (uint64_t)count * 8;

	for (uint32_t i = 1; i < count; i++) {
		struct decode_end early = ends[i];
		uint32_t at = i;

		for (; at && ends[at - 1].clock > early.clock && moves_left; at--, moves_left--)
			ends[at] = ends[at - 1];
		ends[at] = early;
	}
	if (!moves_left)
		qsort(ends, count, sizeof(*ends), compare_ends);
}

bool decode_subtract_overhead(struct decoder *decoder, const struct decode_unit *unit)
{
	struct decode_execution *all = decoder->executions + unit->first;
	struct stopped stopped = {.cost = &decoder->cost, .origin = all->start, .at = all->start};
	struct decode_end *ends;
	uint32_t started = 0;

	if (!array_reserve(&decoder->ends, &decoder->end_capacity, unit->count,
			   sizeof(*decoder->ends)))
		return false;
	ends = decoder->ends;
	for (uint32_t i = 0; i < unit->count; i++)
		ends[i] = (struct decode_end){decode_end_of(&all[i]), i};
	sort_ends(ends, unit->count);
	for (uint32_t i = 0; i < unit->count; i++) {
		for (; started < unit->count && all[started].start <= ends[i].clock; started++)
			all[started].start = pass(&stopped, all[started].start);
		ends[i].clock = pass(&stopped, ends[i].clock);
		stopped.stored++;
	}
	for (uint32_t i = 0; i < unit->count; i++) {
		struct decode_execution *execution = &all[ends[i].index];

		/* No pass has written one that ends before it starts, but bytes are bytes. */
		execution->duration =
			ends[i].clock < execution->start ? 0 : ends[i].clock - execution->start;
	}
	return true;
}
