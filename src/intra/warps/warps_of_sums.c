/*
 * Warp analysis of a CTA that has sums instead of records: busy, waiting and idle time per warp.
 * Without records the critical path is unknown.
 */
#include "intra/warps/segments.h"

/* True if the scope is inside a wait, which all of its time belongs to. */
static bool is_in_wait(const struct warps_kinds *kinds, const struct instrument_layout *layout,
		       const struct decode_sum *nodes, uint32_t sum)
{
	for (uint16_t p = nodes[sum].parent; p != INSTRUMENT_NO_SUM; p = nodes[p].parent)
		if (warps_is_wait(kinds->of[layout->sums[p].scope]))
			return true;
	return false;
}

/* Cycles of each sum without inner scopes, which come after it. */
static void find_exclusive(const struct warps_kinds *kinds, const struct instrument_layout *layout,
			   const struct decode_sum *nodes, uint64_t *exclusive)
{
	for (uint32_t i = 0; i < layout->sum_count; i++) {
		uint64_t cycles = is_in_wait(kinds, layout, nodes, i) ? 0 : nodes[i].cycles;

		exclusive[i] = cycles;
		if (nodes[i].parent != INSTRUMENT_NO_SUM) {
			uint64_t *outer = &exclusive[nodes[i].parent];

			*outer -= cycles < *outer ? cycles : *outer;
		}
	}
}

/* Adds what the unit executed; returns the cycles that remain of `elapsed`. */
static uint64_t add_scopes(const struct decoder *decoder, const struct warps_kinds *kinds,
			   uint32_t unit, uint64_t elapsed, struct warps_sums *sums)
{
	const struct instrument_layout *layout = decoder->layout;
	const struct decode_sum *nodes = decoder->sums + (size_t)unit * layout->sum_count;
	uint64_t exclusive[INSTRUMENT_SUM_MAX];

	find_exclusive(kinds, layout, nodes, exclusive);
	for (uint32_t i = 0; i < layout->sum_count; i++) {
		struct warps_cell *cell = warps_cell(sums, unit, layout->sums[i].scope);
		uint64_t cycles = exclusive[i] < elapsed ? exclusive[i] : elapsed;

		cell->executions += nodes[i].count;
		cell->inclusive += nodes[i].cycles;
		cell->cycles += cycles;
		elapsed -= cycles;
	}
	return elapsed;
}

/* True if the unit is idle outside scopes: it has none, or runs a numbered partition. */
static bool is_idle_outside(const struct decoder *decoder, const struct warps_kinds *kinds,
			    uint32_t unit)
{
	const struct instrument_layout *layout = decoder->layout;
	const struct decode_sum *nodes = decoder->sums + (size_t)unit * layout->sum_count;
	bool has_any = false;

	for (uint32_t i = 0; i < layout->sum_count; i++) {
		if (nodes[i].count && kinds->of[layout->sums[i].scope] == WARPS_PARTITION)
			return true;
		has_any |= nodes[i].count != 0;
	}
	return !has_any;
}

void warps_add_sums(const struct warps *warps, struct warps_sums *sums)
{
	const struct decoder *decoder = warps->decoder;
	uint64_t all = warps->to - warps->from;

	for (uint32_t u = 0; u < decoder->layout->unit_count; u++) {
		const struct decode_unit *unit = &decoder->units[u];
		uint64_t elapsed = unit->header.end_clock - unit->header.start_clock;

		if (!unit->is_there)
			continue;
		uint64_t outside = add_scopes(decoder, warps->kinds, u, elapsed, sums);
		sums->units[u].ctas++;
		sums->units[u].cycles += all;
		sums->units[u].idle += all - elapsed;
		if (is_idle_outside(decoder, warps->kinds, u))
			sums->units[u].idle += outside;
		else
			warps_cell(sums, u, sums->scope_count)->cycles += outside;
	}
}
