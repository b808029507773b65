/* Timelines of launches. See lanes.h. */
#include "backend/instrument/lanes.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define LINES_MAX 16u
#define LINE_DEPTH 32u

/* What is open on a line, by end. */
struct line {
	uint64_t ends_ns[LINE_DEPTH];
	uint32_t depth;
};

struct placing {
	struct line lines[LINES_MAX];
	uint32_t count;
};

/* The first line on which the slice follows or nests; the last one if there are too many. */
static uint32_t place(struct placing *placing, uint32_t first, uint64_t start_ns, uint64_t end_ns)
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

/* Cycles of a unit's clock on the device's timer. */
static uint64_t to_ns(const struct decode_unit *unit, double ns_per_cycle, uint64_t clock)
{
	uint64_t cycles = clock > unit->start_clock ? clock - unit->start_clock : 0;

	return unit->start_ns + (uint64_t)((double)cycles * ns_per_cycle + 0.5);
}

static bool add_event(struct lanes *lanes, const struct decode_unit *unit, double ns_per_cycle,
		      const struct decode_execution *execution, uint32_t node, uint32_t unit_index,
		      struct placing *placing, uint32_t first_line)
{
	uint64_t start_ns = to_ns(unit, ns_per_cycle, execution->start);
	uint64_t end_ns = to_ns(unit, ns_per_cycle, execution->start + execution->duration);

	if (!array_reserve(&lanes->events, &lanes->event_capacity, lanes->event_count + 1,
			   sizeof(*lanes->events)))
		return false;
	lanes->events[lanes->event_count++] = (struct intra_event){
		.start_ns = start_ns,
		.end_ns = end_ns,
		.unit = unit_index,
		.node = node,
		.cycles = execution->duration < UINT32_MAX ? (uint32_t)execution->duration
							   : UINT32_MAX,
		.line = (uint16_t)place(placing, first_line, start_ns, end_ns),
		.is_async = execution->is_async,
	};
	return true;
}

static int compare_starts(const void *a, const void *b, void *context)
{
	const struct decode_execution *all = context;
	const struct decode_execution *x = &all[*(const uint32_t *)a];
	const struct decode_execution *y = &all[*(const uint32_t *)b];

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->duration != y->duration ? (x->duration > y->duration ? -1 : 1) : 0;
}

/* Asynchronous work that `unit` began, on lines of its own. */
static bool add_async(struct lanes *lanes, const struct decoder *decoder, const struct tally *tally,
		      uint32_t unit, const uint32_t *order, size_t count, double ns_per_cycle,
		      struct placing *placing)
{
	uint32_t first_line = placing->count ? placing->count : 1;

	for (size_t i = 0; i < count; i++) {
		const struct decode_execution *execution = &decoder->executions[order[i]];
		uint32_t node = tally->node_of[order[i]];

		if (execution->unit == unit && node &&
		    !add_event(lanes, &decoder->units[unit], ns_per_cycle, execution, node,
			       (uint32_t)lanes->unit_count - 1, placing, first_line))
			return false;
	}
	return true;
}

static bool add_unit(struct lanes *lanes, const struct decode_unit *unit, uint32_t cta, double mhz)
{
	if (!array_reserve(&lanes->units, &lanes->unit_capacity, lanes->unit_count + 1,
			   sizeof(*lanes->units)))
		return false;
	lanes->units[lanes->unit_count++] = (struct intra_unit){
		.start_ns = unit->start_ns,
		.end_ns = to_ns(unit, 1000.0 / mhz, unit->end_clock),
		.cta = cta,
		.processor = unit->processor,
		.warp = unit->warp,
		.line_count = 1,
		.finalize_ns = (uint32_t)((double)unit->finalize_cycles * 1000 / mhz),
		.clock_mhz = (uint16_t)(mhz < 65535 ? mhz : 65535),
	};
	return true;
}

bool lanes_add(struct lanes *lanes, const struct decoder *decoder, const struct tally *tally,
	       uint32_t cta, double fallback_mhz)
{
	const struct decode_execution *all = decoder->executions;
	size_t first_async = decoder->execution_count;
	uint32_t *order = NULL;
	size_t count;
	bool is_ok = true;

	while (first_async && all[first_async - 1].is_async)
		first_async--;
	count = decoder->execution_count - first_async;
	if (count) {
		order = malloc(count * sizeof(*order));
		if (!order)
			return false;
		for (size_t i = 0; i < count; i++)
			order[i] = (uint32_t)(first_async + i);
		qsort_r(order, count, sizeof(*order), compare_starts, decoder->executions);
	}
	for (uint32_t u = 0; is_ok && u < decoder->layout->unit_count; u++) {
		const struct decode_unit *unit = &decoder->units[u];
		struct placing placing;
		double mhz;

		if (!unit->is_there)
			continue;
		mhz = decode_mhz(decoder->layout, unit, fallback_mhz);
		if (mhz < 1)
			mhz = 1000;
		for (uint32_t i = 0; i < LINES_MAX; i++)
			placing.lines[i].depth = 0;
		placing.count = 0;
		is_ok = add_unit(lanes, unit, cta, mhz);
		for (uint32_t i = unit->first; is_ok && i < unit->first + unit->count; i++)
			if (tally->node_of[i])
				is_ok = add_event(lanes, unit, 1000.0 / mhz, &all[i],
						  tally->node_of[i],
						  (uint32_t)lanes->unit_count - 1, &placing, 0);
		if (is_ok && count)
			is_ok = add_async(lanes, decoder, tally, u, order, count, 1000.0 / mhz,
					  &placing);
		if (is_ok && placing.count)
			lanes->units[lanes->unit_count - 1].line_count = (uint16_t)placing.count;
	}
	free(order);
	return is_ok;
}

bool lanes_commit(struct lanes *lanes, const struct tally *tally, uint32_t device,
		  int64_t offset_ns, const struct trace_event *event)
{
	struct intra_launch launch = {
		.where = tally->where,
		.device = device,
		.frame = tally->kernel->frame,
		.event = event,
		.units = lanes->units,
		.unit_count = lanes->unit_count,
		.node_count = tally->node_count,
		.events = lanes->events,
		.event_count = lanes->event_count,
	};
	bool is_ok = array_reserve(&lanes->nodes, &lanes->node_capacity, tally->node_count,
				   sizeof(*lanes->nodes));

	for (uint32_t i = 0; is_ok && i < tally->node_count; i++)
		lanes->nodes[i] = tally->nodes[i].where;
	for (size_t i = 0; is_ok && i < lanes->unit_count; i++) {
		lanes->units[i].start_ns += (uint64_t)offset_ns;
		lanes->units[i].end_ns += (uint64_t)offset_ns;
	}
	for (size_t i = 0; is_ok && i < lanes->event_count; i++) {
		lanes->events[i].start_ns += (uint64_t)offset_ns;
		lanes->events[i].end_ns += (uint64_t)offset_ns;
	}
	launch.nodes = lanes->nodes;
	is_ok = is_ok && record_intra(&launch);
	lanes->unit_count = 0;
	lanes->event_count = 0;
	return is_ok;
}

void lanes_fini(struct lanes *lanes)
{
	free(lanes->units);
	free(lanes->events);
	free(lanes->nodes);
	*lanes = (struct lanes){0};
}
