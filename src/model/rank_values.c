/* Times and values of a few ranks, before they become statistics. */
#include "model/rank_values.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buf.h"
#include "model/clamped.h"
#include "model/merge.h"
#include "model/profile.h"

void rank_values_free(struct rank_values *values)
{
	if (!values)
		return;
	for (size_t i = 0; i < RANK_VALUES_MAX; i++) {
		FREE_ALL(values->rows[i].times, values->rows[i].values, values->rows[i].types);
	}
	free(values);
}

/* Rows are not grown: they have exactly what the target has. */
static bool make_row(struct rank_values_row *row, const struct profile *target)
{
	row->times = malloc((target->node_count + 1) * sizeof(*row->times));
	row->values = malloc((target->value_count + 1) * sizeof(*row->values));
	row->types = malloc((target->metric_count + 1) * sizeof(*row->types));
	if (!row->times || !row->values || !row->types)
		return false;
	row->time_count = target->node_count;
	row->value_count = target->value_count;
	row->type_count = target->metric_count;
	memset(row->times, 0, row->time_count * sizeof(*row->times));
	for (size_t i = 0; i < row->value_count; i++)
		row->values[i] = RANK_NO_VALUE;
	for (size_t i = 0; i < row->type_count; i++)
		row->types[i] = target->metrics[i].type;
	return true;
}

/* Adds a number of the source; several of its nodes may have become one. */
static void add_value(uint64_t *slot, const struct profile *target, uint32_t index,
		      const struct profile *source, const struct profile_value *from)
{
	const struct row_metric *metric = &target->metrics[target->values[index].metric];
	bool is_double = source->metrics[from->metric].type == PROTON_METRIC_DOUBLE;
	bool is_sum = *slot != RANK_NO_VALUE && !(metric->flags & METRIC_PROPERTY);

	if (metric->type == PROTON_METRIC_DOUBLE) {
		double value = is_double ? from->as.float64 : (double)from->as.int64;

		*slot = bits_of_double(is_sum ? double_of_bits(*slot) + value : value);
	} else if (metric->type == PROTON_METRIC_INT64) {
		*slot = (uint64_t)(is_sum ? clamped_i64((int64_t)*slot, from->as.int64)
					  : from->as.int64);
	}
}

bool rank_values_add(struct rank_values *values, const struct profile *target,
		     const struct profile *source, const struct merge_maps *maps,
		     const uint64_t *times, uint32_t rank)
{
	struct rank_values_row *row = &values->rows[values->count];

	if (!make_row(row, target))
		return false;
	row->rank = rank;
	for (size_t i = 0; i < source->node_count; i++)
		row->times[maps->nodes[i]] = clamped_u64(row->times[maps->nodes[i]], times[i]);
	for (size_t i = 1; i < source->value_count; i++)
		add_value(&row->values[maps->values[i]], target, maps->values[i], source,
			  &source->values[i]);
	values->count++;
	return true;
}

/* Number `index` of each row: a time, or the bits of a value. */
static inline const uint64_t *numbers_of(const struct rank_values *values, uint32_t index,
					 struct rank_block *block, bool is_time)
{
	uint32_t first = index - index % RANK_BLOCK;

	if (block->is_filled && block->first == first)
		return block->items[index - first];
	block->is_filled = true;
	block->first = first;
	for (size_t r = 0; r < values->count; r++) {
		const struct rank_values_row *row = &values->rows[r];
		const uint64_t *numbers = is_time ? row->times : row->values;
		size_t count = is_time ? row->time_count : row->value_count;

		for (uint32_t i = 0; i < RANK_BLOCK; i++)
			block->items[i][r] = first + i < count ? numbers[first + i]
					     : is_time         ? 0
							       : RANK_NO_VALUE;
	}
	return block->items[index - first];
}

const uint64_t *rank_values_times(const struct rank_values *values, uint32_t node,
				  struct rank_block *block)
{
	return numbers_of(values, node, block, true);
}

const uint64_t *rank_values_bits(const struct rank_values *values, uint32_t index,
				 struct rank_block *block)
{
	return numbers_of(values, index, block, false);
}

uint64_t rank_values_convert(const struct rank_values *values, size_t r,
			     const struct profile *target, uint32_t metric, uint64_t bits)
{
	/* A later rank may have made the metric a double. */
	if (target->metrics[metric].type == PROTON_METRIC_DOUBLE &&
	    values->rows[r].types[metric] == PROTON_METRIC_INT64)
		return bits_of_double((double)(int64_t)bits);
	return bits;
}
