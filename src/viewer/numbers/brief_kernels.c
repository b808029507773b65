/* --brief: the kernels of a profile, with the intervals of their times. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/estimates.h"
#include "viewer/numbers/brief.h"
#include "viewer/numbers/repeats.h"
#include "viewer/print/xalloc.h"

#define NAME_BYTES 60

/* Variance of the times of single launches; NAN: not known. */
static double variance_of(const struct profile *profile, const struct profile_kernel *kernel)
{
	double count = (double)kernel->count;
	double mean = (double)kernel->total_ns / count;
	double range = (double)kernel->max_ns - (double)kernel->min_ns;
	double sum = 0;

	if (kernel->count < 2 || kernel->min_ns == KERNEL_TIME_UNKNOWN)
		return NAN;
	for (uint32_t i = 0; kernel->histogram && i < HISTOGRAM_BUCKETS; i++) {
		double middle = (double)histogram_bucket_start_ns(i) * (i % 2 ? 7.0 / 6 : 1.25);

		sum += profile->histograms[kernel->histogram].bucket[i] * (middle - mean) *
		       (middle - mean);
	}
	/* No variance is above a quarter of the range's square (Popoviciu). */
	return kernel->histogram ? fmin(sum / count, range * range / 4) : range * range / 4;
}

/* The number of recorded executions, if their count is an estimate. */
static uint64_t recorded_of(const struct brief *brief, uint32_t node)
{
	const struct raw_metric *samples = metrics_find(&brief->metrics, ESTIMATES_SAMPLES);
	double count = samples ? metrics_own_number(&brief->metrics, samples, node) : 0;

	return (uint64_t)fmin(fmax(0, count), 1e18);
}

static char *shown_name(const struct brief *brief, uint32_t frame)
{
	char *whole = name_text(brief->kernels, frame, brief->options->style.names);
	bool is_long = strlen(whole) > NAME_BYTES;
	char *name = xasprintf("%.*s%s", NAME_BYTES, whole, is_long ? "..." : "");

	free(whole);
	return name;
}

static void read_kernel(const struct brief *brief, uint32_t node, const double *halves,
			struct brief_kernel *item)
{
	const struct profile *profile = brief->kernels;
	uint32_t frame = profile->nodes[node].frame;
	double squares = 0;
	double peak_s = fmax(util_min_flop_time_s(&brief->util, node),
			     util_min_byte_time_s(&brief->util, node));

	item->node = node;
	item->stored = profile_text(profile, profile->frames[frame].name);
	item->name = shown_name(brief, frame);
	item->peak_ns = peak_s > 0 ? peak_s * 1e9 : NAN;
	for (uint32_t k = profile->nodes[node].first_kernel; k; k = profile->kernels[k].next) {
		const struct profile_kernel *kernel = &profile->kernels[k];

		item->total_ns += (double)kernel->total_ns;
		item->count += kernel->count;
		squares += (double)kernel->count * variance_of(profile, kernel);
	}
	item->half_ns = sqrt(squares) * repeats_student_t(fmax(1, (double)item->count - 1));
	item->recorded = item->count;
	if (halves) {
		item->half_ns = halves[node];
		item->recorded = recorded_of(brief, node);
	}
}

ARRAY_ORDER(by_time, struct brief_kernel,
	    ORDER_OF(b->total_ns, a->total_ns) ?: ORDER_OF(a->node, b->node))

void brief_read_kernels(struct brief *brief)
{
	const struct profile *profile = brief->kernels;
	double *halves = estimates_halves(profile, false);

	brief->items = xcalloc(profile->node_count, sizeof(*brief->items));
	for (uint32_t i = 1; i < profile->node_count; i++) {
		struct brief_kernel *item = &brief->items[brief->item_count];

		if (!profile->nodes[i].first_kernel)
			continue;
		read_kernel(brief, i, halves, item);
		brief->item_count++;
		brief->total_ns += item->total_ns;
		brief->launches += item->count;
	}
	ARRAY_SORT(brief->items, brief->item_count, by_time);
	free(halves);
}

const struct brief_kernel *brief_kernel_named(const struct brief *brief, const char *stored)
{
	for (size_t i = 0; i < brief->item_count; i++)
		if (strcmp(brief->items[i].stored, stored) == 0)
			return &brief->items[i];
	return NULL;
}
