/*
 * Reading a ring buffer: extends clocks to 64 bits and pairs START and END records into executions.
 */
#include "intra/decode/decode_parts.h"

#include "base/array.h"

/* Maximum distance of clock reads that the compiler reordered, in cycles. */
#define OUT_OF_ORDER 0x1000000u

/*
 * Maximum assumed duration of an execution that did not fit into its record, in cycles: half the
 * range of a 32-bit clock, which leaves the other half for the time before it.
 */
#define SATURATED_MAX 0x80000000u

/* A record with its clock extended to 64 bits. */
struct decode_reading {
	uint64_t clock;
	struct instrument_code code;
	uint32_t payload;
};

/* ------------------------------------------------------------------ finding records */

static struct instrument_record load_record(const struct decode_ring *ring, uint32_t index)
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
	/* True if the clock is between the kernel's start and end, as far as 32 bits can tell. */
	return elapsed > UINT32_MAX ||
	       (uint32_t)(record.clock - (uint32_t)ring->start_clock) <= elapsed;
}

static bool is_saturated(const struct decode_ring *ring, struct instrument_record record)
{
	return ring->layout->codes[record.word >> 24].kind == INSTRUMENT_SCOPE &&
	       (record.word & INSTRUMENT_DURATION_MAX) == INSTRUMENT_DURATION_MAX;
}

/* Low half of the clock when the record was made; for a whole execution, at its end. */
static uint32_t made_at(const struct decode_ring *ring, struct instrument_record record)
{
	if (ring->layout->codes[record.word >> 24].kind != INSTRUMENT_SCOPE)
		return record.clock;
	return record.clock + (record.word & INSTRUMENT_DURATION_MAX);
}

/* Cycles between the record and `now`; 0 if the record seems slightly later. */
static uint32_t age_of_record(const struct decode_ring *ring, uint64_t now,
			      struct instrument_record record)
{
	uint32_t before = (uint32_t)now - made_at(ring, record);

	return before > UINT32_MAX - OUT_OF_ORDER ? 0 : before;
}

/*
 * The record with index `at`, which was made before `now`. If its group extended past the end of
 * the ring buffer, it is in the slack area, and the ring buffer has an older one; otherwise the
 * reverse. So the newer of the two is meant. If both are equally new, a group as long as the ring
 * buffer wrote both with one clock read, the slack area last.
 */
static bool find_oldest(const struct decode_ring *ring, uint32_t at, uint64_t now,
			struct instrument_record *out)
{
	uint32_t index = at & (ring->capacity - 1);
	struct instrument_record in_ring = load_record(ring, index);
	bool has_ring = is_valid(ring, in_ring);

	*out = in_ring;
	if (index >= ring->slack || at < ring->capacity)
		return has_ring;
	struct instrument_record in_slack = load_record(ring, ring->capacity + index);
	if (!is_valid(ring, in_slack))
		return has_ring;
	if (!has_ring || age_of_record(ring, now, in_slack) <= age_of_record(ring, now, in_ring))
		*out = in_slack;
	return true;
}

/* ------------------------------------------------------------------ records to executions */

static bool add_event(struct decoder *decoder, const struct decode_reading *reading,
		      uint32_t sequence, uint8_t unit)
{
	struct decode_async_event event = {
		.clock = reading->clock,
		.sequence = sequence,
		.scope = reading->code.scope,
		.unit = unit,
		.is_end = reading->code.kind == INSTRUMENT_EVENT_END,
		.mate = DECODE_NONE,
	};

	return ARRAY_ADD_AGAIN(decoder->events, decoder->event_capacity, decoder->event_count,
			       event);
}

/*
 * The executions of one unit. A START is added at once, so executions are mostly sorted. Open ones
 * are in one list per scope, linked by `parent`.
 */
struct pairing {
	struct decoder *decoder;
	uint32_t dead;           /* STARTs that are not executions, or not yet */
	uint64_t oldest;         /* earliest clock of the records so far */
	uint64_t latest;         /* when the latest of them was made */
	uint64_t made;           /* when the first of them was made */
	struct scope_set seen;   /* scopes with a record so far */
	struct scope_set around; /* scopes that all of these may be inside */
	uint8_t unit;
	bool has_dropped;
	uint32_t innermost[INSTRUMENT_CODE_MAX + 1];
};

/* The capacity was reserved. */
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

/* Notes that the scope has a record, inside the scopes that are open. */
static void note_seen(struct pairing *pairing, uint16_t scope)
{
	const struct instrument_nesting *nesting = pairing->decoder->layout->nesting;

	if (scope_set_has(&pairing->seen, scope))
		return;
	scope_set_add(&pairing->seen, scope);
	for (uint32_t i = 0; nesting && nesting[scope].is_known && i < INSTRUMENT_SCOPE_WORDS; i++)
		pairing->around.bits[i] &= nesting[scope].around.bits[i];
}

/*
 * True if the scope can have been open since before the oldest record, so everything so far may be
 * inside it. A scope with unknown nesting is assumed not to contain itself.
 */
static bool may_have_been_open(const struct pairing *pairing, uint16_t scope)
{
	const struct instrument_nesting *nesting = pairing->decoder->layout->nesting;

	if ((!nesting || !nesting[scope].is_known) && scope_set_has(&pairing->seen, scope))
		return false;
	return scope_set_has(&pairing->around, scope);
}

/*
 * An END without a START. If records were overwritten, the START is probably one of them; then the
 * scope was open since the oldest remaining record. The capacity was reserved.
 */
static void close_unopened(struct pairing *pairing, const struct decode_reading *reading,
			   uint32_t sequence)
{
	struct decode_totals *totals = &pairing->decoder->totals;
	uint16_t scope = reading->code.scope;

	if (!pairing->has_dropped || !may_have_been_open(pairing, scope)) {
		totals->broken[scope]++;
		return;
	}
	totals->cut_by_drop[scope]++;
	struct decode_execution *execution =
		add_own(pairing, reading, reading->clock - pairing->oldest, sequence);
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

	if (at == DECODE_NONE) {
		close_unopened(pairing, reading, sequence);
		return;
	}
	struct decode_execution *execution = &decoder->executions[at];
	pairing->innermost[scope] = execution->parent;
	if (reading->clock < execution->start) { /* the compiler reordered them */
		decoder->totals.broken[scope]++;
		return;
	}
	execution->duration = reading->clock - execution->start;
	execution->parent = DECODE_NONE;
	execution->sequence = sequence;
	pairing->dead--;
}

/* A record whose duration did not fit: the scope lasted at least until the previous record. */
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

/* The capacity was reserved. */
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

/* Counts STARTs without an END, which `parent` links. */
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
 * Reads the ring buffer from its newest record backwards, deriving the upper half of each clock
 * from the next record; then pairs from the oldest on.
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

		readings[i].code.kind = UINT16_MAX;
		if (!find_oldest(ring, ring->first + i, now, &record)) {
			decoder->totals.damaged++;
			continue;
		}
		if (!is_saturated(ring, record)) {
			uint32_t ahead = made_at(ring, record) - (uint32_t)now;
			now = ahead < OUT_OF_ORDER ? now + ahead
						   : now - age_of_record(ring, now, record);
		}
		readings[i].code = decoder->layout->codes[record.word >> 24];
		readings[i].payload = record.word & INSTRUMENT_DURATION_MAX;
		readings[i].clock = now - (uint32_t)((uint32_t)now - record.clock);
		/*
		 * The record does not have its end, and many of them must not add up to a wrap of
		 * the clock.
		 */
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
 * The common case, in one forward pass: nothing was overwritten, and the kernel was short enough
 * for the low half of the clock.
 */
static bool read_forth(struct pairing *pairing, const struct decode_ring *ring)
{
	const struct instrument_layout *layout = ring->layout;
	uint64_t elapsed = ring->end_clock - ring->start_clock;
	bool is_ok = true;

	for (uint32_t i = 0; i < ring->count && is_ok; i++) {
		struct instrument_record record = load_record(ring, i);
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
	struct pairing pairing; /* with a kilobyte that is not initialized per unit */

	if (!array_reserve(&decoder->executions, &decoder->execution_capacity, first + count,
			   sizeof(*decoder->executions)) ||
	    (!is_simple && !array_reserve(&decoder->readings, &decoder->reading_capacity, count,
					  sizeof(*decoder->readings))))
		return false;
	memset(&pairing, 0, offsetof(struct pairing, innermost));
	pairing.decoder = decoder;
	pairing.oldest = UINT64_MAX;
	memset(&pairing.around, 0xff, sizeof(pairing.around));
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
