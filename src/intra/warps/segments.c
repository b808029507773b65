/* Warp analysis: cuts the time of each unit into segments and sums them. */
#include "intra/warps/segments.h"

#include "base/array.h"

/* No CTA runs for an hour, but corrupt clocks may imply it. */
#define CYCLES_MAX (1ull << 43)

/* ------------------------------------------------------------------ sums */

bool warps_sums_init(struct warps_sums *sums, const struct instrument_layout *layout)
{
	size_t scopes = (size_t)layout->scope_count + 1;

	*sums = (struct warps_sums){
		.unit_count = layout->unit_count,
		.scope_count = layout->scope_count,
		.cells = calloc(scopes * layout->unit_count, sizeof(*sums->cells)),
		.asyncs = calloc(scopes, sizeof(*sums->asyncs)),
	};
	if (sums->cells && sums->asyncs)
		return true;
	warps_sums_fini(sums);
	return false;
}

void warps_sums_fini(struct warps_sums *sums)
{
	free(sums->cells);
	free(sums->asyncs);
	*sums = (struct warps_sums){0};
}

/* ------------------------------------------------------------------ analyzed time */

/*
 * When the unit's records begin to be complete: from its first instruction, or if some were
 * overwritten, from the end of the execution with the oldest remaining record. UINT64_MAX: never.
 */
static uint64_t seen_from(const struct decoder *decoder, const struct decode_unit *unit)
{
	const struct decode_execution *oldest = NULL;

	if (!unit->dropped)
		return unit->header.start_clock;
	for (uint32_t i = unit->first; i < unit->first + unit->count; i++) {
		const struct decode_execution *execution = &decoder->executions[i];

		if (!oldest || execution->sequence < oldest->sequence)
			oldest = execution;
	}
	return oldest ? decode_end_of(oldest) : UINT64_MAX;
}

/* False if the CTA has too few records. */
static bool find_window(struct warps *warps, uint64_t *unseen)
{
	const struct decoder *decoder = warps->decoder;
	const struct decode_unit *first = NULL;
	uint64_t start = UINT64_MAX;

	warps->from = 0;
	warps->to = 0;
	ARRAY_EACH(unit, decoder->units, decoder->layout->unit_count) {
		if (!unit->is_there)
			continue;
		if (!first)
			first = unit;
		else if (!decoder->layout->is_amd &&
			 unit->header.processor != first->header.processor)
			return false; /* not the same clock: corrupt */
		uint64_t from = seen_from(decoder, unit);
		if (unit->dropped && from > warps->from)
			warps->from = from;
		if (unit->header.start_clock < start)
			start = unit->header.start_clock;
		if (unit->header.end_clock > warps->to)
			warps->to = unit->header.end_clock;
	}
	if (!first || warps->to - start > CYCLES_MAX)
		return false;
	if (warps->from < start)
		warps->from = start;
	*unseen = warps->from - start;
	return warps->from < warps->to;
}

/* ------------------------------------------------------------------ segments */

/* State of cutting one unit. */
struct cutting {
	struct warps *warps;
	uint64_t cursor; /* cut up to here */
	size_t wait;     /* first wait that has not ended at the cursor */
	uint32_t unit;
	bool is_worker; /* runs only a numbered partition, or nothing */
};

/* Adds what the unit does from the cursor until `end`. */
static bool add_segment(struct cutting *cutting, uint64_t end, uint16_t scope, bool is_idle)
{
	struct warps *warps = cutting->warps;
	const struct decoder *decoder = warps->decoder;
	struct warps_segment segment = {
		.start = cutting->cursor,
		.end = end,
		.scope = scope,
		.kind = scope < decoder->layout->scope_count ? warps->kinds->of[scope] : WARPS_WORK,
		.is_idle = is_idle,
	};

	cutting->cursor = end;
	return ARRAY_ADD_AGAIN(warps->segments, warps->segment_capacity, warps->segment_count,
			       segment);
}

/* With the waits in between. */
static bool cut_until(struct cutting *cutting, uint64_t end, uint16_t scope, bool is_idle)
{
	const struct warps *warps = cutting->warps;

	if (end > warps->to)
		end = warps->to;
	while (cutting->cursor < end) {
		const struct warps_interval *wait =
			cutting->wait < warps->wait_count ? &warps->waits[cutting->wait] : NULL;
		uint64_t until = end;

		if (wait && wait->start <= cutting->cursor) {
			/* A wait is one segment, with everything inside it. */
			if (!add_segment(cutting, wait->end, wait->scope, false))
				return false;
			cutting->wait++;
			continue;
		}
		if (wait && wait->start < until)
			until = wait->start;
		if (!add_segment(cutting, until, scope, is_idle))
			return false;
	}
	return true;
}

/* Adds an outermost wait of the unit, clipped to the analyzed time. */
static bool add_wait(struct warps *warps, uint64_t start, uint64_t end, uint16_t scope)
{
	uint64_t min = warps->wait_count ? warps->waits[warps->wait_count - 1].end : warps->from;

	if (start < min)
		start = min;
	if (end > warps->to)
		end = warps->to;
	if (start >= end)
		return true;
	return ARRAY_ADD(warps->waits, warps->wait_count,
			 (struct warps_interval){.start = start, .end = end, .scope = scope});
}

/* Cuts the time between the cursor and `until`, during which scopes may end. */
static bool close_until(struct cutting *cutting, uint64_t until)
{
	struct warps *warps = cutting->warps;
	uint16_t outside = (uint16_t)warps->decoder->layout->scope_count;

	while (warps->open_count) {
		const struct warps_interval *inner = &warps->open[warps->open_count - 1];

		if (inner->end > until)
			return cut_until(cutting, until, inner->scope, false);
		if (!cut_until(cutting, inner->end, inner->scope, false))
			return false;
		warps->open_count--;
	}
	return cut_until(cutting, until, outside, cutting->is_worker);
}

static bool open_scope(struct cutting *cutting, const struct decode_execution *execution)
{
	struct warps *warps = cutting->warps;

	return close_until(cutting, execution->start) &&
	       ARRAY_ADD(warps->open, warps->open_count,
			 (struct warps_interval){.end = decode_end_of(execution),
						 .scope = execution->scope});
}

/* Notes the unit's scopes and waits before its time is cut. */
static bool note_activity(struct cutting *cutting, const struct decode_unit *unit)
{
	static const struct scope_set nothing;
	struct warps *warps = cutting->warps;
	const struct decode_execution *all = warps->decoder->executions;
	struct scope_set *did = &warps->did[cutting->unit];

	for (uint32_t i = unit->first; i < unit->first + unit->count; i++) {
		uint16_t scope = all[i].scope;

		scope_set_add(did, scope);
		if (warps_is_wait(warps->kinds->of[scope]) &&
		    !add_wait(warps, all[i].start, decode_end_of(&all[i]), scope))
			return false;
	}
	/* Warps are allocated by four: warps that no partition needs do nothing. */
	cutting->is_worker = memcmp(did, &nothing, sizeof(nothing)) == 0;
	for (uint16_t i = 0; i < warps->decoder->layout->scope_count; i++)
		if (warps->kinds->of[i] == WARPS_PARTITION && scope_set_has(did, i))
			cutting->is_worker = true;
	return true;
}

static bool cut_unit(struct warps *warps, uint32_t index)
{
	const struct decoder *decoder = warps->decoder;
	const struct decode_unit *unit = &decoder->units[index];
	struct cutting cutting = {.warps = warps, .cursor = warps->from, .unit = index};
	uint16_t outside = (uint16_t)decoder->layout->scope_count;

	warps->wait_count = 0;
	warps->open_count = 0;
	if (!unit->is_there)
		return true;
	if (!note_activity(&cutting, unit) ||
	    !cut_until(&cutting, unit->header.start_clock, outside, true))
		return false;
	for (uint32_t i = unit->first; i < unit->first + unit->count; i++)
		if (!warps_is_wait(warps->kinds->of[decoder->executions[i].scope]) &&
		    !open_scope(&cutting, &decoder->executions[i]))
			return false;
	return close_until(&cutting, unit->header.end_clock) &&
	       cut_until(&cutting, warps->to, outside, true);
}

static bool is_busy(const struct warps_segment *segment)
{
	return !segment->is_idle && !warps_is_wait(segment->kind);
}

static void add_unit(struct warps *warps, uint32_t unit, struct warps_sums *sums)
{
	uint64_t busy = 0;

	if (warps->first[unit] == warps->first[unit + 1])
		return;
	sums->units[unit].ctas++;
	sums->units[unit].cycles += warps->to - warps->from;
	for (uint32_t i = warps->first[unit]; i < warps->first[unit + 1]; i++) {
		struct warps_segment *segment = &warps->segments[i];
		uint64_t cycles = segment->end - segment->start;

		segment->busy_before = busy;
		if (is_busy(segment))
			busy += cycles;
		if (segment->is_idle)
			sums->units[unit].idle += cycles;
		else
			warps_cell(sums, unit, segment->scope)->cycles += cycles;
	}
}

/* Counts executions, including those outside the analyzed time. */
static void add_executions(const struct warps *warps, struct warps_sums *sums)
{
	const struct decoder *decoder = warps->decoder;

	ARRAY_EACH(execution, decoder->executions, decoder->execution_count) {
		struct warps_cell *cell = warps_cell(sums, execution->unit, execution->scope);

		cell->executions++;
		if (execution->is_async) {
			warps_cell(sums, execution->end_unit, execution->scope)->executions++;
			continue;
		}
		cell->inclusive += execution->duration;
	}
	ARRAY_EACH(it, decoder->late_ends, decoder->late_end_count) {
		warps_cell(sums, it->unit, decoder->executions[it->execution].scope)->executions++;
	}
}

/* ------------------------------------------------------------------ async events */

static int compare_ends(const void *a, const void *b, void *context)
{
	const struct decode_execution *all = context;
	const struct warps_async_end *x = a;
	const struct warps_async_end *y = b;

	return ORDER_OF(x->unit, y->unit)
		       ?: ORDER_OF(x->clock, y->clock)
		       ?: ORDER_OF(all[x->execution].start, all[y->execution].start);
}

/* The capacity was reserved. */
static void add_async_end(struct warps *warps, struct warps_async_end end)
{
	const struct decoder *decoder = warps->decoder;
	const struct decode_execution *it = &decoder->executions[end.execution];

	scope_set_add(&warps->did[end.unit], it->scope);
	if (it->start < warps->to && end.clock > warps->from && decoder->units[it->unit].is_there &&
	    decoder->units[end.unit].is_there)
		warps->async_ends[warps->async_end_count++] = end;
}

/* Before the units are cut: a unit that starts or ends an async event is not idle. */
static bool find_asyncs(struct warps *warps)
{
	const struct decoder *decoder = warps->decoder;
	size_t first = decoder->execution_count;

	while (first && decoder->executions[first - 1].is_async)
		first--;
	warps->async_end_count = 0;
	memset(warps->did, 0, sizeof(warps->did));
	if (!array_reserve(&warps->async_ends, &warps->async_end_capacity,
			   decoder->execution_count - first + decoder->late_end_count,
			   sizeof(*warps->async_ends)))
		return false;
	for (size_t i = first; i < decoder->execution_count; i++) {
		const struct decode_execution *it = &decoder->executions[i];

		scope_set_add(&warps->did[it->unit], it->scope);
		add_async_end(warps, (struct warps_async_end){.clock = decode_end_of(it),
							      .execution = (uint32_t)i,
							      .unit = it->end_unit,
							      .is_first = true});
	}
	ARRAY_EACH(it, decoder->late_ends, decoder->late_end_count) {
		add_async_end(warps, (struct warps_async_end){.clock = it->clock,
							      .execution = it->execution,
							      .unit = it->unit});
	}
	if (warps->async_end_count)
		qsort_r(warps->async_ends, warps->async_end_count, sizeof(*warps->async_ends),
			compare_ends, decoder->executions);
	return true;
}

/* Cycles that the unit worked before `clock`. */
static uint64_t busy_before(const struct warps *warps, uint32_t unit, uint64_t clock)
{
	const struct warps_segment *segment = &warps->segments[warps->first[unit]];
	size_t count = ARRAY_COUNT_BEFORE(warps->first[unit + 1] - warps->first[unit], i,
					  segment[i].start <= clock);

	segment += count ? count - 1 : 0;
	return segment->busy_before + (is_busy(segment) ? clock - segment->start : 0);
}

static void add_asyncs(const struct warps *warps, struct warps_sums *sums)
{
	for (size_t i = 0; i < warps->async_end_count; i++) {
		const struct decode_execution *it =
			&warps->decoder->executions[warps->async_ends[i].execution];
		uint64_t start = it->start > warps->from ? it->start : warps->from;
		uint64_t end = decode_end_of(it) < warps->to ? decode_end_of(it) : warps->to;
		struct warps_async *async = &sums->asyncs[it->scope];

		if (!warps->async_ends[i].is_first)
			continue;
		async->executions++;
		async->cycles += end - start;
		async->overlapped += busy_before(warps, it->end_unit, end) -
				     busy_before(warps, it->end_unit, start);
	}
}

/* ------------------------------------------------------------------ one CTA */

static bool cut_units(struct warps *warps)
{
	if (!find_asyncs(warps))
		return false;
	for (uint32_t u = 0; u < warps->decoder->layout->unit_count; u++) {
		warps->first[u] = (uint32_t)warps->segment_count;
		if (!cut_unit(warps, u))
			return false;
		warps->first[u + 1] = (uint32_t)warps->segment_count;
	}
	return true;
}

bool warps_add(struct warps *warps, const struct decoder *decoder, const struct warps_kinds *kinds,
	       struct warps_sums *sums)
{
	uint64_t unseen = 0;

	warps->decoder = decoder;
	warps->kinds = kinds;
	warps->segment_count = 0;
	if (!find_window(warps, &unseen)) {
		sums->left_out++;
		return true;
	}
	if (!decoder->layout->sum_count && !cut_units(warps))
		return false;
	sums->ctas++;
	sums->cycles += warps->to - warps->from;
	sums->unseen += unseen;
	if (decoder->layout->sum_count) {
		warps_add_sums(warps, sums);
		return true;
	}
	for (uint32_t u = 0; u < decoder->layout->unit_count; u++)
		add_unit(warps, u, sums);
	add_executions(warps, sums);
	add_asyncs(warps, sums);
	warps_critical_path(warps, sums);
	return true;
}

void warps_fini(struct warps *warps)
{
	FREE_ALL(warps->segments, warps->async_ends, warps->waits, warps->open);
	*warps = (struct warps){0};
}
