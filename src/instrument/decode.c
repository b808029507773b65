/* Records to executions. See decode.h. */
#include "instrument/decode.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "instrument/decode_events.h"

/* Readings that the compiler put out of order are at most this far apart, in cycles. */
#define OUT_OF_ORDER 0x1000000u

/* No kernel runs for years: what bytes say beyond that is cut, so that sums of it have room. */
#define ELAPSED_MAX (1ull << 58)

/*
 * Rates of devices' timers: %globaltimer counts ns. LLVM's libc says 100 MHz of all GPUs that have
 * s_memrealtime, and 25 to 100 MHz of later ones.
 */
#define NS_KHZ 1000000u
#define AMD_KHZ 100000u

struct decode_end {
	uint64_t clock;
	uint32_t index; /* of the execution in its unit */
};

/* A record of the window, its clock in 64 bits. */
struct decode_reading {
	uint64_t clock;
	struct instrument_code code;
	uint32_t payload;
};

static uint64_t usual_khz(const struct instrument_layout *layout)
{
	return layout->is_amd ? AMD_KHZ : NS_KHZ;
}

void decoder_init(struct decoder *decoder, const struct instrument_layout *layout,
		  struct decode_cost cost)
{
	*decoder = (struct decoder){
		.layout = layout,
		.cost = cost,
		.timer_khz = usual_khz(layout),
	};
}

void decoder_begin(struct decoder *decoder, const struct instrument_layout *layout,
		   struct decode_cost cost)
{
	decoder->layout = layout;
	decoder->cost = cost;
	decoder->timer_khz = usual_khz(layout);
	decoder->totals = (struct decode_totals){0};
	decoder->execution_count = 0;
	decoder->event_count = 0;
}

void decoder_fini(struct decoder *decoder)
{
	free(decoder->executions);
	free(decoder->cuts);
	free(decoder->sightings);
	free(decoder->events);
	free(decoder->event_lists);
	free(decoder->ends);
	free(decoder->readings);
	*decoder = (struct decoder){0};
}

/* ------------------------------------------------------------------ the ring */

struct ring {
	const struct instrument_layout *layout;
	const uint8_t *bytes;
	uint32_t capacity; /* records, without the slack */
	uint32_t slack;
	uint32_t count;
	uint32_t first; /* logical position of the oldest that is there */
	uint64_t start_clock;
	uint64_t end_clock;
};

static struct instrument_record load(const struct ring *ring, uint32_t index)
{
	struct instrument_record record;

	memcpy(&record, ring->bytes + (size_t)index * INSTRUMENT_RECORD_BYTES, sizeof(record));
	return record;
}

static bool is_valid(const struct ring *ring, struct instrument_record record)
{
	uint32_t code = record.word >> 24;
	uint64_t elapsed = ring->end_clock - ring->start_clock;

	if (!code || code > ring->layout->code_count)
		return false;
	/* Within the kernel, where that is shorter than the clock's low half can tell. */
	return elapsed > UINT32_MAX ||
	       (uint32_t)(record.clock - (uint32_t)ring->start_clock) <= elapsed;
}

static bool is_saturated(const struct ring *ring, struct instrument_record record)
{
	return ring->layout->codes[record.word >> 24].kind == INSTRUMENT_SCOPE &&
	       (record.word & INSTRUMENT_DURATION_MAX) == INSTRUMENT_DURATION_MAX;
}

/* The low half of the clock when the record was made: of a whole execution, at its end. */
static uint32_t made_at(const struct ring *ring, struct instrument_record record)
{
	if (ring->layout->codes[record.word >> 24].kind != INSTRUMENT_SCOPE)
		return record.clock;
	return record.clock + (record.word & INSTRUMENT_DURATION_MAX);
}

/* How long before `now` a record was made; 0 if it seems to be a little after. */
static uint32_t age(const struct ring *ring, uint64_t now, struct instrument_record record)
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
static bool find(const struct ring *ring, uint32_t at, uint64_t now, struct instrument_record *out)
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
	decoder->events[decoder->event_count++] = (struct decode_event){
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
	uint32_t dead; /* STARTs that are not, or not yet, executions */
	uint8_t unit;
	bool has_dropped;
};

/* What `sequence` is while an END is waited for; no record has that number. */
#define OPEN UINT32_MAX

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
	struct decode_execution *execution = add_own(pairing, reading, 0, OPEN);

	execution->parent = *innermost;
	*innermost = (uint32_t)(execution - pairing->decoder->executions);
	pairing->dead++;
}

static void close_scope(struct pairing *pairing, const struct decode_reading *reading,
			uint32_t sequence)
{
	struct decoder *decoder = pairing->decoder;
	uint16_t scope = reading->code.scope;
	uint32_t at = pairing->innermost[scope];
	struct decode_execution *execution;

	if (at == DECODE_NONE) {
		/* With records dropped, its start mostly is one of them. */
		if (pairing->has_dropped) {
			decoder->totals.cut_by_drop[scope]++;
			decoder->cuts[decoder->cut_count++] = (struct decode_cut){
				.end = reading->clock, .scope = scope, .unit = pairing->unit};
		} else {
			decoder->totals.broken[scope]++;
		}
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

/* There is room for an execution more. */
static inline bool take_reading(struct pairing *pairing, const struct decode_reading *reading,
				uint32_t sequence)
{
	switch (reading->code.kind) {
	case INSTRUMENT_START:
		open_scope(pairing, reading);
		return true;
	case INSTRUMENT_END:
		close_scope(pairing, reading, sequence);
		return true;
	case INSTRUMENT_SCOPE:
		add_own(pairing, reading, reading->payload, sequence)->is_cut =
			reading->payload == INSTRUMENT_DURATION_MAX;
		return true;
	default:
		return add_event(pairing->decoder, reading, sequence, pairing->unit);
	}
}

/* STARTs without an END are counted, and gone. */
static void remove_dead(struct pairing *pairing, size_t first)
{
	struct decoder *decoder = pairing->decoder;
	struct decode_execution *all = decoder->executions;
	size_t kept = first;

	for (uint32_t scope = 0; scope < decoder->layout->scope_count; scope++) {
		/* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): as many were set */
		uint32_t at = pairing->innermost[scope];

		for (; at != DECODE_NONE; at = all[at].parent)
			decoder->totals.broken[scope]++;
	}
	for (size_t i = first; i < decoder->execution_count; i++)
		if (all[i].sequence != OPEN)
			all[kept++] = all[i];
	decoder->execution_count = kept;
}

/*
 * Reads the ring from its newest record back, so that each clock's upper half follows from that of
 * the record behind it; then pairs from the oldest on.
 */
static bool read_back(struct pairing *pairing, const struct ring *ring)
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
		/* A saturated one does not say when it was made: its start is all there is. */
		if (!is_saturated(ring, record)) {
			ahead = made_at(ring, record) - (uint32_t)now;
			now = ahead < OUT_OF_ORDER ? now + ahead : now - age(ring, now, record);
		}
		readings[i].code = decoder->layout->codes[record.word >> 24];
		readings[i].payload = record.word & INSTRUMENT_DURATION_MAX;
		readings[i].clock = now - (uint32_t)((uint32_t)now - record.clock);
	}
	for (uint32_t i = 0; i < count && is_ok; i++)
		if (readings[i].code.kind != UINT16_MAX)
			is_ok = take_reading(pairing, &readings[i], ring->first + i);
	return is_ok;
}

/*
 * The same for what most rings are: nothing overwritten, and a kernel short enough that the low
 * half of the clock says it all. Then one pass in order will do.
 */
static bool read_forth(struct pairing *pairing, const struct ring *ring)
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

static bool decode_ring(struct decoder *decoder, const struct ring *ring, uint8_t unit)
{
	uint32_t count = ring->count - ring->first;
	size_t first = decoder->execution_count;
	bool is_simple = !ring->first && ring->end_clock - ring->start_clock <= UINT32_MAX;
	struct pairing pairing; /* a kilobyte that is not set for every unit */

	if (!array_reserve(&decoder->executions, &decoder->execution_capacity, first + count,
			   sizeof(*decoder->executions)) ||
	    (!is_simple && !array_reserve(&decoder->readings, &decoder->reading_capacity, count,
					  sizeof(*decoder->readings))) ||
	    (ring->first && !array_reserve(&decoder->cuts, &decoder->cut_capacity,
					   decoder->cut_count + count, sizeof(*decoder->cuts))))
		return false;
	pairing.decoder = decoder;
	pairing.dead = 0;
	pairing.unit = unit;
	pairing.has_dropped = ring->first != 0;
	memset(pairing.innermost, 0xff, ring->layout->scope_count * sizeof(*pairing.innermost));
	if (!(is_simple ? read_forth(&pairing, ring) : read_back(&pairing, ring)))
		return false;
	if (pairing.dead)
		remove_dead(&pairing, first);
	return true;
}

/* ------------------------------------------------------------------ nesting */

static uint64_t end_of(const struct decode_execution *execution)
{
	return execution->start + execution->duration;
}

/* By start, what lies around others first: it ends later, or its end was recorded later. */
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

/* Mostly they are in order, or a few are behind such as lie in them. */
static void sort_executions(struct decode_execution *all, uint32_t count)
{
	uint64_t moves_left = (uint64_t)count * 8;

	for (uint32_t i = 1; i < count; i++) {
		struct decode_execution late;
		uint32_t at = i;

		if (compare_executions(&all[i - 1], &all[i]) <= 0)
			continue;
		late = all[i];
		while (at && compare_executions(&all[at - 1], &late) > 0) {
			if (!moves_left--)
				break;
			all[at] = all[at - 1];
			at--;
		}
		all[at] = late;
		if (moves_left == UINT64_MAX) {
			qsort(all, count, sizeof(*all), compare_executions);
			return;
		}
	}
}

static inline bool is_over(uint64_t end, uint32_t sequence, const struct decode_execution *next)
{
	return end < next->start || (end == next->start && sequence < next->sequence);
}

/* Each begins behind the one before it: they are in order, and none lies in another. */
static bool is_flat(const struct decode_execution *all, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++)
		if (all[i].start <= all[i - 1].start ||
		    !is_over(end_of(&all[i - 1]), all[i - 1].sequence, &all[i]))
			return false;
	return true;
}

/* Finds what each lies in; the unit's executions are in order. */
static void nest(struct decode_execution *all, uint32_t first, uint32_t count)
{
	struct {
		uint64_t end;
		uint32_t sequence;
		uint32_t index;
	} stack[DECODE_DEPTH_MAX];
	uint32_t depth = 0;

	for (uint32_t i = first; i < first + count; i++) {
		uint64_t end = end_of(&all[i]);
		uint32_t at;

		while (depth && is_over(stack[depth - 1].end, stack[depth - 1].sequence, &all[i]))
			depth--;
		/* What only overlaps is no parent. */
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

/*
 * Takes the cost of records out: as if the clock had stood still while they were made. Between two
 * readings lies the cost of a reading, and of the records that were stored behind the first one:
 * those of the executions that ended with it. Executions that begin or end together share a reading
 * and have equal clocks.
 *
 * Costs are means: where less time than that has passed, what is missing is taken off later.
 */
struct stopped {
	const struct decode_cost *cost;
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

static bool shift(struct decoder *decoder, const struct decode_unit *unit)
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
		ends[i] = (struct decode_end){end_of(&all[i]), i};
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

/* ------------------------------------------------------------------ a CTA */

static uint64_t timer_ns(const struct decoder *decoder, uint64_t ticks)
{
	uint64_t khz = decoder->timer_khz;

	if (khz == NS_KHZ)
		return ticks;
	return ticks / khz * NS_KHZ + ticks % khz * NS_KHZ / khz;
}

static bool decode_unit(struct decoder *decoder, const uint8_t *cta, uint8_t index)
{
	const struct instrument_layout *layout = decoder->layout;
	struct decode_unit *unit = &decoder->units[index];
	struct decode_totals *totals = &decoder->totals;
	struct instrument_unit_header header;
	struct ring ring;

	memcpy(&header, cta + layout_header_at(layout, index), sizeof(header));
	*unit = (struct decode_unit){.warp = layout->units[index],
				     .first = (uint32_t)decoder->execution_count};
	if (header.magic != INSTRUMENT_MAGIC || header.end_clock < header.start_clock)
		return true; /* not there */
	unit->is_there = true;
	unit->processor = header.processor;
	unit->processor_high = header.processor_high;
	unit->start_ns = timer_ns(decoder, header.start_ns);
	unit->end_ns = timer_ns(decoder, header.end_ns);
	unit->start_clock = header.start_clock;
	unit->end_clock = header.end_clock;
	unit->finalize_cycles = header.finalize_cycles;
	unit->record_count = header.count;
	ring = (struct ring){
		.layout = layout,
		.bytes = cta + layout_ring_at(layout, index),
		.capacity = layout->ring_bytes / INSTRUMENT_RECORD_BYTES,
		.slack = layout->slack_bytes / INSTRUMENT_RECORD_BYTES,
		.count = header.count,
		.start_clock = header.start_clock,
		.end_clock = header.end_clock,
	};
	if (ring.count > ring.capacity)
		ring.first = ring.count - ring.capacity;
	unit->dropped = ring.first;
	totals->units++;
	totals->records += header.count;
	totals->dropped += ring.first;
	totals->dropped_warp[unit->warp] += ring.first;
	if (!decode_ring(decoder, &ring, index))
		return false;
	unit->count = (uint32_t)decoder->execution_count - unit->first;
	if (!unit->count)
		return true;
	if (!is_flat(decoder->executions + unit->first, unit->count)) {
		sort_executions(decoder->executions + unit->first, unit->count);
		nest(decoder->executions, unit->first, unit->count);
	}
	return (!decoder->cost.empty && !decoder->cost.scope) || shift(decoder, unit);
}

bool decode_cta(struct decoder *decoder, const void *bytes)
{
	uint64_t units = decoder->totals.units;
	uint64_t there;

	decoder->execution_count = 0;
	decoder->event_count = 0;
	decoder->cut_count = 0;
	decoder->sighting_count = 0;
	for (uint32_t i = 0; i < decoder->layout->unit_count; i++)
		if (!decode_unit(decoder, bytes, (uint8_t)i))
			return false;
	there = decoder->totals.units - units;
	decoder->totals.ctas += there != 0;
	decoder->totals.lost_ctas += there == 0;
	decoder->totals.lost_units += there ? decoder->layout->unit_count - there : 0;
	return decode_events(decoder);
}

void decode_prefetch(const struct instrument_layout *layout, const void *bytes)
{
	const uint8_t *cta = bytes;

	for (uint32_t i = 0; i < layout->unit_count; i++) {
		const uint8_t *ring = cta + layout_ring_at(layout, i);

		__builtin_prefetch(cta + layout_header_at(layout, i));
		__builtin_prefetch(ring);
		__builtin_prefetch(ring + 64);
	}
}

double decode_mhz(const struct instrument_layout *layout, const struct decode_unit *unit,
		  double fallback_mhz)
{
	uint64_t cycles = unit->end_clock - unit->start_clock;
	double ns = unit->end_ns > unit->start_ns ? (double)(unit->end_ns - unit->start_ns) : 0;

	/* The device's timer may tick as slowly as once in 1.024 us; AMD's, in 10 or 40 ns. */
	return ns < (layout->is_amd ? 1000 : 10240) ? fallback_mhz : (double)cycles * 1000 / ns;
}
