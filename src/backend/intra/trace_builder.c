/* Building the trace of a launch: clock conversion and assignment of slices to tracks. */
#include "backend/intra/trace_builder.h"

#include "base/array.h"
#include "format/rows.h"
#include "record/sets/record_sessions.h"

#define LINES_MAX 16u
#define LINE_DEPTH 32u

/* Open slices of a sub-track, by end. */
struct line {
	uint64_t ends_ns[LINE_DEPTH];
	uint32_t depth;
};

struct placing {
	struct line lines[LINES_MAX];
	uint32_t count;
};

/* The first sub-track where the slice follows or nests; the last one if there are too many. */
static uint32_t place_event(struct placing *placing, uint32_t first, uint64_t start_ns,
			    uint64_t end_ns)
{
	uint32_t at;

	for (at = first; at < LINES_MAX; at++) {
		struct line *line = &placing->lines[at];

		while (line->depth && line->ends_ns[line->depth - 1] <= start_ns)
			line->depth--;
		if (line->depth < LINE_DEPTH &&
		    (!line->depth || line->ends_ns[line->depth - 1] >= end_ns)) {
			line->ends_ns[line->depth++] = end_ns;
			break;
		}
	}
	if (at == LINES_MAX)
		at--;
	if (at >= placing->count)
		placing->count = at + 1;
	return at;
}

/*
 * The SM clock relative to the global timer. All units of the CTA use one: the timer advances in
 * such large steps that separate conversions would reorder events of different units.
 */
struct clock {
	uint64_t cycles; /* at `ns` of the timer */
	uint64_t ns;
	double mhz;
	double ns_per_cycle;
};

/* From the unit that ran longest, which gives the best rate. */
static struct clock clock_of(const struct decoder *decoder, double fallback_mhz)
{
	const struct decode_unit *longest = NULL;

	ARRAY_EACH(unit, decoder->units, decoder->layout->unit_count) {
		if (unit->is_there &&
		    (!longest || unit->header.end_clock - unit->header.start_clock >
					 longest->header.end_clock - longest->header.start_clock))
			longest = unit;
	}
	if (!longest)
		return (struct clock){0};
	double mhz = decode_mhz(decoder->layout, longest, fallback_mhz);
	if (mhz < 1)
		mhz = 1000;
	return (struct clock){
		.cycles = longest->header.start_clock,
		.ns = longest->header.start_ns,
		.mhz = mhz,
		.ns_per_cycle = 1000.0 / mhz,
	};
}

static uint64_t to_ns(const struct clock *clock, uint64_t cycles)
{
	double ns = (double)(int64_t)(cycles - clock->cycles) * clock->ns_per_cycle;

	if (!(ns > -9e18 && ns < 9e18)) /* from a header that no kernel would write */
		return clock->ns;
	return clock->ns + (uint64_t)(int64_t)(ns < 0 ? ns - 0.5 : ns + 0.5);
}

/* Common data of a CTA's slices. */
struct adding {
	struct trace_builder *builder;
	const struct decoder *decoder;
	const struct launch_totals *totals;
	struct clock clock;
	uint32_t unit_of[INSTRUMENT_UNIT_MAX]; /* by the decoder's unit: index in builder->units */
	uint32_t *async;                       /* executions of async events, by start */
	size_t async_count;
};

static bool add_event(const struct adding *adding, uint32_t index, struct placing *placing,
		      uint32_t first_line)
{
	const struct decode_execution *execution = &adding->decoder->executions[index];
	struct trace_builder *builder = adding->builder;
	uint32_t unit = adding->unit_of[execution->unit];
	uint64_t start_ns = to_ns(&adding->clock, execution->start);
	uint64_t end_ns = to_ns(&adding->clock, decode_end_of(execution));

	return ARRAY_ADD_AGAIN(
		builder->events, builder->event_capacity, builder->event_count,
		(struct intra_event){
			.start_ns = start_ns,
			.end_ns = end_ns,
			.unit = unit,
			.node = adding->totals->node_of[index],
			.cycles = execution->duration < UINT32_MAX ? (uint32_t)execution->duration
								   : UINT32_MAX,
			.line = (uint16_t)place_event(placing, first_line, start_ns, end_ns),
			.is_async = execution->is_async,
			.is_partial = execution->is_partial,
			.end_step = (int8_t)((int32_t)adding->unit_of[execution->end_unit] -
					     (int32_t)unit),
		});
}

static int compare_starts(const void *a, const void *b, void *context)
{
	const struct decode_execution *all = context;
	const struct decode_execution *x = &all[*(const uint32_t *)a];
	const struct decode_execution *y = &all[*(const uint32_t *)b];

	return ORDER_OF(x->start, y->start) ?: ORDER_OF(y->duration, x->duration);
}

/* Sorts the executions of async events. False if out of memory. */
static bool sort_async(struct adding *adding)
{
	const struct decoder *decoder = adding->decoder;
	size_t first = decoder->execution_count;

	while (first && decoder->executions[first - 1].is_async)
		first--;
	size_t count = decoder->execution_count - first;
	if (!count)
		return true;
	adding->async = malloc(count * sizeof(*adding->async));
	if (!adding->async)
		return false;
	for (size_t i = 0; i < count; i++)
		adding->async[i] = (uint32_t)(first + i);
	qsort_r(adding->async, count, sizeof(*adding->async), compare_starts, decoder->executions);
	adding->async_count = count;
	return true;
}

/* Async events that `unit` started, on sub-tracks. */
static bool add_async(const struct adding *adding, uint32_t unit, struct placing *placing)
{
	uint32_t first_line = placing->count ? placing->count : 1;

	for (size_t i = 0; i < adding->async_count; i++) {
		uint32_t index = adding->async[i];

		if (adding->decoder->executions[index].unit == unit &&
		    adding->totals->node_of[index] &&
		    !add_event(adding, index, placing, first_line))
			return false;
	}
	return true;
}

static uint32_t field_of(uint32_t word, uint32_t high, uint32_t low)
{
	return word >> low & ((1u << (high - low + 1)) - 1);
}

/*
 * The fields of HW_ID and XCC_ID are from the comment above __smid() in
 * hip/amd_detail/amd_device_functions.h of ROCm 7.1. It describes HW_ID1 of gfx10 and gfx11; later
 * chips are assumed to be the same.
 */
uint32_t trace_builder_amd_processor(const char *arch, uint32_t hw_id, uint32_t xcc_id)
{
	bool is_gfx9 = strncmp(arch, "gfx9", 4) == 0;
	bool has_dies = strncmp(arch, "gfx94", 5) == 0 || strcmp(arch, "gfx950") == 0;
	bool has_8_engines = strcmp(arch, "gfx908") == 0 || strcmp(arch, "gfx90a") == 0;

	if (!is_gfx9)
		return LANE_AMD | LANE_AMD_WGP | field_of(hw_id, 13, 10) << LANE_AMD_UNIT |
		       field_of(hw_id, 16, 16) << LANE_AMD_ARRAY |
		       field_of(hw_id, 20, 18) << LANE_AMD_ENGINE;
	return LANE_AMD | (has_dies ? LANE_AMD_DIES | field_of(xcc_id, 3, 0) << LANE_AMD_DIE : 0) |
	       field_of(hw_id, 11, 8) << LANE_AMD_UNIT | field_of(hw_id, 12, 12) << LANE_AMD_ARRAY |
	       field_of(hw_id, has_8_engines ? 15 : 14, 13) << LANE_AMD_ENGINE;
}

static bool add_unit(struct adding *adding, uint32_t index, uint32_t cta)
{
	const struct decode_unit *unit = &adding->decoder->units[index];
	struct trace_builder *builder = adding->builder;
	double mhz = adding->clock.mhz;

	adding->unit_of[index] = (uint32_t)builder->unit_count;
	return ARRAY_ADD_AGAIN(
		builder->units, builder->unit_capacity, builder->unit_count,
		(struct intra_unit){
			.start_ns = to_ns(&adding->clock, unit->header.start_clock),
			.end_ns = to_ns(&adding->clock, unit->header.end_clock),
			.cta = cta,
			.processor = adding->decoder->layout->is_amd
					     ? trace_builder_amd_processor(
						       builder->arch, unit->header.processor,
						       unit->header.processor_high)
					     : unit->header.processor,
			.warp = unit->warp,
			.line_count = 1,
			.finalize_ns =
				(uint32_t)((double)unit->header.finalize_cycles * 1000 / mhz),
			.clock_mhz = (uint16_t)(mhz < 65535 ? mhz : 65535),
		});
}

static bool add_slices(const struct adding *adding, uint32_t index)
{
	const struct decode_unit *unit = &adding->decoder->units[index];
	struct placing placing;

	for (uint32_t i = 0; i < LINES_MAX; i++)
		placing.lines[i].depth = 0;
	placing.count = 0;
	for (uint32_t i = unit->first; i < unit->first + unit->count; i++)
		if (adding->totals->node_of[i] && !add_event(adding, i, &placing, 0))
			return false;
	if (adding->async_count && !add_async(adding, index, &placing))
		return false;
	if (placing.count)
		adding->builder->units[adding->unit_of[index]].line_count = (uint16_t)placing.count;
	return true;
}

bool trace_builder_add(struct trace_builder *builder, const struct decoder *decoder,
		       const struct launch_totals *totals, uint32_t cta, double fallback_mhz)
{
	struct adding adding = {
		.builder = builder,
		.decoder = decoder,
		.totals = totals,
		.clock = clock_of(decoder, fallback_mhz),
	};
	uint32_t unit_count = decoder->layout->unit_count;
	bool is_ok = sort_async(&adding);

	/* All units first: an event of one may end on any other. */
	for (uint32_t u = 0; is_ok && u < unit_count; u++)
		if (decoder->units[u].is_there)
			is_ok = add_unit(&adding, u, cta);
	for (uint32_t u = 0; is_ok && u < unit_count; u++)
		if (decoder->units[u].is_there)
			is_ok = add_slices(&adding, u);
	free(adding.async);
	return is_ok;
}

bool trace_builder_commit(struct trace_builder *builder, const struct launch_totals *totals,
			  uint32_t device, int64_t offset_ns, const struct trace_event *event)
{
	struct intra_launch launch = {
		.where = totals->nodes[0].where,
		.device = device,
		.frame = totals->kernel->frame,
		.event = event,
		.units = builder->units,
		.unit_count = builder->unit_count,
		.node_count = totals->node_count,
		.events = builder->events,
		.event_count = builder->event_count,
	};

	if (!array_reserve(&builder->nodes, &builder->node_capacity, totals->node_count,
			   sizeof(*builder->nodes)))
		return false;
	for (uint32_t i = 0; i < totals->node_count; i++)
		builder->nodes[i] = totals->nodes[i].where;
	for (size_t i = 0; i < builder->unit_count; i++) {
		builder->units[i].start_ns += (uint64_t)offset_ns;
		builder->units[i].end_ns += (uint64_t)offset_ns;
	}
	for (size_t i = 0; i < builder->event_count; i++) {
		builder->events[i].start_ns += (uint64_t)offset_ns;
		builder->events[i].end_ns += (uint64_t)offset_ns;
	}
	launch.nodes = builder->nodes;
	return record_intra(&launch);
}

void trace_builder_fini(struct trace_builder *builder)
{
	FREE_ALL(builder->units, builder->events, builder->nodes);
	*builder = (struct trace_builder){0};
}
