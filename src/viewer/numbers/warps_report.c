/* --warps: the warp metrics of a profile into rows per kernel, role and scope. */
#include "viewer/numbers/warps_report.h"

#include <math.h>

#include "base/array.h"
#include "base/message.h"
#include "model/rollup.h"
#include "model/warp_metrics.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/filter.h"
#include "viewer/query/input.h"

const char *const warps_metrics[WARPS_NUMBERS] = {
	[WARPS_NUMBER_RECORDED_CTAS] = WARPS_RECORDED_CTAS,
	[WARPS_NUMBER_SAMPLED_CTAS] = WARPS_SAMPLED_CTAS,
	[WARPS_NUMBER_CTA_CYCLES] = WARPS_CTA_CYCLES,
	[WARPS_NUMBER_UNSEEN] = WARPS_UNSEEN_CYCLES,
	[WARPS_NUMBER_WARPS] = WARPS_SAMPLED_WARPS,
	[WARPS_NUMBER_WARP_CYCLES] = WARPS_WARP_CYCLES,
	[WARPS_NUMBER_BUSY] = WARPS_BUSY_CYCLES,
	[WARPS_NUMBER_WAIT] = WARPS_WAIT_CYCLES,
	[WARPS_NUMBER_IDLE] = WARPS_IDLE_CYCLES,
	[WARPS_NUMBER_PATH] = WARPS_PATH_CYCLES,
	[WARPS_NUMBER_ASYNC] = WARPS_ASYNC_CYCLES,
	[WARPS_NUMBER_OVERLAPPED] = WARPS_OVERLAPPED_CYCLES,
};

/* ------------------------------------------------------------------ rows */

static bool is_frame(const struct profile *profile, uint32_t node, const char *name)
{
	return strcmp(profile_text(profile, profile->frames[profile->nodes[node].frame].name),
		      name) == 0;
}

/* The row that a node belongs to; false if none. `level` counts from <warps>, which has level 0. */
static bool read_place(const struct profile *profile, uint32_t node, uint8_t level,
		       struct warps_row *row)
{
	uint32_t path[3]; /* <warps>, role, scope */

	for (uint8_t i = level + 1; i-- > 0;) {
		path[i] = node;
		node = profile->nodes[node].parent;
	}
	row->kernel = profile->nodes[node].frame;
	row->role = level > 0 ? profile->nodes[path[1]].frame : WARPS_NO_FRAME;
	row->scope = level > 1 ? profile->nodes[path[2]].frame : WARPS_NO_FRAME;
	row->is_async = level > 0 && is_frame(profile, path[1], WARPS_ASYNC_FRAME);
	/* <asynchronous> itself has no numbers */
	return node && !(row->is_async && level == 1);
}

/*
 * By kernel; within one, the kernel itself first, then roles in frame order, each before its
 * scopes.
 */
/* WARPS_NO_FRAME + 1 is 0 */
ARRAY_ORDER(compare_places, struct warps_row,
	    ORDER_OF(a->kernel, b->kernel) ?: ORDER_OF(a->role + 1, b->role + 1)
	    ?: ORDER_OF(a->scope + 1, b->scope + 1))

static void add_numbers(struct warps_row *to, const struct warps_row *more)
{
	for (size_t i = 0; i < WARPS_NUMBERS; i++)
		if (!isnan(more->number[i]))
			to->number[i] = (isnan(to->number[i]) ? 0 : to->number[i]) +
					more->number[i];
}

static void merge_rows(struct warps_report *report)
{
	size_t kept = 0;

	ARRAY_SORT(report->rows, report->count, compare_places);
	for (size_t i = 0; i < report->count; i++) {
		if (kept && compare_places(&report->rows[kept - 1], &report->rows[i]) == 0)
			add_numbers(&report->rows[kept - 1], &report->rows[i]);
		else
			report->rows[kept++] = report->rows[i];
	}
	report->count = kept;
}

static void read_rows(struct warps_report *report, const struct column *columns,
		      const uint8_t *state)
{
	const struct profile *profile = report->profile;
	AUTO_FREE uint8_t *levels =
		xcalloc(profile->node_count, sizeof(*levels)); /* + 1; 0: no warp data */

	for (uint32_t i = 1; i < profile->node_count; i++) {
		uint8_t above = levels[profile->nodes[i].parent];
		struct warps_row row;

		if (state[i] != NODE_SHOWN)
			continue;
		if (above && above < 3)
			levels[i] = above + 1;
		else if (!above && is_frame(profile, i, WARPS_FRAME))
			levels[i] = 1;
		if (!levels[i] || !read_place(profile, i, levels[i] - 1, &row))
			continue;
		for (size_t n = 0; n < WARPS_NUMBERS; n++)
			row.number[n] = columns[n].value ? columns[n].value[i] : NAN;
		XADD(report->rows, report->count, row);
	}
}

/* ------------------------------------------------------------------ kernels */

/* Estimated for all recorded CTAs from those that were analyzed. */
static double all_cycles(const struct warps_kernel *kernel)
{
	const double *number = kernel->rows[0].number;
	double cycles = number[WARPS_NUMBER_CTA_CYCLES];
	double share = number[WARPS_NUMBER_RECORDED_CTAS] / number[WARPS_NUMBER_SAMPLED_CTAS];

	return isfinite(share) ? cycles * share : cycles;
}

ARRAY_ORDER(by_cycles, struct warps_kernel,
	    ORDER_OF(all_cycles(b), all_cycles(a))
		    ?: ORDER_OF(a->rows[0].kernel, b->rows[0].kernel))

static void find_kernels(struct warps_report *report)
{
	size_t first = 0;

	for (size_t i = 1; i <= report->count; i++) {
		struct warps_kernel kernel = {.rows = &report->rows[first], .count = i - first};

		if (i < report->count && report->rows[i].kernel == report->rows[first].kernel)
			continue;
		for (size_t k = 0; k < kernel.count; k++)
			kernel.has_waits = kernel.has_waits ||
					   !isnan(kernel.rows[k].number[WARPS_NUMBER_WAIT]);
		/* A kernel that was not analyzed or lacks its own row: the file is corrupt. */
		if (kernel.rows[0].role == WARPS_NO_FRAME &&
		    kernel.rows[0].number[WARPS_NUMBER_CTA_CYCLES] > 0) {
			XADD(report->kernels, report->kernel_count, kernel);
		}
		first = i;
	}
	ARRAY_SORT(report->kernels, report->kernel_count, by_cycles);
}

void warps_report_init(struct warps_report *report, const struct profile *profile,
		       const uint8_t *state)
{
	struct column columns[WARPS_NUMBERS] = {{0}};

	*report = (struct warps_report){.profile = profile};
	for (size_t i = 0; i < WARPS_NUMBERS; i++)
		if (rollup_has(profile, warps_metrics[i]) &&
		    rollup_metric(profile, warps_metrics[i], false, &columns[i], NULL))
			xgive_up();
	read_rows(report, columns, state);
	for (size_t i = 0; i < WARPS_NUMBERS; i++)
		column_fini(&columns[i]);
	if (!report->count)
		return;
	merge_rows(report);
	find_kernels(report);
}

void warps_report_fini(struct warps_report *report)
{
	FREE_ALL(report->rows, report->kernels);
}

double warps_of_role(const struct warps_kernel *kernel, const struct warps_row *role,
		     enum warps_number number)
{
	const struct warps_row *end = kernel->rows + kernel->count;
	struct warps_row sum = {0};

	for (size_t i = 0; i < WARPS_NUMBERS; i++)
		sum.number[i] = NAN;
	for (const struct warps_row *row = role; row < end && row->role == role->role; row++)
		add_numbers(&sum, row);
	return sum.number[number];
}

/* ------------------------------------------------------------------ in other views */

static bool is_of_warps(const char *metric)
{
	for (size_t i = 0; i < WARPS_NUMBERS; i++) {
		size_t length = strlen(warps_metrics[i]);

		if (strncasecmp(metric, warps_metrics[i], length) == 0 &&
		    (!metric[length] || metric[length] == '/'))
			return true;
	}
	return false;
}

bool warps_are_asked_for(const struct options *options)
{
	bool is_asked = false;

	for (size_t i = 0; i < options->query.metric_count; i++)
		is_asked = is_asked || is_of_warps(options->query.metrics[i]);
	for (size_t i = 0; i < options->query.threshold_count; i++)
		is_asked = is_asked || is_of_warps(options->query.thresholds[i].metric);
	for (size_t i = 0; i < options->query.gate_count; i++)
		is_asked = is_asked || is_of_warps(options->query.gates[i].metric);
	return is_asked;
}

void warps_strip(struct profile *profile)
{
	AUTO_FREE bool *is_below = xcalloc(profile->node_count, sizeof(*is_below));

	for (uint32_t i = 1; i < profile->node_count; i++) {
		is_below[i] = is_below[profile->nodes[i].parent] ||
			      is_frame(profile, i, WARPS_FRAME);
		if (is_below[i])
			profile->nodes[i].first_value = 0;
	}
}

void warps_report_nothing(const struct profile *profile, const struct options *options)
{
	const char *name = input_display_name(options->query.paths[0]);

	if (options->query.include || options->query.exclude)
		message("no selected kernel in %s has warp data", name);
	else if (rollup_has(profile, WARPS_RECORDED_CTAS))
		message("%s has no warp data: too many records were overwritten; increase "
			"buffer_size",
			name);
	else if (rollup_has(profile, "normalized_cycles"))
		message("%s has no warp data: none of its intra-kernel scopes is a wait, a "
			"partition "
			"or asynchronous work; record with mode default:auto=waits,partitions",
			name);
	else
		message("%s has no intra-kernel scopes; record with proton -b instrumentation "
			"-m default:auto=waits,partitions",
			name);
}
