/*
 * Utilization: how near a kernel comes to what its device can do. With P the peaks of the device
 * (peaks.h), per node that ran something itself:
 *
 *   util = max(sum over W of flopsW / P.flop_per_s(W), bytes / P.byte_per_s) / time
 *
 * Operations of no stated width ("flops") do not count, for there is no peak to compare them with;
 * a profile without "bytes" is judged by its operations alone, and the other way round.
 */
#ifndef VIEWER_NUMBERS_UTILIZATION_H
#define VIEWER_NUMBERS_UTILIZATION_H

#include <stdbool.h>
#include <stdint.h>

#include "viewer/numbers/peak_options.h"
#include "viewer/query/raw_metrics.h"

struct util {
	const struct metrics *metrics;
	const struct profile *profile;
	const struct raw_metric *flops[PEAK_WIDTHS]; /* NULL: not in this profile */
	const struct raw_metric *bytes;
	struct peaks *peaks; /* per device */
	bool *has_peaks;
};

void util_init(struct util *util, const struct metrics *metrics);
void util_fini(struct util *util);

/* True if the profile has anything that utilization can be made from. */
bool util_is_possible(const struct metrics *metrics);

/* True if the peaks of some device are known: else util would be a column of nothing. */
bool util_is_known(const struct metrics *metrics);

/*
 * The least time, in seconds, in which the devices of `node` could have done its operations, or
 * moved its bytes; 0 if it has none, NAN without kernels or on a device that is not known.
 */
double util_least_flop_time_s(const struct util *util, uint32_t node);
double util_least_byte_time_s(const struct util *util, uint32_t node);
/* NAN where there is none. */
double util_of_node(const struct util *util, uint32_t node);

/* One line on standard error for each architecture that ran something and is not known. */
void util_say_unknown(const struct util *util);

#endif
