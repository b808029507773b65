/* Statistics of metric values over ranks: a few ranks, adding them and parts, loading. */
#include "model/value_spreads.h"

#include <math.h>

#include "base/array.h"
#include "base/buf.h"
#include "format/profile_view.h"
#include "model/clamped.h"
#include "model/merge.h"
#include "model/profile.h"

#define NO_VALUE UINT64_C(0x7ff4dead00000001) /* no value; as a double it is not a number */

/* ------------------------------------------------------------------ a few ranks */

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
		row->values[i] = NO_VALUE;
	for (size_t i = 0; i < row->type_count; i++)
		row->types[i] = target->metrics[i].type;
	return true;
}

/* Adds a number of the source; several of its nodes may have become one. */
static void put_value(uint64_t *slot, const struct profile *target, uint32_t index,
		      const struct profile *source, const struct profile_value *from)
{
	const struct row_metric *metric = &target->metrics[target->values[index].metric];
	bool is_double = source->metrics[from->metric].type == PROTON_METRIC_DOUBLE;
	bool is_sum = *slot != NO_VALUE && !(metric->flags & METRIC_PROPERTY);

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
		put_value(&row->values[maps->values[i]], target, maps->values[i], source,
			  &source->values[i]);
	values->count++;
	return true;
}

const uint64_t *rank_values_numbers(const struct rank_values *values, uint32_t index, bool is_time,
				    struct rank_block *block)
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
							       : NO_VALUE;
	}
	return block->items[index - first];
}

/* The bits of row `r` as a value of the type that the metric has now. */
static uint64_t convert_bits(const struct rank_values *values, size_t r,
			     const struct profile *target, uint32_t metric, uint64_t bits)
{
	/* A later rank may have made the metric a double. */
	if (target->metrics[metric].type == PROTON_METRIC_DOUBLE &&
	    values->rows[r].types[metric] == PROTON_METRIC_INT64)
		return bits_of_double((double)(int64_t)bits);
	return bits;
}

/* ------------------------------------------------------------------ rows */

const struct row_value_spread *value_spreads_find(const struct value_spreads *spreads,
						  uint32_t node, uint32_t metric)
{
	uint32_t row = hash_table_find(&spreads->index, hash_pair(node, metric));

	return row ? &spreads->rows[row] : NULL;
}

/* The row of a value, made if necessary; NULL: out of memory. */
static struct row_value_spread *make_value_row(struct value_spreads *spreads, uint32_t node,
					       uint32_t metric)
{
	uint32_t row = hash_table_find(&spreads->index, hash_pair(node, metric));

	if (row)
		return &spreads->rows[row];
	if ((!spreads->count &&
	     !ARRAY_ADD(spreads->rows, spreads->count, (struct row_value_spread){0})) ||
	    !ARRAY_ADD(spreads->rows, spreads->count,
		       (struct row_value_spread){
			       .node = node, .metric = metric, .type = PROTON_METRIC_INT64}) ||
	    !hash_table_add(&spreads->index, hash_pair(node, metric), (uint32_t)spreads->count - 1))
		return NULL;
	return &spreads->rows[spreads->count - 1];
}

/* ------------------------------------------------------------------ numbers of two types */

/* Not a number is below all numbers. */
static bool is_less(union spread_number a, union spread_number b, bool is_double)
{
	if (!is_double)
		return a.int64 < b.int64;
	return isnan(a.float64) ? !isnan(b.float64) : a.float64 < b.float64;
}

static union spread_number add_spread_numbers(union spread_number a, union spread_number b,
					      bool is_double)
{
	if (is_double)
		a.float64 += b.float64;
	else
		a.int64 = clamped_i64(a.int64, b.int64);
	return a;
}

/* Bucket i begins at 4^(i - 2). */
static uint32_t bucket_of(double value)
{
	int exponent;

	if (!(value >= 0.25))
		return 0;
	if (!isfinite(value))
		return SPREAD_BUCKETS - 1;
	frexp(value, &exponent); /* value is 2^(exponent - 1) or more */
	exponent = (exponent - 1 + 4) / 2;
	return exponent < (int)SPREAD_BUCKETS ? (uint32_t)exponent : SPREAD_BUCKETS - 1;
}

/* ------------------------------------------------------------------ adding */

static void make_double(struct row_value_spread *row)
{
	if (row->type == PROTON_METRIC_DOUBLE)
		return;
	row->type = PROTON_METRIC_DOUBLE;
	row->sum.float64 = (double)row->sum.int64;
	row->min.float64 = (double)row->min.int64;
	row->max.float64 = (double)row->max.int64;
	for (uint32_t i = 0; i < SPREAD_TOP && i < row->ranks; i++)
		row->top[i].float64 = (double)row->top[i].int64;
}

/* Larger values first; of equal ones the lower rank. `known`: values that were added before. */
static inline void add_top(struct row_value_spread *row, union spread_number value, uint32_t rank,
			   uint32_t known, bool is_double)
{
	uint32_t at = known < SPREAD_TOP ? known : SPREAD_TOP;
	uint32_t last = at < SPREAD_TOP ? at : SPREAD_TOP - 1;

	while (at &&
	       (is_less(row->top[at - 1], value, is_double) ||
		(!is_less(value, row->top[at - 1], is_double) && rank < row->top_rank[at - 1])))
		at--;
	if (at == SPREAD_TOP)
		return;
	for (uint32_t i = last; i > at; i--) {
		row->top[i] = row->top[i - 1];
		row->top_rank[i] = row->top_rank[i - 1];
	}
	row->top[at] = value;
	row->top_rank[at] = rank;
}

static void add_minimum(struct row_value_spread *row, union spread_number value, uint32_t rank,
			bool is_double)
{
	if (!row->ranks || is_less(value, row->min, is_double) ||
	    (!is_less(row->min, value, is_double) && rank < row->min_rank)) {
		row->min = value;
		row->min_rank = rank;
	}
}

static void add_value(struct row_value_spread *row, union spread_number value, uint32_t rank,
		      bool is_double)
{
	double number = is_double ? value.float64 : (double)value.int64;

	add_minimum(row, value, rank, is_double);
	add_top(row, value, rank, row->ranks, is_double);
	row->max = row->top[0];
	row->max_rank = row->top_rank[0];
	row->sum = row->ranks ? add_spread_numbers(row->sum, value, is_double) : value;
	row->squares += number * number;
	row->bucket[bucket_of(number)]++;
	row->ranks++;
}

/* Adds value `index` of the target, of all ranks that have it. */
static bool add_ranks(struct value_spreads *spreads, const struct profile *target,
		      const struct rank_values *values, uint32_t node, uint32_t index,
		      struct rank_block *block)
{
	uint32_t metric = target->values[index].metric;
	bool is_double = target->metrics[metric].type == PROTON_METRIC_DOUBLE;
	struct row_value_spread *row = NULL;
	const uint64_t *bits = rank_values_numbers(values, index, false, block);

	for (size_t r = 0; r < values->count; r++) {
		union spread_number value;

		if (bits[r] == NO_VALUE)
			continue;
		if (!row) {
			row = make_value_row(spreads, node, metric);
			if (!row)
				return false;
			if (is_double)
				make_double(row);
		}
		uint64_t converted = convert_bits(values, r, target, metric, bits[r]);
		memcpy(&value, &converted, sizeof(value));
		add_value(row, value, values->rows[r].rank, is_double);
	}
	return true;
}

bool value_spreads_add(struct value_spreads *spreads, const struct profile *target,
		       const struct rank_values *values, uint32_t other)
{
	struct rank_block block = {0};

	for (uint32_t node = 0; node < target->node_count; node++) {
		if (other && node == other)
			continue;
		for (uint32_t v = target->nodes[node].first_value; v; v = target->values[v].next)
			if (profile_is_number(target->metrics[target->values[v].metric].type) &&
			    !add_ranks(spreads, target, values, node, v, &block))
				return false;
	}
	return true;
}

/* ------------------------------------------------------------------ parts */

static void add_row(struct row_value_spread *row, struct row_value_spread from)
{
	uint32_t known = row->ranks;
	bool is_double = from.type == PROTON_METRIC_DOUBLE || row->type == PROTON_METRIC_DOUBLE;

	if (is_double) {
		make_double(row);
		make_double(&from);
	}
	add_minimum(row, from.min, from.min_rank, is_double);
	for (uint32_t i = 0; i < SPREAD_TOP && i < from.ranks; i++)
		add_top(row, from.top[i], from.top_rank[i], known + i, is_double);
	row->max = row->top[0];
	row->max_rank = row->top_rank[0];
	row->sum = known ? add_spread_numbers(row->sum, from.sum, is_double) : from.sum;
	row->squares += from.squares;
	for (uint32_t i = 0; i < SPREAD_BUCKETS; i++)
		row->bucket[i] = clamped_u32(row->bucket[i], from.bucket[i]);
	row->ranks = clamped_u32(known, from.ranks);
}

bool value_spreads_add_part(struct value_spreads *spreads, const struct value_spreads *from,
			    const struct merge_maps *maps)
{
	for (size_t i = 1; i < from->count; i++) {
		const struct row_value_spread *row = &from->rows[i];
		uint32_t node = maps->nodes[row->node];

		if (maps->other && node == maps->other)
			continue;
		struct row_value_spread *sum =
			make_value_row(spreads, node, maps->metrics[row->metric]);
		if (!sum)
			return false;
		add_row(sum, *row);
	}
	return true;
}

/* ------------------------------------------------------------------ loading */

void value_spreads_load(struct value_spreads *spreads, struct profile *profile,
			const struct profile_view *view, const uint32_t *nodes,
			const uint32_t *metrics)
{
	const struct row_value_spread *rows = view->table[TABLE_VALUE_SPREADS];

	for (uint64_t i = 0; i < view->rows[TABLE_VALUE_SPREADS]; i++) {
		bool is_known = rows[i].node < view->rows[TABLE_NODES] &&
				rows[i].metric < view->rows[TABLE_METRICS] && rows[i].ranks &&
				profile_is_number((uint16_t)rows[i].type);
		uint32_t node = is_known ? nodes[rows[i].node] : 0;
		uint32_t metric = is_known ? metrics[rows[i].metric] : 0;

		if (!node || !metric || value_spreads_find(spreads, node - 1, metric - 1)) {
			profile->is_damaged = true;
			continue;
		}
		struct row_value_spread *row = make_value_row(spreads, node - 1, metric - 1);
		if (!row) {
			profile->out_of_memory = true;
			return;
		}
		*row = rows[i];
		row->node = node - 1;
		row->metric = metric - 1;
	}
}
