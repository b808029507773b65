/* Reading the profiles of all ranks one after the other, and metrics over the ranks. */
#include "viewer/ranks/rank_scan.h"

#include <math.h>

#include "export/bounds.h"
#include "model/ranks.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/filter.h"
#include "viewer/query/input.h"
#include "viewer/ranks/rank_merge.h"

/* Per metric and node: its row, in an array that doubles, and the number of the row. */
#define ROW_BYTES 100u

int rank_scan(char *const *paths, size_t count, rank_scan_fn *visit, void *context,
	      struct profile **sum_out, struct proton_error *err)
{
	struct metrics metrics;
	struct rank_scan_step step = {.metrics = &metrics};
	struct profile *sum;
	struct merge *merge = sum_begin(&sum);
	AT_END(rank_job_fini) struct rank_job job;
	int status = PROTON_OK;

	merge_limit(merge, RANK_NODES_MAX);
	rank_job_init(&job, paths, count);
	step.sum = sum;
	for (size_t i = 0; i < job.rank_count && status == PROTON_OK; i++) {
		step.source = rank_job_load(&job, i, NULL, &step.rank);
		step.maps = merge_tree(merge, step.source);
		if (!step.maps)
			xgive_up();
		free(filter_prune(step.source));
		metrics_init(&metrics, step.source);
		status = visit(context, &step, err);
		metrics_fini(&metrics);
		profile_free(step.source);
	}
	merge_free(merge);
	if (status == PROTON_OK)
		*sum_out = sum;
	else
		profile_free(sum);
	return status;
}

/* ------------------------------------------------------------------ metrics */

struct spreading {
	const char *const *metrics;
	size_t count;
	struct rank_rows *tables; /* rows by node */
	bool *has_metric;
};

/* The row of a node; new rows are empty. */
static struct rank_row *row_of_node(struct rank_rows *rows, uint32_t node)
{
	for (size_t i = rows->count; i <= node; i++)
		XADD(rows->items, rows->count, (struct rank_row){.node = (uint32_t)i});
	return &rows->items[node];
}

static int add_metrics(void *context, const struct rank_scan_step *step, struct proton_error *err)
{
	struct spreading *all = context;
	int status = bounds_columns(step->source, all->count, ROW_BYTES, err);

	for (size_t i = 0; i < all->count && status == PROTON_OK; i++) {
		struct rank_rows *rows = &all->tables[i];
		struct metric_column column = {0};
		struct proton_error missing;

		if (rank_time_divisor(all->metrics[i]) > 0)
			continue;
		/* A rank may lack a metric that another has. */
		if (derive_column(step->metrics, all->metrics[i], &column, &missing) == PROTON_OK &&
		    column.values) {
			all->has_metric[i] = true;
			rows->is_inclusive = column.is_inclusive;
		}
		for (uint32_t n = 0; column.values && n < step->source->node_count; n++)
			if (!isnan(column.values[n]))
				rank_row_add(row_of_node(rows, step->maps->nodes[n]), step->rank,
					     column.values[n]);
		metric_column_fini(&column);
	}
	return status;
}

/* Removes the rows of nodes without a value, and of scopes that only have zeros. */
static void finish_rows(struct rank_rows *rows, const struct profile *sum)
{
	size_t count = 0;

	for (size_t i = 0; i < rows->count; i++)
		if (rows->items[i].min != 0 || rows->items[i].max != 0)
			rows->items[count++] = rows->items[i];
	rows->count = count;
	rows->profile = sum;
	rank_rows_sort(rows);
}

/* Why no rank has a metric: the message for the sum of all. */
static int refuse_rank_metric(const char *metric, const struct profile *sum,
			      struct proton_error *err)
{
	AT_END(metric_column_fini) struct metric_column column = {0};
	AT_END(metrics_fini) struct metrics metrics;

	metrics_init(&metrics, sum);
	int status = derive_column(&metrics, metric, &column, err);
	if (status == PROTON_OK)
		status = err_set(err, PROTON_E_INVALID,
				 "metric %.100s is not numeric: it cannot "
				 "be compared between ranks",
				 metric);
	return status;
}

int rank_scan_metrics(char *const *paths, size_t count, const char *const *metrics,
		      size_t metric_count, struct rank_rows *tables, struct profile **sum_out,
		      struct proton_error *err)
{
	struct spreading all = {.metrics = metrics, .count = metric_count, .tables = tables};
	struct profile *sum;

	all.has_metric = xcalloc(metric_count + 1, sizeof(*all.has_metric));
	for (size_t i = 0; i < metric_count; i++)
		if (rank_time_divisor(metrics[i]) == 0)
			tables[i] = (struct rank_rows){.metric = metrics[i]};
	int status = rank_scan(paths, count, add_metrics, &all, &sum, err);
	for (size_t i = 0; i < metric_count && status == PROTON_OK; i++) {
		if (rank_time_divisor(metrics[i]) > 0)
			continue;
		if (!all.has_metric[i])
			status = refuse_rank_metric(metrics[i], sum, err);
		finish_rows(&tables[i], sum);
		if (status != PROTON_OK)
			profile_free(sum);
	}
	free(all.has_metric);
	if (status == PROTON_OK)
		*sum_out = sum;
	return status;
}

/* ------------------------------------------------------------------ merged files */

static double number_of(union spread_number number, const struct row_value_spread *row)
{
	return row->type == PROTON_METRIC_DOUBLE ? number.float64 : (double)number.int64;
}

/* By node: true if a node below has a value of the metric. */
static bool *with_values_below(const struct profile *merged, uint32_t metric)
{
	const struct value_spreads *spreads = &merged->ranks->values;
	bool *has = xcalloc(merged->node_count, sizeof(*has));

	for (size_t i = 1; i < spreads->count; i++)
		if (spreads->rows[i].metric == metric && spreads->rows[i].node)
			has[merged->nodes[spreads->rows[i].node].parent] = true;
	for (size_t i = merged->node_count; i-- > 1;)
		if (has[i])
			has[merged->nodes[i].parent] = true;
	return has;
}

static void add_values(struct rank_rows *rows, const struct profile *merged, uint32_t metric,
		       double divisor)
{
	const struct value_spreads *spreads = &merged->ranks->values;
	AUTO_FREE bool *has_below = with_values_below(merged, metric);

	for (size_t i = 1; i < spreads->count; i++) {
		const struct row_value_spread *row = &spreads->rows[i];

		if (row->metric != metric || (rows->is_inclusive && has_below[row->node]))
			continue;
		XADD(rows->items, rows->count,
		     (struct rank_row){
			     .node = row->node,
			     .ranks = row->ranks,
			     .min_rank = row->min_rank,
			     .max_rank = row->max_rank,
			     .sum = number_of(row->sum, row) / divisor,
			     .min = number_of(row->min, row) / divisor,
			     .max = number_of(row->max, row) / divisor,
		     });
	}
}

/* The recorded number that a metric shows, in another unit at most; NULL: it is another one. */
static const struct raw_metric *recorded(const struct metrics *metrics, const char *metric,
					 double *divisor_out)
{
	const struct raw_metric *raw = metrics_find(metrics, metric);
	AT_END(metric_column_fini) struct metric_column column = {0};
	struct proton_error err;

	*divisor_out = 1;
	if (raw)
		return raw;
	/* Shares are those of a rank's own total, which a merged file does not have. */
	if (metric[strlen(metric) - 1] != '%' &&
	    derive_column(metrics, metric, &column, &err) == PROTON_OK && column.source) {
		raw = column.source;
		*divisor_out = column.divisor;
	}
	return raw;
}

bool rank_rows_of_values(struct rank_rows *rows, const struct profile *merged, const char *metric)
{
	AT_END(metrics_fini) struct metrics metrics;
	double divisor;

	*rows = (struct rank_rows){.metric = metric};
	metrics_init(&metrics, merged);
	const struct raw_metric *raw = recorded(&metrics, metric, &divisor);
	if (raw && raw->source == RAW_NUMBER && raw->metric != METRIC_NONE && divisor > 0) {
		rows->is_inclusive = raw->is_inclusive;
		add_values(rows, merged, raw->metric, divisor);
	}
	finish_rows(rows, merged);
	return rows->count > 0;
}
