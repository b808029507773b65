/*
 * Fuzz target for the decoder with valid records: the input determines what each warp does and
 * when. Records are stored as the pass stores them, and decoding must return what the warps did.
 */
#include <stdlib.h>
#include <string.h>

#include "intra/decode/decoder.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

#define UNITS 3u
#define SCOPES 4u
#define KINDS (INSTRUMENT_EVENT_END + 1u)
#define RECORDS_MAX 512u /* of a unit */
#define RING_LOG_MAX 6u  /* records */
#define SLACK_MAX 8u     /* records */
/*
 * Steps of the clock, as a power of two. If its low half must tell copies in the ring buffer and
 * the slack area apart, the whole kernel is shorter than that. Executions without a duration are
 * shorter than half of it.
 */
#define STEP_LOG_SLACK 22u
#define STEP_LOG_SATURATED 27u
#define STEP_LOG_MAX 31u

struct warp_record {
	uint64_t start;
	uint64_t end;   /* when it was made */
	uint32_t group; /* index of the first record stored with it */
	uint16_t scope;
	uint16_t kind;
};

struct warp {
	struct warp_record records[RECORDS_MAX];
	uint32_t count;
	uint32_t first; /* that is still in the ring buffer */
	uint64_t start;
	uint64_t end; /* so far */
	uint32_t group;
	uint64_t group_start;
};

struct input {
	const uint8_t *at;
	const uint8_t *end;
};

/* The expected result for one warp. */
struct expected {
	struct decode_execution executions[RECORDS_MAX];
	uint32_t count;
	uint32_t broken[SCOPES];
	uint32_t cut[SCOPES];
	uint32_t events;
};

static struct warp warps[UNITS];
static struct expected expected[UNITS];

static uint8_t take(struct input *input)
{
	return input->at < input->end ? *input->at++ : 0;
}

static void make_layout(struct input *input, struct instrument_layout *layout)
{
	static const char *const names[SCOPES] = {"a", "b", "c", "d"};
	uint32_t capacity = 1u << (1 + take(input) % RING_LOG_MAX);
	uint32_t slack = take(input) % (SLACK_MAX + 1) & ~1u;

	*layout = (struct instrument_layout){
		.unit_count = 1 + take(input) % UNITS,
		.warps_per_unit = 1,
		.warp_count = UNITS,
		.ring_bytes = capacity * INSTRUMENT_RECORD_BYTES,
		.slack_bytes = (slack < capacity ? slack : capacity) * INSTRUMENT_RECORD_BYTES,
		.cta_stride = 1,
	};
	layout->cta_bytes = ((uint32_t)layout_ring_at(layout, layout->unit_count) + 127u) / 128u *
			    128u;
	for (uint32_t scope = 0; scope < SCOPES; scope++) {
		uint32_t index = layout_scope(layout, names[scope], 1);

		for (uint32_t kind = 0; kind < KINDS; kind++)
			if (index != scope || !layout_code(layout, scope, kind))
				abort();
	}
	for (uint32_t u = 0; u < layout->unit_count; u++)
		layout->units[u] = (uint8_t)u;
}

/* Maximum step of a warp: a few of them, or records with a duration. */
static uint32_t step_of(const struct instrument_layout *layout, bool is_saturated)
{
	if (layout->slack_bytes)
		return STEP_LOG_SLACK;
	return is_saturated ? STEP_LOG_SATURATED : STEP_LOG_MAX;
}

/* Two bytes: the kind of record, whether a new group begins, and the time since the last record. */
static void make_record(struct warp *warp, const uint8_t *op, uint32_t step_max, bool is_saturated)
{
	struct warp_record *record = &warp->records[warp->count++];
	uint64_t start;

	warp->end += (1ull << op[1] % (step_max + 1)) + (op[1] >> 5) - 1;
	*record = (struct warp_record){.start = warp->end,
				       .end = warp->end,
				       .group = warp->group,
				       .scope = op[0] % SCOPES,
				       .kind = op[0] / SCOPES % KINDS};
	if (record->kind != INSTRUMENT_SCOPE)
		return;
	/* It started in its group. */
	start = warp->group_start + ((warp->end - warp->group_start) >> (op[0] / SCOPES % 8));
	if (!is_saturated && warp->end - start >= INSTRUMENT_DURATION_MAX)
		start = warp->end - INSTRUMENT_DURATION_MAX + 1;
	record->start = start;
}

/* A loop of a few records. */
static void run_warp(struct input *input, const struct instrument_layout *layout, struct warp *warp)
{
	uint32_t group_max = layout->slack_bytes / INSTRUMENT_RECORD_BYTES + 1;
	uint32_t capacity = layout->ring_bytes / INSTRUMENT_RECORD_BYTES;
	uint32_t count = (take(input) | (uint32_t)take(input) << 8) % (RECORDS_MAX + 1);
	bool is_saturated = take(input) & 1;
	uint32_t step_max = step_of(layout, is_saturated);
	uint64_t start = (uint64_t)take(input) << 28;
	uint8_t body[2 * 256];
	uint32_t body_count = take(input) + 1u;

	for (uint32_t i = 0; i < 2 * body_count; i++)
		body[i] = take(input);
	*warp = (struct warp){.start = start, .end = start, .group_start = start};
	while (warp->count < count) {
		const uint8_t *op = &body[2 * (warp->count % body_count)];

		if (op[0] >> 7 || warp->count - warp->group == group_max) {
			warp->group = warp->count;
			warp->group_start = ++warp->end; /* groups do not share clock reads */
		}
		make_record(warp, op, step_max, is_saturated);
	}
	warp->first = warp->count > capacity ? warp->count - capacity : 0;
	warp->end += take(input);
}

static void store(const struct instrument_layout *layout, const struct warp *warp, uint32_t unit,
		  uint8_t *cta)
{
	uint32_t capacity = layout->ring_bytes / INSTRUMENT_RECORD_BYTES;
	uint8_t *ring = cta + layout_ring_at(layout, unit);
	struct instrument_unit_header header = {
		.magic = INSTRUMENT_MAGIC,
		.count = warp->count,
		.start_clock = warp->start,
		.end_clock = warp->end,
	};

	memcpy(cta + layout_header_at(layout, unit), &header, sizeof(header));
	for (uint32_t i = 0; i < warp->count; i++) {
		const struct warp_record *record = &warp->records[i];
		uint32_t index = record->group % capacity + (i - record->group);
		uint64_t duration = record->end - record->start;
		struct instrument_record stored = {.clock = (uint32_t)record->start};

		for (uint32_t code = 1; code <= layout->code_count; code++)
			if (layout->codes[code].scope == record->scope &&
			    layout->codes[code].kind == record->kind)
				stored.word = code << 24;
		if (record->kind == INSTRUMENT_SCOPE)
			stored.word |= duration < INSTRUMENT_DURATION_MAX ? (uint32_t)duration
									  : INSTRUMENT_DURATION_MAX;
		memcpy(ring + (size_t)index * INSTRUMENT_RECORD_BYTES, &stored, sizeof(stored));
	}
}

static struct decode_execution *expect_execution(struct expected *want, uint16_t scope,
						 uint64_t start, uint64_t end, uint32_t sequence)
{
	want->executions[want->count] = (struct decode_execution){
		.start = start, .duration = end - start, .sequence = sequence, .scope = scope};
	return &want->executions[want->count++];
}

/* One without a duration lasted at least until the previous record was made. */
static uint64_t expect_whole(struct expected *want, const struct warp_record *record,
			     uint64_t latest, uint32_t sequence)
{
	bool is_partial = record->end - record->start >= INSTRUMENT_DURATION_MAX;
	uint64_t end = is_partial ? record->start + INSTRUMENT_DURATION_MAX : record->end;

	if (is_partial && latest > end)
		end = latest;
	expect_execution(want, record->scope, record->start, end, sequence)->is_partial =
		is_partial;
	return end;
}

/* An END without a START, which was overwritten if it is the first remaining one of its scope. */
static void expect_cut(struct expected *want, const struct warp *warp, uint32_t at)
{
	const struct warp_record *record = &warp->records[at];
	uint64_t oldest = record->start;
	bool is_first = true;

	for (uint32_t i = warp->first; i < at; i++) {
		if (warp->records[i].start < oldest)
			oldest = warp->records[i].start;
		is_first &= warp->records[i].scope != record->scope ||
			    warp->records[i].kind >= INSTRUMENT_EVENT_START;
	}
	is_first &= warp->first > 0;
	++*(is_first ? &want->cut[record->scope] : &want->broken[record->scope]);
	if (is_first)
		expect_execution(want, record->scope, oldest, record->end, at)->is_partial = true;
}

/* An END is paired with the latest open START of its scope. */
static void expect(const struct warp *warp, struct expected *want)
{
	bool is_taken[RECORDS_MAX] = {false};
	uint64_t latest = 0;

	*want = (struct expected){0};
	for (uint32_t i = warp->first; i < warp->count; i++) {
		const struct warp_record *record = &warp->records[i];
		uint32_t start = i;

		want->events += record->kind >= INSTRUMENT_EVENT_START;
		if (record->kind == INSTRUMENT_SCOPE) {
			latest = expect_whole(want, record, latest, i);
			continue;
		}
		latest = record->end;
		if (record->kind != INSTRUMENT_END)
			continue;
		while (start > warp->first &&
		       (warp->records[start - 1].kind != INSTRUMENT_START ||
			warp->records[start - 1].scope != record->scope || is_taken[start - 1]))
			start--;
		if (start == warp->first) {
			expect_cut(want, warp, i);
			continue;
		}
		is_taken[start - 1] = true;
		expect_execution(want, record->scope, warp->records[start - 1].start, record->end,
				 i);
	}
	for (uint32_t i = warp->first; i < warp->count; i++)
		want->broken[warp->records[i].scope] += warp->records[i].kind == INSTRUMENT_START &&
							!is_taken[i];
}

static void check_unit(const struct decoder *decoder, uint32_t u)
{
	const struct decode_unit *unit = &decoder->units[u];
	const struct decode_execution *all = decoder->executions;
	const struct expected *want = &expected[u];

	if (!unit->is_there || unit->count != want->count || unit->dropped != warps[u].first ||
	    unit->header.count != warps[u].count)
		abort();
	for (uint32_t i = 0; i < want->count; i++) {
		const struct decode_execution *it = &want->executions[i];
		uint32_t at = unit->first;

		while (at < unit->first + unit->count && all[at].sequence != it->sequence)
			at++;
		if (at == unit->first + unit->count || all[at].start != it->start ||
		    all[at].duration != it->duration || all[at].scope != it->scope ||
		    all[at].is_partial != it->is_partial || all[at].is_async)
			abort();
	}
}

static bool comes_before(const struct decode_execution *a, const struct decode_execution *b)
{
	if (a->start != b->start)
		return a->start < b->start;
	if (a->duration != b->duration)
		return a->duration > b->duration;
	return a->sequence > b->sequence;
}

/* Parents contain their children, and every contained execution has a parent. */
static void check_nesting(const struct decoder *decoder, uint32_t u)
{
	const struct decode_unit *unit = &decoder->units[u];
	const struct decode_execution *all = decoder->executions;

	for (uint32_t i = unit->first; i < unit->first + unit->count; i++) {
		uint64_t end = all[i].start + all[i].duration;
		bool has_parent = all[i].parent != DECODE_NONE;
		uint32_t around = 0;

		if (has_parent && (all[all[i].parent].start > all[i].start ||
				   all[all[i].parent].start + all[all[i].parent].duration < end))
			abort();
		for (uint32_t other = unit->first; other < i; other++) {
			if (!comes_before(&all[other], &all[other + 1]))
				abort();
			around += all[other].start + all[other].duration > end;
		}
		if (around && !has_parent && unit->count <= DECODE_DEPTH_MAX)
			abort();
	}
}

/* Exact for scopes without events; each event of one warp is unpaired or an end of an execution. */
static void check_totals(const struct decoder *decoder, uint64_t events)
{
	const struct decode_totals *totals = &decoder->totals;
	uint64_t alone = 0;

	for (uint32_t scope = 0; scope < SCOPES; scope++) {
		uint64_t broken = totals->broken[scope];
		uint64_t cut = totals->cut_by_drop[scope];

		for (uint32_t u = 0; u < decoder->layout->unit_count; u++) {
			broken -= expected[u].broken[scope];
			cut -= expected[u].cut[scope];
		}
		if (!events && (broken || cut))
			abort();
		alone += broken + cut;
	}
	for (size_t i = 0; i < decoder->execution_count; i++)
		alone += 2u * decoder->executions[i].is_async;
	if (totals->damaged || (decoder->layout->unit_count == 1 && events != alone))
		abort();
}

static void check(const struct decoder *decoder)
{
	uint64_t events = 0;

	for (uint32_t u = 0; u < decoder->layout->unit_count; u++) {
		check_unit(decoder, u);
		check_nesting(decoder, u);
		events += expected[u].events;
	}
	check_totals(decoder, events);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct input input = {bytes, bytes + length};
	struct instrument_layout layout;
	struct decoder decoder;
	uint8_t *cta;

	make_layout(&input, &layout);
	cta = calloc(1, layout.cta_bytes);
	for (uint32_t u = 0; cta && u < layout.unit_count; u++) {
		run_warp(&input, &layout, &warps[u]);
		store(&layout, &warps[u], u, cta);
		expect(&warps[u], &expected[u]);
	}
	decoder_init(&decoder, &layout, (struct decode_overhead){0, 0});
	if (cta && decode_cta(&decoder, cta))
		check(&decoder);
	decoder_fini(&decoder);
	layout_fini(&layout);
	free(cta);
	return 0;
}
