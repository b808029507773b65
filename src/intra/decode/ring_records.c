/* Records to executions. See ring_records.h. */
#include "intra/decode/ring_records.h"

#include <string.h>

#include "base/array.h"
#include "intra/decode/async_events.h"

/* Readings that the compiler put out of order are at most this far apart, in cycles. */
#define OUT_OF_ORDER 0x1000000u

/*
 * How long an execution is taken to be at most whose record could not say how long, in cycles: half
 * of what a clock of 32 bits can tell, which leaves the other half for the time before it.
 */
#define SATURATED_MAX 0x80000000u

/* A record of the window, its clock in 64 bits. */
struct decode_reading {
	uint64_t clock;
	struct instrument_code code;
	uint32_t payload;
};

/* ------------------------------------------------------------------ finding records */

static struct instrument_record load(const struct decode_ring *ring, uint32_t index)
{
	struct instrument_record record;

	memcpy(&record, ring->bytes + (size_t)index * INSTRUMENT_RECORD_BYTES, sizeof(record));
	return record;
}

static bool is_valid(const struct decode_ring *ring, struct instrument_record record)
{
	uint32_t code = record.word >> 24;
	uint64_t elapsed = ring->end_clock - ring->start_clock;

	if (!code || code > ring->layout->code_count)
		return false;
	/* Within the kernel, where that is shorter than the clock's low half can tell. */
	return elapsed > UINT32_MAX ||
	       (uint32_t)(record.clock - (uint32_t)ring->start_clock) <= elapsed;
}

static bool is_saturated(const struct decode_ring *ring, struct instrument_record record)
{
	return ring->layout->codes[record.word >> 24].kind == INSTRUMENT_SCOPE &&
	       (record.word & INSTRUMENT_DURATION_MAX) == INSTRUMENT_DURATION_MAX;
}

/* The low half of the clock when the record was made: of a whole execution, at its end. */
static uint32_t made_at(const struct decode_ring *ring, struct instrument_record record)
{
	if (ring->layout->codes[record.word >> 24].kind != INSTRUMENT_SCOPE)
		return record.clock;
	return record.clock + (record.word & INSTRUMENT_DURATION_MAX);
}

/* How long before `now` a record was made; 0 if it seems to be a little after. */
static uint32_t age(const struct decode_ring *ring, uint64_t now, struct instrument_record record)
{
	uint32_t before = (uint32_t)now - made_at(ring, record);

	return before > UINT32_MAX - OUT_OF_ORDER ? 0 : before;
}

/*
 * The record of logical position `at`, which was made before `now`. Where a group ran over the end
 * of the ring the record lies in the slack, and the ring has one from the lap before; else it is
 * the other way round: the newer of the two is meant. Where both are as new, a group as long as the
 * ring has written both with one reading of the clock, and the slack last.
 */
static bool find(const struct decode_ring *ring, uint32_t at, uint64_t now,
		 struct instrument_record *out)
{
	uint32_t index = at & (ring->capacity - 1);
	struct instrument_record in_ring = load(ring, index);
	struct instrument_record in_slack;
	bool has_ring = is_valid(ring, in_ring);

	*out = in_ring;
	if (index >= ring->slack || at < ring->capacity)
		return has_ring;
	in_slack = load(ring, ring->capacity + index);
	if (!is_valid(ring, in_slack))
		return has_ring;
	if (!has_ring || age(ring, now, in_slack) <= age(ring, now, in_ring))
		*out = in_slack;
	return true;
}

/* ------------------------------------------------------------------ records to executions */

static bool add_event(struct decoder *decoder, const struct decode_reading *reading,
		      uint32_t sequence, uint8_t unit)
{
	if (!array_reserve(&decoder->events, &decoder->event_capacity, decoder->event_count + 1,
			   sizeof(*decoder->events)))
		return false;
	decoder->events[decoder->event_count++] = (struct decode_async_event){
		.clock = reading->clock,
		.sequence = sequence,
		.scope = reading->code.scope,
		.unit = unit,
		.is_end = reading->code.kind == INSTRUMENT_EVENT_END,
		.mate = DECODE_NONE,
	};
	return true;
}

/*
 * The executions of one unit. A START takes its place among them, so that they mostly are in order;
 * what is open is in lists by scope, linked through `parent`.
 */
struct pairing {
	struct decoder *decoder;
	uint32_t innermost[INSTRUMENT_CODE_MAX + 1];
	uint32_t dead;                           /* STARTs that are not, or not yet, executions */
	uint64_t oldest;                         /* the earliest clock of the records so far */
	uint64_t latest;                         /* when the latest of them was made */
	uint64_t made;                           /* when the first of them was */
	uint64_t seen[INSTRUMENT_SCOPE_WORDS];   /* scopes with a record so far */
	uint64_t around[INSTRUMENT_SCOPE_WORDS]; /* scopes that all of these may lie in */
	uint8_t unit;
	bool has_dropped;
};

/* There is room. */
static inline struct decode_execution *add_own(struct pairing *pairing,
					       const struct decode_reading *reading,
					       uint64_t duration, uint32_t sequence)
{
	struct decoder *decoder = pairing->decoder;
	struct decode_execution *execution = &decoder->executions[decoder->execution_count++];

	*execution = (struct decode_execution){
		.start = reading->clock,
		.duration = duration,
		.parent = DECODE_NONE,
		.sequence = sequence,
		.scope = reading->code.scope,
		.unit = pairing->unit,
		.end_unit = pairing->unit,
	};
	return execution;
}

static void open_scope(struct pairing *pairing, const struct decode_reading *reading)
{
	uint32_t *innermost = &pairing->innermost[reading->code.scope];
	struct decode_execution *execution = add_own(pairing, reading, 0, DECODE_OPEN);

	execution->parent = *innermost;
	*innermost = (uint32_t)(execution - pairing->decoder->executions);
	pairing->dead++;
}

static bool has_seen(const struct pairing *pairing, uint16_t scope)
{
	return pairing->seen[scope / 64] >> scope % 64 & 1;
}

/* The scope has a record, and lies in the scopes that are open. */
static void note_seen(struct pairing *pairing, uint16_t scope)
{
	const struct instrument_nesting *nesting = pairing->decoder->layout->nesting;

	if (has_seen(pairing, scope))
		return;
	pairing->seen[scope / 64] |= 1ull << scope % 64;
	for (uint32_t i = 0; nesting && nesting[scope].is_known && i < INSTRUMENT_SCOPE_WORDS; i++)
		pairing->around[i] &= nesting[scope].around[i];
}

/*
 * True if the scope can have been open since before the oldest record: everything so far may lie in
 * it. A scope of which nothing is known lies in itself never.
 */
static bool may_have_been_open(const struct pairing *pairing, uint16_t scope)
{
	const struct instrument_nesting *nesting = pairing->decoder->layout->nesting;

	if ((!nesting || !nesting[scope].is_known) && has_seen(pairing, scope))
		return false;
	return pairing->around[scope / 64] >> scope % 64 & 1;
}

/*
 * An END without a START. Where records were dropped the START mostly is one of them: then the
 * scope was open all the time before, as far as the ring goes back. There is room.
 */
static void close_unopened(struct pairing *pairing, const struct decode_reading *reading,
			   uint32_t sequence)
{
	struct decode_totals *totals = &pairing->decoder->totals;
	uint16_t scope = reading->code.scope;
	struct decode_execution *execution;

	if (!pairing->has_dropped || !may_have_been_open(pairing, scope)) {
		totals->broken[scope]++;
		return;
	}
	totals->cut_by_drop[scope]++;
	execution = add_own(pairing, reading, reading->clock - pairing->oldest, sequence);
	execution->start = pairing->oldest;
	execution->is_partial = true;
	totals->partial[scope]++;
}

static void close_scope(struct pairing *pairing, const struct decode_reading *reading,
			uint32_t sequence)
{
	struct decoder *decoder = pairing->decoder;
	uint16_t scope = reading->code.scope;
	uint32_t at = pairing->innermost[scope];
	struct decode_execution *execution;

	if (at == DECODE_NONE) {
		close_unopened(pairing, reading, sequence);
		return;
	}
	execution = &decoder->executions[at];
	pairing->innermost[scope] = execution->parent;
	if (reading->clock < execution->start) { /* the compiler turned them around */
		decoder->totals.broken[scope]++;
		return;
	}
	execution->duration = reading->clock - execution->start;
	execution->parent = DECODE_NONE;
	execution->sequence = sequence;
	pairing->dead--;
}

/* A record that cannot say how long the scope took: at least until the one before it was made. */
static inline void add_whole(struct pairing *pairing, const struct decode_reading *reading,
			     uint32_t sequence)
{
	bool is_partial = reading->payload == INSTRUMENT_DURATION_MAX;
	uint64_t duration = reading->payload;

	if (is_partial && pairing->latest > reading->clock + duration)
		duration = pairing->latest - reading->clock;
	add_own(pairing, reading, duration, sequence)->is_partial = is_partial;
	pairing->latest = reading->clock + duration;
}

/* There is room for an execution more. */
static inline bool take_reading(struct pairing *pairing, const struct decode_reading *reading,
				uint32_t sequence)
{
	if (reading->code.kind == INSTRUMENT_SCOPE) {
		add_whole(pairing, reading, sequence);
		return true;
	}
	pairing->latest = reading->clock;
	switch (reading->code.kind) {
	case INSTRUMENT_START:
		open_scope(pairing, reading);
		return true;
	case INSTRUMENT_END:
		close_scope(pairing, reading, sequence);
		return true;
	default:
		return add_event(pairing->decoder, reading, sequence, pairing->unit);
	}
}

/* STARTs without an END are counted; `parent` has linked them. */
static void count_dead(struct pairing *pairing)
{
	struct decoder *decoder = pairing->decoder;
	struct decode_execution *all = decoder->executions;

	for (uint32_t scope = 0; scope < decoder->layout->scope_count; scope++) {
		/* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): as many were set */
		uint32_t at = pairing->innermost[scope];

		while (at != DECODE_NONE) {
			uint32_t outer = all[at].parent;

			decoder->totals.broken[scope]++;
			all[at].parent = DECODE_NONE;
			at = outer;
		}
	}
}

/*
 * Reads the ring from its newest record back, so that each clock's upper half follows from that of
 * the record behind it; then pairs from the oldest on.
 */
static bool read_back(struct pairing *pairing, const struct decode_ring *ring)
{
	struct decoder *decoder = pairing->decoder;
	struct decode_reading *readings = decoder->readings;
	uint32_t count = ring->count - ring->first;
	uint64_t now = ring->end_clock;
	bool is_ok = true;

	for (uint32_t i = count; i-- > 0;) {
		struct instrument_record record;
		uint32_t ahead;

		readings[i].code.kind = UINT16_MAX;
		if (!find(ring, ring->first + i, now, &record)) {
			decoder->totals.damaged++;
			continue;
		}
		if (!is_saturated(ring, record)) {
			ahead = made_at(ring, record) - (uint32_t)now;
			now = ahead < OUT_OF_ORDER ? now + ahead : now - age(ring, now, record);
		}
		readings[i].code = decoder->layout->codes[record.word >> 24];
		readings[i].payload = record.word & INSTRUMENT_DURATION_MAX;
		readings[i].clock = now - (uint32_t)((uint32_t)now - record.clock);
		/* It does not say when it was made, but many of them must not add up to a wrap. */
		if (is_saturated(ring, record) && now > readings[i].clock + SATURATED_MAX)
			now = readings[i].clock + SATURATED_MAX;
	}
	for (uint32_t i = 0; i < count && is_ok; i++) {
		const struct decode_reading *reading = &readings[i];
		bool is_first = pairing->oldest == UINT64_MAX;

		if (reading->code.kind == UINT16_MAX)
			continue;
		if (reading->clock < pairing->oldest)
			pairing->oldest = reading->clock;
		is_ok = take_reading(pairing, reading, ring->first + i);
		if (is_first)
			pairing->made = pairing->latest;
		if (pairing->has_dropped && reading->code.kind < INSTRUMENT_EVENT_START)
			note_seen(pairing, reading->code.scope);
	}
	return is_ok;
}

/*
 * The same for what most rings are: nothing overwritten, and a kernel short enough that the low
 * half of the clock says it all. Then one pass in order will do.
 */
static bool read_forth(struct pairing *pairing, const struct decode_ring *ring)
{
	const struct instrument_layout *layout = ring->layout;
	uint64_t elapsed = ring->end_clock - ring->start_clock;
	bool is_ok = true;

	for (uint32_t i = 0; i < ring->count && is_ok; i++) {
		struct instrument_record record = load(ring, i);
		uint32_t after = record.clock - (uint32_t)ring->start_clock;
		uint32_t code = record.word >> 24;
		struct decode_reading reading;

		if (!code || code > layout->code_count || after > elapsed) {
			pairing->decoder->totals.damaged++;
			continue;
		}
		reading.clock = ring->start_clock + after;
		reading.code = layout->codes[code];
		reading.payload = record.word & INSTRUMENT_DURATION_MAX;
		is_ok = take_reading(pairing, &reading, i);
	}
	return is_ok;
}

bool decode_ring_records(struct decoder *decoder, struct decode_ring *ring, uint8_t unit)
{
	uint32_t count = ring->count - ring->first;
	size_t first = decoder->execution_count;
	bool is_simple = !ring->first && ring->end_clock - ring->start_clock <= UINT32_MAX;
	struct pairing pairing; /* a kilobyte that is not set for every unit */

	if (!array_reserve(&decoder->executions, &decoder->execution_capacity, first + count,
			   sizeof(*decoder->executions)) ||
	    (!is_simple && !array_reserve(&decoder->readings, &decoder->reading_capacity, count,
					  sizeof(*decoder->readings))))
		return false;
	pairing.decoder = decoder;
	pairing.dead = 0;
	pairing.oldest = UINT64_MAX;
	pairing.latest = 0;
	pairing.made = 0;
	memset(pairing.seen, 0, sizeof(pairing.seen));
	memset(pairing.around, 0xff, sizeof(pairing.around));
	pairing.unit = unit;
	pairing.has_dropped = ring->first != 0;
	memset(pairing.innermost, 0xff, ring->layout->scope_count * sizeof(*pairing.innermost));
	if (!(is_simple ? read_forth(&pairing, ring) : read_back(&pairing, ring)))
		return false;
	if (pairing.dead)
		count_dead(&pairing);
	ring->oldest = pairing.made;
	ring->open_count = pairing.dead;
	return true;
}
