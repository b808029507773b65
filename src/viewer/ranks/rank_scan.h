/*
 * Reading the profiles of all ranks one after the other, for numbers that a merged file does not
 * have.
 */
#pragma once

#include "base/err.h"
#include "model/merge.h"
#include "model/profile.h"
#include "viewer/query/derive.h"
#include "viewer/ranks/rank_numbers.h"

/* A rank, after its profile has been added to `sum`, the tree of all ranks so far. */
struct rank_scan_step {
	struct profile *source;
	const struct profile *sum;
	const struct merge_maps *maps; /* from `source` to `sum` */
	uint32_t rank;
	/* The numbers of `source`, without the nodes that filter_prune() drops. */
	struct metrics *metrics;
};

typedef int rank_scan_fn(void *context, const struct rank_scan_step *step,
			 struct proton_error *err);

/* Calls `visit` for each rank. The sum is for the caller to free. */
int rank_scan(char *const *paths, size_t count, rank_scan_fn *visit, void *context,
	      struct profile **sum_out, struct proton_error *err);

/*
 * The spread of metrics (names as of -m) over the ranks, by frame: tables[i] is of metric i. Kernel
 * times, which a merged file has, are left out. E_INVALID: no rank has a metric.
 */
int rank_scan_metrics(char *const *paths, size_t count, const char *const *metrics,
		      size_t metric_count, struct rank_rows *tables, struct profile **sum_out,
		      struct proton_error *err);

/*
 * The same for a recorded metric, from the statistics of a merged file, which are about single
 * frames. If the metric is inclusive, only the frames with nothing of it below them have a row.
 * False: the file has none of that metric; the rows are then to be freed, too.
 */
bool rank_rows_of_values(struct rank_rows *rows, const struct profile *merged, const char *metric);
