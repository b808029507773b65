/*
 * Times and values of a few ranks, by rank and then by node or value of the merged profile. They
 * are collected while ranks are merged, and become statistics for many ranks at once: a row of
 * statistics is then touched once for RANK_VALUES_MAX ranks.
 */
#ifndef MODEL_RANK_VALUES_H
#define MODEL_RANK_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct merge_maps;
struct profile;

#define RANK_VALUES_MAX 64u
#define RANK_NO_VALUE UINT64_C(0x7ff4dead00000001) /* no value; as a double it is not a number */

struct rank_values_row {
	uint32_t rank;
	uint64_t *times;  /* by node: kernel time in it and below it */
	uint64_t *values; /* by value: its bits, or RANK_NO_VALUE */
	uint16_t *types;  /* by metric: enum proton_metric_type when the row was made */
	size_t time_count, value_count, type_count;
};

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
 * Rows of nodes or values that are next to each other, because they share cache lines.
 * `is_filled` is false at the beginning.
 */
#define RANK_BLOCK 8u
struct rank_block {
	bool is_filled;
	uint32_t first;
	uint64_t items[RANK_BLOCK][RANK_VALUES_MAX];
};

/* Times of a node by row; 0: none. */
const uint64_t *rank_values_times(const struct rank_values *values, uint32_t node,
				  struct rank_block *block);
/* Values `index` by row, as bits of the type that the metric had then. */
const uint64_t *rank_values_bits(const struct rank_values *values, uint32_t index,
				 struct rank_block *block);
/* The bits of row `r` as a value of the type that the metric has now. */
uint64_t rank_values_convert(const struct rank_values *values, size_t r,
			     const struct profile *target, uint32_t metric, uint64_t bits);

#endif
