/*
 * Sums of one unit. Cycles are sums of 32-bit clocks, so they are exact if the unit ran for less
 * than 2^32 cycles; after that they are a lower bound.
 *
 * Record overhead: an execution contains the clock reads and the records of all executions inside,
 * and the read of its end. Records that share their clock read with an end come after that end.
 */
#include "intra/decode/decode_parts.h"

#include "base/array.h"

static uint32_t word_at(const uint8_t *bytes, uint32_t word)
{
	uint32_t value;

	memcpy(&value, bytes + (size_t)word * sizeof(value), sizeof(value));
	return value;
}

/*
 * Cycles that the additions of one execution take: by the stall counts in ptxas's code, the first
 * one is four cycles after its clock read, and the next clock read two cycles after it.
 */
#define ADDITION_CYCLES 4
#define EXTREMES_CYCLES 5 /* more, for the shortest and the longest execution; in a loop up to 8 */
#define CYCLES_MAX 1e18   /* no kernel runs for years */

/* Clock reads and cycles of additions by the executions inside, in INSTRUMENT_SUM_ONE. */
struct inside {
	uint64_t reads;
	uint64_t additions;
};

static int64_t addition_cycles(const struct instrument_sum *sum)
{
	return ADDITION_CYCLES + (sum->min_word == INSTRUMENT_NO_SUM ? 0 : EXTREMES_CYCLES);
}

static uint64_t overhead_of(const struct decode_overhead *overhead,
			    const struct instrument_sum *sum, const struct decode_sum *node,
			    const struct inside *inside)
{
	int64_t shared = INSTRUMENT_SUM_ONE - sum->end_reads;
	double reads = (double)inside->reads + (double)node->count * sum->end_reads;
	double additions = (double)inside->additions +
			   (double)node->count * (double)(sum->records_before - shared) *
				   (double)addition_cycles(sum);
	double cycles = (reads * overhead->empty / DECODE_CYCLE + additions) / INSTRUMENT_SUM_ONE;

	return cycles > 0 && cycles < CYCLES_MAX ? (uint64_t)(cycles + 0.5) : 0;
}

/* From the innermost sums outwards. */
static void subtract_overhead(const struct decoder *decoder, struct decode_sum *nodes)
{
	const struct instrument_layout *layout = decoder->layout;
	struct inside inside[INSTRUMENT_SUM_MAX] = {{0, 0}};

	for (uint32_t i = layout->sum_count; i-- > 0;) {
		const struct instrument_sum *sum = &layout->sums[i];
		uint64_t spent = overhead_of(&decoder->overhead, sum, &nodes[i], &inside[i]);

		nodes[i].cycles -= spent < nodes[i].cycles ? spent : nodes[i].cycles;
		if (nodes[i].min != UINT64_MAX) {
			spent = (spent + nodes[i].count / 2) / nodes[i].count;
			nodes[i].min -= spent < nodes[i].min ? spent : nodes[i].min;
			nodes[i].max -= spent < nodes[i].max ? spent : nodes[i].max;
		}
		if (nodes[i].parent == INSTRUMENT_NO_SUM)
			continue;
		inside[nodes[i].parent].reads +=
			inside[i].reads +
			nodes[i].count * (uint64_t)(sum->start_reads + sum->end_reads);
		inside[nodes[i].parent].additions += inside[i].additions +
						     nodes[i].count * INSTRUMENT_SUM_ONE *
							     (uint64_t)addition_cycles(sum);
	}
}

static bool has_starts(const struct instrument_layout *layout)
{
	for (uint32_t i = 0; i < layout->sum_counts_count; i++)
		if (!layout->sum_counts[i].is_end)
			return true;
	return false;
}

/* Compares the numbers of starts and ends. False if they do not make executions. */
static bool match_counts(struct decoder *decoder, const struct decode_unit *unit, uint16_t scope,
			 struct decode_sum *node)
{
	if (node->starts == node->count)
		return true;
	if (node->starts == node->count + 1) { /* open at the unit's end, for at least as long */
		node->cycles = (uint32_t)(node->cycles + unit->header.end_clock);
		node->count++;
		node->is_partial = true;
		decoder->totals.partial[scope]++;
		return true;
	}
	decoder->totals.broken[scope] += node->starts > node->count ? node->starts - node->count
								    : node->count - node->starts;
	return false;
}

/*
 * Executions take at most as long as the warp. Only in a pipelined loop they may overlap, and then
 * their starts are counted.
 */
static void check_sum(struct decoder *decoder, const struct decode_unit *unit, uint32_t index,
		      struct decode_sum *node)
{
	uint16_t scope = decoder->layout->sums[index].scope;
	uint64_t elapsed = unit->header.end_clock - unit->header.start_clock;
	uint64_t overlapping = node->count && has_starts(decoder->layout) ? node->count : 1;
	bool is_ok = match_counts(decoder, unit, scope, node);

	if (is_ok && (node->count ? elapsed <= UINT32_MAX && node->cycles > elapsed * overlapping
				  : node->cycles)) {
		decoder->totals.damaged++;
		is_ok = false;
	} else if (is_ok && elapsed > UINT32_MAX && node->count) {
		node->is_partial = true;
		decoder->totals.partial[scope] += node->count;
	}
	if (!is_ok)
		*node = (struct decode_sum){.parent = node->parent};
}

/* Adds the numbers of executions. */
static void count(const struct instrument_layout *layout, const uint8_t *bytes,
		  struct decode_sum *nodes)
{
	ARRAY_EACH(from, layout->sum_counts, layout->sum_counts_count) {
		uint64_t value = (uint64_t)word_at(bytes, from->word) * from->times;

		*(from->is_end ? &nodes[from->sum].count : &nodes[from->sum].starts) += value;
	}
	for (uint32_t i = 0; i < layout->sum_count && !has_starts(layout); i++)
		nodes[i].starts = nodes[i].count;
}

/* A scope that also runs outside its enclosing scope belongs to that scope's parent. */
static void find_parents(const struct instrument_layout *layout, const uint8_t *bytes,
			 struct decode_sum *nodes)
{
	for (uint32_t i = 0; i < layout->sum_count; i++) {
		const struct instrument_sum *sum = &layout->sums[i];

		nodes[i].parent = sum->parent;
		if (sum->inside_word != INSTRUMENT_NO_SUM && sum->parent != INSTRUMENT_NO_SUM &&
		    word_at(bytes, sum->inside_word) != (uint32_t)nodes[i].count)
			nodes[i].parent = nodes[sum->parent].parent;
	}
}

/* The shortest and the longest execution: the only one, or as the unit has stored them. */
static void find_extremes(const struct instrument_sum *sum, const uint8_t *bytes,
			  struct decode_sum *node)
{
	uint32_t min = 0, max = 0;

	node->min = UINT64_MAX;
	if (node->is_partial || !node->count)
		return;
	if (node->count == 1) {
		node->min = node->max = node->cycles;
		return;
	}
	if (sum->min_word == INSTRUMENT_NO_SUM)
		return;
	min = word_at(bytes, sum->min_word);
	max = word_at(bytes, sum->max_word);
	if (min > max || max > node->cycles)
		return;
	node->min = min;
	node->max = max;
}

static void read_unit(struct decoder *decoder, uint8_t index, const uint8_t *bytes,
		      struct decode_sum *nodes)
{
	const struct instrument_layout *layout = decoder->layout;

	for (uint32_t i = 0; i < layout->sum_count; i++)
		nodes[i].cycles = word_at(bytes, i);
	count(layout, bytes, nodes);
	find_parents(layout, bytes, nodes);
	for (uint32_t i = 0; i < layout->sum_count; i++) {
		check_sum(decoder, &decoder->units[index], i, &nodes[i]);
		find_extremes(&layout->sums[i], bytes, &nodes[i]);
	}
	if (decoder->overhead.empty || decoder->overhead.scope)
		subtract_overhead(decoder, nodes);
	for (uint32_t i = 0; i < layout->sum_count; i++)
		decoder->totals.records += nodes[i].count;
}

bool decode_unit_sums(struct decoder *decoder, uint8_t index, const uint8_t *bytes)
{
	uint32_t count = decoder->layout->sum_count;
	size_t first = (size_t)index * count;

	if (!array_reserve(&decoder->sums, &decoder->sum_capacity, first + count,
			   sizeof(*decoder->sums)))
		return false;
	memset(decoder->sums + first, 0, count * sizeof(*decoder->sums));
	if (decoder->units[index].is_there)
		read_unit(decoder, index, bytes, decoder->sums + first);
	return true;
}
