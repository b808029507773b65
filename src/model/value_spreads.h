/*
 * How the values of metrics are spread over the ranks of a job: statistics for each number of each
 * node. Minimum, maximum and counts do not depend on the order in which ranks are added;
 * sums of doubles do.
 */
#ifndef MODEL_VALUE_SPREADS_H
#define MODEL_VALUE_SPREADS_H

#include "base/hash.h"
#include "format/rows.h"

struct profile;
struct profile_view;
struct merge_maps;
struct rank_values;

struct value_spreads {
	struct row_value_spread *rows; /* 0 is unused */
	size_t count, capacity;
	struct hash_table index; /* (node, metric) -> row */
};

void value_spreads_fini(struct value_spreads *spreads);

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

#endif
