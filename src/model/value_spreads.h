/*
 * How the values of metrics are spread over the ranks of a job: statistics for each number of each
 * node. Minimum, maximum and counts do not depend on the order in which ranks are added;
 * sums of doubles do.
 */
#pragma once

#include "base/hash.h"
#include "format/rows.h"

struct profile;
struct profile_view;
struct merge_maps;

#define RANK_VALUES_MAX 64u

struct rank_values_row {
	uint32_t rank;
	uint64_t *times;  /* by node: kernel time in it and below it */
	uint64_t *values; /* by value: its bits, or none */
	uint16_t *types;  /* by metric: enum proton_metric_type when the row was made */
	size_t time_count, value_count, type_count;
};

/*
 * Times and values of a few ranks, by rank and then by node or value of the merged profile. They
 * are collected while ranks are merged, and become statistics for many ranks at once: a row of
 * statistics is then touched once for RANK_VALUES_MAX ranks.
 */
struct rank_values {
	struct rank_values_row rows[RANK_VALUES_MAX];
	size_t count;
};

void rank_values_free(struct rank_values *values); /* NULL ok */

/*
 * Adds a row for a source that was merged into `target`; `times` are the kernel times by node of
 * the source. False: out of memory. There must be space for a row.
 */
bool rank_values_add(struct rank_values *values, const struct profile *target,
		     const struct profile *source, const struct merge_maps *maps,
		     const uint64_t *times, uint32_t rank);

/*
 * Numbers of nodes or values that are next to each other, because they share cache lines.
 * `is_filled` is false at the beginning.
 */
#define RANK_BLOCK 8u
struct rank_block {
	bool is_filled;
	uint32_t first;
	uint64_t items[RANK_BLOCK][RANK_VALUES_MAX];
};

/* Times of a node by row, 0: none; or the bits of value `index`, as of its type then. */
const uint64_t *rank_values_numbers(const struct rank_values *values, uint32_t index, bool is_time,
				    struct rank_block *block);

struct value_spreads {
	struct row_value_spread *rows; /* 0 is unused */
	size_t count;
	struct hash_table index; /* (node, metric) -> row */
};

/* NULL: no rank has such a value. */
const struct row_value_spread *value_spreads_find(const struct value_spreads *spreads,
						  uint32_t node, uint32_t metric);

/* Adds the values of ranks that were merged into `target`. False: out of memory. */
bool value_spreads_add(struct value_spreads *spreads, const struct profile *target,
		       const struct rank_values *values, uint32_t other);
/* Adds the statistics of a merged part. False: out of memory. */
bool value_spreads_add_part(struct value_spreads *spreads, const struct value_spreads *from,
			    const struct merge_maps *maps);
/*
 * For the loader: `nodes` and `metrics`: by row of the view, indexes in the profile plus 1; 0:
 * none.
 */
void value_spreads_load(struct value_spreads *spreads, struct profile *profile,
			const struct profile_view *view, const uint32_t *nodes,
			const uint32_t *metrics);
