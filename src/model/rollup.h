/*
 * Roll-up of metrics: columns of numbers, one per node, made from the data recorded in the nodes.
 * Every output and the viewer take their totals from here.
 *
 * Numbers are doubles. Columns of integer metrics also have exact int64 sums (times and counts of
 * kernels are integers), which are not rounded below 2^63.
 */
#pragma once

#include "base/err.h"
#include "model/profile.h"

struct column {
	double *value;  /* by node; NaN for no value (0 in inclusive columns) */
	int64_t *exact; /* the same as integers, 0 for no value; NULL if some are not integers */
	bool is_inclusive;
};

void column_fini(struct column *column);

/*
 * Index of a profile's values by metric, for callers that request many columns: without it each
 * column searches all values. It may be NULL below.
 */
struct value_index {
	size_t *first;    /* by metric, and one more: first entry */
	uint32_t *nodes;  /* entries, by node */
	uint32_t *values; /* of profile->values */
};

/* False if out of memory; value_index_fini() is then harmless. */
bool value_index_init(struct value_index *index, const struct profile *profile);
void value_index_fini(struct value_index *index);

/* True if `name` is numeric: a numeric metric, or "time (ns)" or "count" if there are kernels. */
bool rollup_has(const struct profile *profile, const char *name);
/* True if it is additive: not flagged METRIC_EXCLUSIVE or METRIC_PROPERTY. */
bool rollup_is_inclusive(const struct profile *profile, const char *name);

/*
 * The column of `name`: each node's own values, or with `is_inclusive` the sums over subtrees.
 * "time (ns)" and "count": of kernels, plus metrics of that name. E_RANGE: no numeric metric has
 * that name ("Metric x is not found.").
 */
int rollup_metric(const struct profile *profile, const char *name, bool is_inclusive,
		  struct column *out, struct proton_error *err);
int rollup_metric_indexed(const struct profile *profile, const struct value_index *index,
			  const char *name, bool is_inclusive, struct column *out,
			  struct proton_error *err);

enum kernel_field {
	KERNEL_TOTAL_NS,
	KERNEL_COUNT,
};

/* The shortest or the longest execution in each subtree; NaN also if unknown in the source. */
int rollup_extreme(const struct profile *profile, bool is_min, struct column *out,
		   struct proton_error *err);

/*
 * From histograms with two buckets per power of two (format/rows.h). Durations are assumed to be
 * spread evenly within a bucket, and results are never outside the known minimum and maximum. The
 * error is less than the width of a bucket: at most a third to a half of the value, and much less
 * if durations differ little.
 *
 * The duration in ns that a share of the executions (0 < `share` < 1) does not exceed, over all
 * kernels in each subtree. NaN: no executions, or a kernel's distribution is unknown. E_NOMEM.
 */
int rollup_percentile(const struct profile *profile, double share, struct column *out,
		      struct proton_error *err);
