/*
 * Subtraction of record overhead: times as if the clock were stopped while records are made. Two
 * clock reads are apart by the cost of a clock read, plus the cost of the records stored after the
 * first one. Those are the records of executions that ended with it. Executions that start or end
 * together share a clock read and have equal clocks.
 *
 * The overhead is a mean. If less time has passed, the remainder is subtracted later.
 */
#include "intra/decode/decode_parts.h"

#include "base/array.h"

/* No kernel runs for years. Larger values are truncated, so sums cannot overflow. */
#define ELAPSED_MAX (1ull << 58)

struct decode_end {
	uint64_t clock;
	uint32_t index; /* index of the execution in its unit */
};

/* The stopped clock. */
struct stopped {
	const struct decode_overhead *overhead;
	uint64_t origin; /* first clock read */
	uint64_t at;     /* latest clock read */
	int64_t spent;   /* overhead until then, in fractions of a cycle */
	/* latest clock read without overhead, relative to `origin`, in fractions of a cycle */
	int64_t moved;
	uint32_t stored; /* records stored after the latest clock read */
};

/* Converts the clock read `clock`, not before the latest, to the stopped clock. */
static uint64_t pass(struct stopped *stopped, uint64_t clock)
{
	if (clock != stopped->at) {
		int64_t reading = stopped->overhead->empty;
		int64_t record = stopped->overhead->scope - 2 * reading;
		uint64_t elapsed = clock - stopped->origin;

		if (elapsed > ELAPSED_MAX)
			elapsed = ELAPSED_MAX;
		stopped->spent += reading + stopped->stored * record;
		stopped->stored = 0;
		stopped->at = clock;
		int64_t moved = (int64_t)(elapsed * DECODE_CYCLE) - stopped->spent;
		if (moved > stopped->moved)
			stopped->moved = moved;
	}
	return stopped->origin +
	       (uint64_t)(stopped->moved + (int64_t)(DECODE_CYCLE / 2)) / DECODE_CYCLE;
}

ARRAY_ORDER(compare_ends, struct decode_end, ORDER_OF(a->clock, b->clock))

/* Sorts by clock. Most ends are after the ends of only a few executions that contain them. */
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
		ARRAY_SORT(ends, count, compare_ends);
}

bool decode_subtract_overhead(struct decoder *decoder, const struct decode_unit *unit)
{
	struct decode_execution *all = decoder->executions + unit->first;
	struct stopped stopped = {
		.overhead = &decoder->overhead, .origin = all->start, .at = all->start};
	uint32_t started = 0;

	if (!array_reserve(&decoder->ends, &decoder->end_capacity, unit->count,
			   sizeof(*decoder->ends)))
		return false;
	struct decode_end *ends = decoder->ends;
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

		/* No pass writes an end before its start, but the bytes are untrusted. */
		execution->duration =
			ends[i].clock < execution->start ? 0 : ends[i].clock - execution->start;
	}
	return true;
}
