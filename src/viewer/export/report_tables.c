/*
 * Tables of kernels and devices for the HTML report. Utilization over all runs of a kernel is the
 * minimum time for its operations and bytes at peak rate, divided by the measured time.
 */
#include "viewer/export/report_pages.h"

#include <math.h>

#include "base/array.h"
#include "viewer/numbers/utilization.h"
#include "viewer/print/xalloc.h"

_Static_assert(REPORT_WIDTHS == PEAK_WIDTHS, "the same widths");

/* Sums over a kernel, before any division. */
struct sums {
	double flop_time_s;
	double byte_time_s;
	uint64_t in_histogram; /* runs with a known duration */
};

struct builder {
	const struct metrics *metrics;
	struct util util;
	struct column flops[REPORT_WIDTHS + 1]; /* the last: without a width */
	struct column bytes;
	uint32_t *kernel_of_frame; /* index + 1, by frame */
	struct sums *sums;         /* by kernel */
	size_t capacity, sums_capacity;
};

static struct column own_column(const struct metrics *metrics, const char *name)
{
	if (!metrics_has_number(metrics, name))
		return (struct column){0};
	return metrics_column(metrics, metrics_find(metrics, name), false);
}

static size_t kernel_index(struct builder *builder, struct export_report *report, uint32_t frame)
{
	if (!builder->kernel_of_frame[frame]) {
		size_t count = report->kernel_count + 1;

		xreserve(&report->kernels, &builder->capacity, count, sizeof(*report->kernels));
		xreserve(&builder->sums, &builder->sums_capacity, count, sizeof(*builder->sums));
		report->kernels[count - 1] = (struct report_kernel){
			.frame = frame,
			.min_ns = UINT64_MAX,
			.flops = NAN,
			.bytes = NAN,
			.util = NAN,
		};
		builder->sums[count - 1] = (struct sums){0};
		report->kernel_count = count;
		builder->kernel_of_frame[frame] = (uint32_t)count;
	}
	return builder->kernel_of_frame[frame] - 1;
}

static void add_number(double *sum, const struct column *column, uint32_t node)
{
	if (!column->value || isnan(column->value[node]))
		return;
	*sum = (isnan(*sum) ? 0 : *sum) + column->value[node];
}

/* Adds one row of a node: its runs on one device. */
static void add_runs(struct builder *builder, struct report_kernel *kernel, struct sums *sums,
		     const struct profile_kernel *row)
{
	const struct profile *profile = builder->metrics->profile;

	kernel->count += row->count;
	kernel->total_ns += row->total_ns;
	if (row->min_ns == KERNEL_TIME_UNKNOWN)
		kernel->max_ns = KERNEL_TIME_UNKNOWN;
	else if (row->min_ns < kernel->min_ns)
		kernel->min_ns = row->min_ns;
	if (kernel->max_ns != KERNEL_TIME_UNKNOWN && row->max_ns > kernel->max_ns)
		kernel->max_ns = row->max_ns;
	if (row->histogram) {
		const struct row_histogram *histogram = &profile->histograms[row->histogram];

		for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
			kernel->bucket[i] += histogram->bucket[i];
		sums->in_histogram += row->count;
	} else if (row->count == 1) {
		kernel->bucket[histogram_bucket(row->total_ns)]++;
		sums->in_histogram++;
	}
}

static void add_amount(double *sum, double amount)
{
	if (amount > 0)
		*sum = isnan(*sum) ? amount : *sum + amount;
}

/* Work that counters have measured. */
static void add_counted(struct export_report *report, struct report_kernel *kernel,
			const struct util_work *work)
{
	for (size_t w = 0; w < REPORT_WIDTHS; w++) {
		add_amount(&kernel->flops, work->flops[w]);
		report->uses_width[w] |= work->flops[w] > 0;
	}
	add_amount(&kernel->bytes, work->bytes);
}

static void add_given(struct builder *builder, struct export_report *report,
		      struct report_kernel *kernel, uint32_t node)
{
	for (size_t w = 0; w <= REPORT_WIDTHS; w++) {
		add_number(&kernel->flops, &builder->flops[w], node);
		if (w < REPORT_WIDTHS && builder->flops[w].value &&
		    builder->flops[w].value[node] > 0)
			report->uses_width[w] = true;
	}
	add_number(&kernel->bytes, &builder->bytes, node);
}

static void add_node(struct builder *builder, struct export_report *report, uint32_t node)
{
	const struct profile *profile = builder->metrics->profile;
	uint32_t first = profile->nodes[node].first_kernel;
	size_t index = kernel_index(builder, report, profile->nodes[node].frame);
	struct report_kernel *kernel = &report->kernels[index];
	struct sums *sums = &builder->sums[index];
	struct util_work work;

	for (uint32_t i = first; i; i = profile->kernels[i].next)
		add_runs(builder, kernel, sums, &profile->kernels[i]);
	util_work_of_node(&builder->util, node, &work);
	if (work.is_counted)
		add_counted(report, kernel, &work);
	else
		add_given(builder, report, kernel, node);
	sums->flop_time_s += util_min_flop_time_s(&builder->util, node);
	sums->byte_time_s += util_min_byte_time_s(&builder->util, node);
}

static void finish_kernels(struct builder *builder, struct export_report *report)
{
	for (size_t i = 0; i < report->kernel_count; i++) {
		struct report_kernel *kernel = &report->kernels[i];
		const struct sums *sums = &builder->sums[i];
		double min_s = sums->flop_time_s > sums->byte_time_s ? sums->flop_time_s
								     : sums->byte_time_s;

		if (kernel->max_ns == KERNEL_TIME_UNKNOWN)
			kernel->min_ns = KERNEL_TIME_UNKNOWN;
		kernel->has_histogram = kernel->count && sums->in_histogram == kernel->count;
		if (kernel->total_ns && util_is_possible(builder->metrics) &&
		    !isnan(sums->flop_time_s) && !isnan(sums->byte_time_s) && min_s > 0)
			kernel->util = min_s / ((double)kernel->total_ns / 1e9);
	}
}

static void find_devices(struct builder *builder, struct export_report *report,
			 const uint8_t *shown)
{
	const struct profile *profile = builder->metrics->profile;
	AUTO_FREE uint64_t *total_ns = xcalloc(profile->device_count, sizeof(*total_ns));
	AUTO_FREE bool *used = xcalloc(profile->device_count, sizeof(*used));

	for (size_t i = 0; i < profile->node_count; i++) {
		uint32_t k = shown[i] ? profile->nodes[i].first_kernel : 0;

		for (; k; k = profile->kernels[k].next) {
			used[profile->kernels[k].device] = true;
			total_ns[profile->kernels[k].device] += profile->kernels[k].total_ns;
		}
	}
	report->devices = xcalloc(profile->device_count, sizeof(*report->devices));
	for (uint32_t d = 0; d < profile->device_count; d++) {
		struct report_device *device = &report->devices[report->device_count];

		if (!used[d])
			continue;
		device->device = d;
		device->total_ns = total_ns[d];
		device->has_peaks = builder->util.has_peaks[d];
		for (size_t w = 0; w < REPORT_WIDTHS; w++)
			device->flop_per_s[w] = builder->util.peaks[d].flop_per_s[w];
		device->byte_per_s = builder->util.peaks[d].byte_per_s;
		report->device_count++;
	}
}

ARRAY_ORDER(by_time, struct report_kernel,
	    ORDER_OF(b->total_ns, a->total_ns) ?: ORDER_OF(a->frame, b->frame))

void report_init(struct export_report *report, const struct metrics *metrics, const uint8_t *shown)
{
	const struct profile *profile = metrics->profile;
	struct builder builder = {.metrics = metrics};

	*report = (struct export_report){
		.source = OUT_IN_MEMORY,
		.warps = OUT_IN_MEMORY,
		.waits = OUT_IN_MEMORY,
		.ranks = OUT_IN_MEMORY,
		.timeline = OUT_IN_MEMORY,
	};
	util_init(&builder.util, metrics);
	for (size_t w = 0; w < REPORT_WIDTHS; w++)
		builder.flops[w] = own_column(metrics, peak_width_metrics[w]);
	builder.flops[REPORT_WIDTHS] = own_column(metrics, "flops");
	builder.bytes = own_column(metrics, "bytes");
	builder.kernel_of_frame = xcalloc(profile->frame_count, sizeof(*builder.kernel_of_frame));
	for (uint32_t i = 0; i < profile->node_count; i++)
		if (shown[i] && profile->nodes[i].first_kernel)
			add_node(&builder, report, i);
	finish_kernels(&builder, report);
	find_devices(&builder, report, shown);
	ARRAY_SORT(report->kernels, report->kernel_count, by_time);
	for (size_t w = 0; w <= REPORT_WIDTHS; w++)
		column_fini(&builder.flops[w]);
	column_fini(&builder.bytes);
	util_fini(&builder.util);
	FREE_ALL(builder.kernel_of_frame, builder.sums);
}

void report_fini(struct export_report *report)
{
	free(report->kernels);
	free(report->devices);
	out_fini(&report->source);
	out_fini(&report->ranks);
	out_fini(&report->warps);
	out_fini(&report->waits);
	out_fini(&report->timeline);
	*report = (struct export_report){0};
}
