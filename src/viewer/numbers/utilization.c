/* Utilization: the metric "util", from operations, bytes, time and peak rates. */
#include "viewer/numbers/utilization.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/message.h"
#include "viewer/print/xalloc.h"

static const struct raw_metric *find_number(const struct metrics *metrics, const char *name)
{
	const struct raw_metric *raw = metrics_find(metrics, name);

	return raw && raw->source == RAW_NUMBER && raw->metric != METRIC_NONE ? raw : NULL;
}

void util_init(struct util *util, const struct metrics *metrics)
{
	const struct profile *profile = metrics->profile;

	*util = (struct util){
		.metrics = metrics,
		.profile = profile,
		.bytes = find_number(metrics, "bytes"),
		.counted_bytes = find_number(metrics, "counter_bytes"),
		.counted_l2_bytes = find_number(metrics, "counter_l2_bytes"),
		.counted_tensor = find_number(metrics, "counter_tensor_flops"),
		.counted_launches = find_number(metrics, "counter_launches"),
		.l2_bytes_per_clock =
			strtod(profile_info_text(profile, "counters_l2_bytes_per_clock"), NULL),
	};
	for (size_t w = 0; w < PEAK_WIDTHS; w++) {
		char name[32];

		util->flops[w] = find_number(metrics, peak_width_metrics[w]);
		snprintf(name, sizeof(name), "counter_%s", peak_width_metrics[w]);
		util->counted_flops[w] = find_number(metrics, name);
	}
	util->peaks = xcalloc(profile->device_count, sizeof(*util->peaks));
	util->has_peaks = xcalloc(profile->device_count, sizeof(*util->has_peaks));
	for (size_t i = 0; i < profile->device_count; i++)
		util->has_peaks[i] = peaks_find(profile, &profile->devices[i], &util->peaks[i]);
}

void util_fini(struct util *util)
{
	free(util->peaks);
	free(util->has_peaks);
}

bool util_is_possible(const struct metrics *metrics)
{
	bool is_possible = find_number(metrics, "bytes") || find_number(metrics, "counter_bytes");

	for (size_t w = 0; w < PEAK_WIDTHS && !is_possible; w++)
		is_possible = find_number(metrics, peak_width_metrics[w]) != NULL;
	return is_possible && metrics->profile->kernel_count > 1;
}

bool util_is_known(const struct metrics *metrics)
{
	const struct profile *profile = metrics->profile;
	struct peaks peaks;

	for (size_t i = 0; i < profile->device_count; i++)
		if (peaks_find(profile, &profile->devices[i], &peaks))
			return true;
	return false;
}

static double own_number(const struct util *util, const struct raw_metric *raw, uint32_t node)
{
	return raw ? metrics_own_number(util->metrics, raw, node) : 0;
}

double util_peak(const struct util *util, uint32_t node, size_t width)
{
	const struct profile_kernel *kernels = util->profile->kernels;
	double capacity = 0, total_ns = 0;

	for (uint32_t i = util->profile->nodes[node].first_kernel; i; i = kernels[i].next) {
		const struct peaks *peaks = &util->peaks[kernels[i].device];
		double ns = (double)kernels[i].total_ns;

		if (!util->has_peaks[kernels[i].device])
			return NAN;
		capacity += ns *
			    (width < PEAK_WIDTHS ? peaks->flop_per_s[width] : peaks->byte_per_s);
		total_ns += ns;
	}
	return total_ns > 0 ? capacity / total_ns : NAN;
}

/* Counters know of some launches: the others are as they. */
static void take_counted(const struct util *util, uint32_t node, double scale,
			 struct util_work *out)
{
	out->is_counted = true;
	for (size_t w = 0; w < PEAK_WIDTHS; w++)
		out->flops[w] = scale * own_number(util, util->counted_flops[w], node);
	out->bytes = scale * own_number(util, util->counted_bytes, node);
	out->l2_bytes = scale * own_number(util, util->counted_l2_bytes, node);
	out->tensor_flops = scale * own_number(util, util->counted_tensor, node);
}

void util_work_of_node(const struct util *util, uint32_t node, struct util_work *out)
{
	const struct profile_kernel *kernels = util->profile->kernels;
	double counted = own_number(util, util->counted_launches, node);

	*out = (struct util_work){.is_counted = false};
	for (uint32_t i = util->profile->nodes[node].first_kernel; i; i = kernels[i].next) {
		out->seconds += (double)kernels[i].total_ns / 1e9;
		out->launches += (double)kernels[i].count;
	}
	if (counted > 0 && out->launches > 0) {
		take_counted(util, node, out->launches / counted, out);
		return;
	}
	for (size_t w = 0; w < PEAK_WIDTHS; w++)
		out->flops[w] = own_number(util, util->flops[w], node);
	out->bytes = own_number(util, util->bytes, node);
}

double util_min_flop_time_s(const struct util *util, uint32_t node)
{
	struct util_work work;
	double seconds = 0;

	util_work_of_node(util, node, &work);
	for (size_t w = 0; w < PEAK_WIDTHS; w++)
		if (work.flops[w] != 0)
			seconds += work.flops[w] / util_peak(util, node, w);
	return seconds;
}

double util_min_byte_time_s(const struct util *util, uint32_t node)
{
	struct util_work work;

	util_work_of_node(util, node, &work);
	return work.bytes != 0 ? work.bytes / util_peak(util, node, PEAK_WIDTHS) : 0;
}

double util_of_node(const struct util *util, uint32_t node)
{
	const struct profile_kernel *kernels = util->profile->kernels;
	double ns = 0;

	if (isnan(util_peak(util, node, 0)))
		return NAN;
	for (uint32_t i = util->profile->nodes[node].first_kernel; i; i = kernels[i].next)
		ns += (double)kernels[i].total_ns;
	double flop_time_s = util_min_flop_time_s(util, node);
	double byte_time_s = util_min_byte_time_s(util, node);
	return (flop_time_s > byte_time_s ? flop_time_s : byte_time_s) / (ns / 1e9);
}

void util_report_unknown(const struct util *util)
{
	const struct profile *profile = util->profile;
	AUTO_FREE bool *is_used = xcalloc(profile->device_count, sizeof(*is_used));

	for (size_t i = 1; i < profile->kernel_count; i++)
		is_used[profile->kernels[i].device] = true;
	for (size_t i = 0; i < profile->device_count; i++) {
		const struct row_device *device = &profile->devices[i];
		bool is_reported = false;

		for (size_t k = 0; k < i && !is_reported; k++)
			is_reported = is_used[k] && !util->has_peaks[k] &&
				      profile->devices[k].arch == device->arch &&
				      profile->devices[k].type == device->type;
		if (!is_used[i] || util->has_peaks[i] || is_reported)
			continue;
		message("util is not available for %s devices of architecture \"%s\": peak rates "
			"unknown; see --peaks",
			profile_text(profile, device->type), profile_text(profile, device->arch));
	}
}

/* ------------------------------------------------------------------ differences */

#define DIFFERENCE_MIN 0.05
#define DIFFERENCES_MAX 5u

static double sum_widths(const double flops[PEAK_WIDTHS])
{
	double sum = 0;

	for (size_t w = 0; w < PEAK_WIDTHS; w++)
		sum += flops[w];
	return sum;
}

/* Operations that were given with the node, of all widths and without one. */
static double given_flops(const struct util *util, uint32_t node)
{
	double flops[PEAK_WIDTHS];

	for (size_t w = 0; w < PEAK_WIDTHS; w++)
		flops[w] = own_number(util, util->flops[w], node);
	return sum_widths(flops) + own_number(util, find_number(util->metrics, "flops"), node);
}

/* Only the compiler's numbers have the bytes that programs ask for. */
static bool is_of_compiler(const struct util *util, uint32_t node)
{
	return own_number(util, find_number(util->metrics, "requested_bytes"), node) > 0;
}

static void report_difference(const struct util *util, uint32_t node, double given,
			      const struct util_work *work)
{
	const struct profile *profile = util->profile;
	const struct row_frame *frame = &profile->frames[profile->nodes[node].frame];
	double counted = sum_widths(work->flops);

	message("%.100s: %.4g operations per launch are %s, counters have %.4g (%+.1f %%)%s",
		profile_text(profile, frame->name), given / work->launches,
		is_of_compiler(util, node) ? "counted by the compiler" : "given by the program",
		counted / work->launches, 100 * (counted / given - 1),
		is_of_compiler(util, node) ? "" : "; look at the formula of flops");
}

void util_report_differences(const struct util *util)
{
	size_t count = 0;

	for (uint32_t i = 0; i < util->profile->node_count && util->counted_launches; i++) {
		struct util_work work;
		double given = given_flops(util, i);

		util_work_of_node(util, i, &work);
		if (!work.is_counted || given <= 0 || sum_widths(work.flops) <= 0 ||
		    fabs(sum_widths(work.flops) / given - 1) <= DIFFERENCE_MIN)
			continue;
		if (count++ < DIFFERENCES_MAX)
			report_difference(util, i, given, &work);
	}
	if (count > DIFFERENCES_MAX)
		message("operations differ from the counters in %zu more kernels",
			count - DIFFERENCES_MAX);
}

/* ------------------------------------------------------------------ --peaks */

/* --peaks: rates that replace those of the table; 0: use the table. */
static struct peaks own_peaks;
static bool has_own_peaks;

bool peaks_find(const struct profile *profile, const struct row_device *device,
		struct peaks *peaks_out)
{
	bool is_known = peaks_of_device(profile, device, peaks_out);

	if (!has_own_peaks)
		return is_known;
	if (!is_known)
		*peaks_out = (struct peaks){{NAN, NAN, NAN, NAN, NAN}, NAN};
	for (size_t w = 0; w < PEAK_WIDTHS; w++) {
		if (own_peaks.flop_per_s[w] > 0)
			peaks_out->flop_per_s[w] = own_peaks.flop_per_s[w];
	}
	if (own_peaks.byte_per_s > 0)
		peaks_out->byte_per_s = own_peaks.byte_per_s;
	return true;
}

/* The rate that a name in the option refers to, or NULL. */
static double *own_rate(const char *name, size_t length)
{
	if (length == 5 && memcmp(name, "bytes", 5) == 0)
		return &own_peaks.byte_per_s;
	for (size_t w = 0; w < PEAK_WIDTHS; w++)
		if (strlen(peak_width_metrics[w]) == length &&
		    memcmp(name, peak_width_metrics[w], length) == 0)
			return &own_peaks.flop_per_s[w];
	return NULL;
}

void peaks_forget_own(void)
{
	own_peaks = (struct peaks){0};
	has_own_peaks = false;
}

int peaks_set_own(const char *text, struct proton_error *err)
{
	const char *at = text;

	for (;;) {
		size_t length = strcspn(at, "=,");
		double *rate = at[length] == '=' ? own_rate(at, length) : NULL;
		char *end;

		if (!rate)
			break;
		*rate = strtod(at + length + 1, &end);
		if (end == at + length + 1 || !isfinite(*rate) || *rate <= 0)
			break;
		has_own_peaks = true;
		if (!*end)
			return PROTON_OK;
		if (*end != ',')
			break;
		at = end + 1;
	}
	return err_set(
		err, PROTON_E_INVALID,
		"--peaks needs rates per second such as flops16=989e12,bytes=3.35e12 (flops4, "
		"flops8, flops16, flops32, flops64, bytes), not \"%.100s\"",
		text);
}
