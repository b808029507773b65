/*
 * The one place where metrics roll up: columns of numbers, one per node, made from what was
 * recorded in the nodes. Every output and the viewer take their totals from here.
 *
 * Numbers are doubles. Where a metric is made of integers the column also has exact int64 sums
 * (times and counts of kernels are integers), so that nothing is rounded below 2^63.
 */
#ifndef MODEL_ROLLUP_H
#define MODEL_ROLLUP_H

#include "base/err.h"
#include "model/profile.h"

struct column {
	double *value;  /* by node; NaN where there is nothing (in inclusive columns: 0) */
	int64_t *exact; /* the same as integers, 0 where there is nothing; NULL if not all are */
	bool is_inclusive;
};

void column_fini(struct column *column);

/*
 * The values of a profile by metric, for whoever asks for the columns of many: without it each
 * column is a search of all values. It may be NULL below.
 */
struct value_index {
	size_t *first;    /* by metric, and one more: where its entries begin */
	uint32_t *nodes;  /* entries, by node */
	uint32_t *values; /* of profile->values */
};

/* False when memory is out; value_index_fini() is harmless then. */
bool value_index_init(struct value_index *index, const struct profile *profile);
void value_index_fini(struct value_index *index);

/*
 * True if `name` is the name of a number: of a metric, or "time (ns)" or "count" where kernels ran.
 */
bool rollup_has(const struct profile *profile, const char *name);
/* True if it adds up into the parents: it is not flagged METRIC_EXCLUSIVE or METRIC_PROPERTY. */
bool rollup_is_inclusive(const struct profile *profile, const char *name);

/*
 * The column of `name`: what was recorded in each node itself, or with `is_inclusive` the sums over
 * subtrees. "time (ns)" and "count" are the kernels' plus metrics of that name. E_RANGE: no number
 * of that name ("Metric x is not found.").
 */
int rollup_metric(const struct profile *profile, const char *name, bool is_inclusive,
		  struct column *out, struct proton_error *err);
int rollup_metric_indexed(const struct profile *profile, const struct value_index *index,
			  const char *name, bool is_inclusive, struct column *out,
			  struct proton_error *err);

enum kernel_field {
	KERNEL_TOTAL_NS,
	KERNEL_COUNT,
	/* Rolled up as minimum and maximum; NaN also where the source does not say. */
	KERNEL_MIN_NS,
	KERNEL_MAX_NS,
};

#define ROLLUP_ALL_DEVICES UINT32_MAX

/* The column of a kernel field, of one device (index of profile->devices) or of all. */
int rollup_kernel(const struct profile *profile, enum kernel_field field, uint32_t device,
		  bool is_inclusive, struct column *out, struct proton_error *err);

#endif
