/*
 * Utilization: the share of a device's peak rate that a kernel reaches. With P the peak rates of
 * the device (peaks.h), per node that ran kernels itself:
 *
 *   util = max(sum over W of flopsW / P.flop_per_s(W), bytes / P.byte_per_s) / time
 *
 * Operations without a width ("flops") do not count, because no peak rate applies to them. A
 * profile without "bytes" is judged by its operations alone, and vice versa. A node with counters
 * (counter_flopsW, counter_bytes) is judged by these, whatever else is given.
 */
#pragma once

#include "base/err.h"
#include "model/peaks.h"
#include "model/profile.h"
#include "viewer/query/raw_metrics.h"

struct util {
	const struct metrics *metrics;
	const struct profile *profile;
	const struct raw_metric *flops[PEAK_WIDTHS]; /* NULL: not in this profile */
	const struct raw_metric *bytes;
	const struct raw_metric *counted_flops[PEAK_WIDTHS];
	const struct raw_metric *counted_bytes;
	const struct raw_metric *counted_l2_bytes;
	const struct raw_metric *counted_tensor;
	const struct raw_metric *counted_launches;
	double l2_bytes_per_clock; /* at most, on the profile's GPUs; 0: not known */
	struct peaks *peaks;       /* per device */
	bool *has_peaks;
};

/* The work of a node's own kernels, in all recorded launches. */
struct util_work {
	bool is_counted; /* by counters; else as given */
	double flops[PEAK_WIDTHS];
	double bytes;
	double l2_bytes;
	double tensor_flops; /* counted only: the part that tensor cores did */
	double launches;
	double seconds;
};

void util_init(struct util *util, const struct metrics *metrics);
void util_fini(struct util *util);

/* True if the profile has metrics that utilization can be computed from. */
bool util_is_possible(const struct metrics *metrics);

/* True if the peak rates of any device are known: without them the column would be empty. */
bool util_is_known(const struct metrics *metrics);

void util_work_of_node(const struct util *util, uint32_t node, struct util_work *out);
/*
 * The peak rate for a node. If it ran on several devices, their peaks are weighted by its time on
 * each. `width` PEAK_WIDTHS: bytes. NAN: not known.
 */
double util_peak(const struct util *util, uint32_t node, size_t width);
/*
 * The minimum time, in seconds, that the devices of `node` need for its operations or its bytes; 0
 * if it has none, NAN without kernels or on an unknown device.
 */
double util_min_flop_time_s(const struct util *util, uint32_t node);
double util_min_byte_time_s(const struct util *util, uint32_t node);
/* NAN if the node has no utilization. */
double util_of_node(const struct util *util, uint32_t node);

/*
 * Prints lines on standard error for kernels in which the operations that are given, by the program
 * or by the compiler, differ by more than 5 % from those counted.
 */
void util_report_differences(const struct util *util);
/* Prints one line on standard error for each unknown architecture that ran something. */
void util_report_unknown(const struct util *util);

/*
 * Sets rates for all devices in place of the table's: "flops16=989e12,bytes=3.35e12". Other rates
 * are unchanged, or unknown (NAN). E_INVALID with a message.
 */
int peaks_set_own(const char *text, struct proton_error *err);
/* Back to the table, for the options of the next view. */
void peaks_forget_own(void);

/* The peak rates of a device; false if its architecture is not in the table. */
bool peaks_find(const struct profile *profile, const struct row_device *device,
		struct peaks *peaks_out);
