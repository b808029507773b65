/*
 * Percentiles of kernel times, from the histograms: two buckets per power of two (format/rows.h).
 * Within a bucket durations are taken to be spread evenly, and the result is never beyond the
 * shortest and longest run that are known. A result is therefore off by less than its bucket is
 * wide: a third to a half of its value at the very most, much less where runs differ little.
 */
#ifndef MODEL_PERCENTILE_H
#define MODEL_PERCENTILE_H

#include "base/err.h"
#include "model/rollup.h"

/*
 * The duration in ns that a share of the runs (0 < `share` < 1) does not exceed, of all kernels in
 * each subtree. NaN: nothing ran there, or a kernel's distribution is not known. E_NOMEM.
 */
int rollup_percentile(const struct profile *profile, double share, struct column *out,
		      struct proton_error *err);

#endif
