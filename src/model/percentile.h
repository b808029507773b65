/*
 * Percentiles of kernel times, from histograms with two buckets per power of two (format/rows.h).
 * Durations are assumed to be spread evenly within a bucket, and results are never outside the
 * known minimum and maximum. The error is less than the width of a bucket: at most a third to a
 * half of the value, and much less if durations differ little.
 */
#ifndef MODEL_PERCENTILE_H
#define MODEL_PERCENTILE_H

#include "base/err.h"
#include "model/rollup.h"

/*
 * The duration in ns that a share of the executions (0 < `share` < 1) does not exceed, over all
 * kernels in each subtree. NaN: no executions, or a kernel's distribution is unknown. E_NOMEM.
 */
int rollup_percentile(const struct profile *profile, double share, struct column *out,
		      struct proton_error *err);

#endif
