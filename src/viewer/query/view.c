/* Views: the profile as a tree, flat table or bottom-up tree, with default metrics and filters. */
#include "viewer/query/view.h"

#include <math.h>

#include "base/array.h"
#include "base/message.h"
#include "export/bounds.h"
#include "model/ranks.h"
#include "viewer/numbers/utilization.h"
#include "viewer/numbers/warps_report.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/filter.h"
#include "viewer/query/hiding.h"
#include "viewer/query/select.h"
#include "viewer/query/walk.h"
#include "viewer/ranks/rank_columns.h"
#include "viewer/ranks/rank_numbers.h"

#define CUMULATIVE "cum/%"
#define DEFAULT_METRICS 3
/* A column has a double and an exact integer per node. */
#define COLUMN_BYTES 16u

/* In a comparison, the first metric decides. */
bool view_needs_rank_times(const struct options *options)
{
	const struct query_options *query = &options->query;
	bool needs = !query->metric_count ||
		     (query->base && rank_time_divisor(query->metrics[0]) > 0);

	for (size_t i = 0; i < query->metric_count; i++)
		needs |= derive_is_of_ranks(query->metrics[i]);
	for (size_t i = 0; i < query->threshold_count; i++)
		needs |= derive_is_of_ranks(query->thresholds[i].metric);
	for (size_t i = 0; i < query->gate_count; i++)
		needs |= derive_is_of_ranks(query->gates[i].metric);
	return needs && query->mode != VIEW_TREE && !query->list;
}

static int regroup_view(struct profile **profile, const struct options *options,
			struct proton_error *err)
{
	struct profile *turned = NULL;
	bool has_ranks = (*profile)->ranks && (*profile)->ranks->kept;
	bool is_flat = options->query.mode == VIEW_FLAT;
	uint32_t *places = NULL;
	bool *keeps = NULL;
	const char *none = NULL;
	int status = PROTON_OK;

	if (options->query.include || options->query.exclude)
		status = filter_select(*profile, options->query.include, options->query.exclude,
				       &keeps, &none, err);
	if (status)
		return status;
	if (none)
		hiding_report_none(none);
	if (has_ranks)
		places = xcalloc((*profile)->node_count, sizeof(*places));
	status = profile_regroup(*profile, is_flat ? options->query.group_by : REGROUP_CALLERS,
				 is_flat ? options->query.levels : options->query.depth, keeps,
				 places, &turned, err);
	if (status == PROTON_OK && has_ranks && !rank_turn(turned, *profile, places))
		message("the slowest ranks of some rows are not known: a merged file has times of "
			"single ranks in some frames only; name the directory of the ranks");
	FREE_ALL(places, keeps);
	if (status)
		return status;
	profile_free(*profile);
	*profile = turned;
	return PROTON_OK;
}

int view_turn(struct profile **profile, const struct options *options, uint8_t **state_out,
	      struct proton_error *err)
{
	bool is_export = output_is_export(&options->output);

	if ((*profile)->ranks && view_needs_rank_times(options))
		rank_turn_begin(*profile);
	int status = hiding_fold(&options->query.hiding, *profile, err);
	if (status)
		return status;
	/* Warp data belongs to the --warps report, not to the tree of scopes. */
	if (!options->query.warps && !options->query.brief && !options->query.list &&
	    (options->query.metric_count || !is_export) && !warps_are_asked_for(options))
		warps_strip(*profile);
	*state_out = filter_prune(*profile);
	if (options->query.mode == VIEW_TREE || options->query.list)
		return PROTON_OK;
	free(*state_out);
	*state_out = NULL;
	status = regroup_view(profile, options, err);
	if (status)
		return status;
	*state_out = filter_prune(*profile);
	return PROTON_OK;
}

int view_init(struct view *view, struct profile *profile, const struct options *options,
	      struct proton_error *err)
{
	*view = (struct view){0};
	int status = view_turn(&profile, options, &view->state, err);
	if (status) {
		profile_free(profile);
		return status;
	}
	view->profile = profile;
	metrics_init(&view->metrics, profile);
	return PROTON_OK;
}

void view_fini(struct view *view)
{
	for (size_t i = 0; i < view->column_count; i++)
		metric_column_fini(&view->columns[i]);
	free(view->columns);
	for (size_t i = 0; i < view->gate_count; i++)
		free(view->gates[i].label);
	free(view->gates);
	metrics_fini(&view->metrics);
	FREE_ALL(view->state, view->why);
	profile_free(view->profile);
	*view = (struct view){0};
}

bool view_is_empty(const struct view *view)
{
	const struct profile *profile = view->profile;

	if (view->metrics.count == 0)
		return true;
	if (profile->nodes[0].first_value || profile->nodes[0].first_kernel)
		return false;
	for (size_t i = 1; i < profile->node_count; i++) {
		if (view->state[i] == NODE_SHOWN)
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------ which metrics */

/* Adds the metrics that compare the ranks of a job. */
static size_t rank_metrics(const struct metrics *metrics, size_t count, const char **names)
{
	static const char *const wanted[] = {"slowest/ms", "slowest_rank", "imbalance/%"};

	for (size_t i = 0; i < ARRAY_LENGTH(wanted) && derive_compares_ranks(metrics); i++)
		names[count++] = wanted[i];
	return count;
}

/* Adds the names that the profile has a metric for, and shares. */
static size_t add_known(const struct metrics *metrics, const char *const *wanted, bool has_shares,
			size_t count, const char **names)
{
	for (; *wanted; wanted++) {
		bool is_known = strchr(*wanted, '%') ? has_shares
						     : derive_is_available(metrics, *wanted) ||
							       metrics_has_number(metrics, *wanted);

		if (strcmp(*wanted, "util") == 0)
			is_known = is_known && util_is_known(metrics);
		if (strcmp(*wanted, "bound") == 0)
			is_known = is_known && metrics_has_number(metrics, "counter_launches");
		if (strcmp(*wanted, "dram_gbyte/s") == 0) /* else gbyte/s is the same */
			is_known = is_known && metrics_has_number(metrics, "bytes");
		if (is_known)
			names[count++] = *wanted;
	}
	return count;
}

/* Default metrics of a flat table, most important first; as many as fit are shown. */
static size_t flat_metrics(const struct metrics *metrics, const char **names)
{
	static const char *const times[] = {"time/ms", "time_ci/ms", "time/%", CUMULATIVE, NULL};
	static const char *const others[] = {
		"count",       "avg_time/us",  "min_time/us", "p50_time/us", "p90_time/us",
		"p99_time/us", "max_time/us",  "tflop4/s",    "tflop8/s",    "tflop16/s",
		"tflop32/s",   "tflop64/s",    "tflop/s",     "gbyte/s",     "util",
		"bound",       "dram_gbyte/s", "occupancy",   NULL,
	};
	size_t count = add_known(metrics, times, true, 0, names);

	return add_known(metrics, others, true, rank_metrics(metrics, count, names), names);
}

/* Default metrics of the tree: time if present, else cycles, else the first metric. */
static size_t tree_metrics(const struct metrics *metrics, bool has_shares, const char **names)
{
	static const char *const times[] = {"time/ms", "time_ci/ms", "time/%", "count", NULL};
	/* Of intra-kernel scopes: in total, per warp and per execution. */
	static const char *const cycles[] = {"cycles",      "cycles/%",   "normalized_cycles",
					     "mean_cycles", "executions", NULL};
	size_t count = 0;

	if (metrics_has_number(metrics, "time"))
		return rank_metrics(metrics, add_known(metrics, times, true, 0, names), names);
	if (metrics_has_number(metrics, "cycles"))
		return add_known(metrics, cycles, has_shares, 0, names);
	if (metrics_has_number(metrics, "cpu_time"))
		names[count++] = "cpu_time/ms";
	/* Numeric metrics first; text metrics only if there are no numeric ones. */
	for (int is_text = 0; is_text <= (count == 0); is_text++) {
		for (size_t i = 0; i < metrics->count && count < DEFAULT_METRICS; i++) {
			const struct raw_metric *raw = &metrics->raws[i];

			if ((raw->source != RAW_NUMBER) == is_text &&
			    strcmp(raw->name, "cpu_time") != 0)
				names[count++] = raw->label;
		}
	}
	return count;
}

const char *const *view_metrics(const struct view *view, const struct options *options,
				const char *names[VIEW_METRICS_MAX], size_t *count_out)
{
	bool is_one = options->query.base || options->query.merge_how != MERGE_SUM;
	bool is_file = output_is_export(&options->output);

	if (options->query.metric_count) {
		*count_out = options->query.metric_count;
		return options->query.metrics;
	}
	if (options->query.mode == VIEW_FLAT && metrics_has_number(&view->metrics, "time"))
		*count_out = flat_metrics(&view->metrics, names);
	else /* only a tree shows the nesting of scopes */
		*count_out = tree_metrics(&view->metrics,
					  options->query.mode == VIEW_TREE && !is_file, names);
	/* Each becomes several columns. */
	if (is_one && *count_out > 1)
		*count_out = 1;
	/* Files get exact integers where they exist. */
	if (*count_out && is_file) {
		if (strcmp(names[0], "time/ms") == 0)
			names[0] = "time/ns";
		else if (strcmp(names[0], "cpu_time/ms") == 0)
			names[0] = "cpu_time/ns";
	}
	return names;
}

/* ------------------------------------------------------------------ columns */

static int add_column(struct view *view, const char *name, bool is_flat, struct proton_error *err)
{
	struct metric_column *column = &view->columns[view->column_count];

	if (strcmp(name, CUMULATIVE) != 0) {
		int status = derive_column(&view->metrics, name, column, err);
		view->column_count += status == PROTON_OK;
		return status;
	}
	if (!is_flat || view->column_count == 0)
		return err_set(
			err, PROTON_E_INVALID,
			"metric cum/%% (cumulative share of the first metric) requires a flat "
			"table (--top, --group) and cannot be the first metric");
	*column = (struct metric_column){.name = xstrdup(CUMULATIVE)};
	column->values = xcalloc(view->profile->node_count, sizeof(*column->values));
	view->column_count++;
	return PROTON_OK;
}

int view_columns(struct view *view, const struct options *options, struct proton_error *err)
{
	const char *names[VIEW_METRICS_MAX];
	size_t count;
	const char *const *wanted = view_metrics(view, options, names, &count);
	int status = PROTON_OK;

	if (options->query.metric_count)
		status = bounds_columns(view->profile, count, COLUMN_BYTES, err);
	if (status)
		return status;
	view->columns = xcalloc(count + options->query.threshold_count + options->query.gate_count,
				sizeof(*view->columns));
	view->is_default = options->query.metric_count == 0;
	for (size_t i = 0; i < count && status == PROTON_OK; i++)
		status = add_column(view, wanted[i], options->query.mode == VIEW_FLAT, err);
	view->shown_count = view->column_count;
	for (size_t i = 0; i < options->query.threshold_count && status == PROTON_OK; i++)
		status = add_column(view, options->query.thresholds[i].metric, false, err);
	for (size_t i = 0; i < options->query.gate_count && status == PROTON_OK; i++)
		status = add_column(view, options->query.gates[i].metric, false, err);
	if (status || !options->query.gate_count)
		return status;
	view->gates = xcalloc(options->query.gate_count, sizeof(*view->gates));
	view->gate_count = options->query.gate_count;
	for (size_t i = 0; i < options->query.gate_count; i++) {
		const struct metric_column *column =
			&view->columns[view->shown_count + options->query.threshold_count + i];

		if (!column->values)
			return err_set(err, PROTON_E_INVALID,
				       "--fail-if requires a numeric metric; %s is not numeric",
				       column->name);
		view->gates[i] = (struct gate_numbers){
			.label = xstrdup(column->name),
			.after = column->values,
			.is_inclusive = column->is_inclusive,
		};
	}
	return PROTON_OK;
}

/* ------------------------------------------------------------------ filters */

int view_filter(struct view *view, const struct options *options, struct proton_error *err)
{
	struct thresholds thresholds = {
		.first = &view->columns[view->sort_column],
		.others = &view->columns[view->shown_count],
		.by_magnitude = view->by_magnitude,
	};
	int status = options->query.mode == VIEW_TREE
			     ? select_paths(options, view->profile, view->state, err)
			     : PROTON_OK;

	return status ? status
		      : select_minimum(options, view->profile, &thresholds, view->state, err);
}

/* Fills the column of cum/%, in the order of all rows. */
static void accumulate(struct view *view)
{
	double *cumulative = NULL, sum = 0;
	struct walk_step step;
	struct walk walk;

	for (size_t i = 0; i < view->shown_count; i++) {
		if (strcmp(view->columns[i].name, CUMULATIVE) == 0)
			cumulative = view->columns[i].values;
	}
	if (!cumulative || !view->columns[0].values)
		return;
	double whole = metric_column_whole(&view->columns[0], view->profile->node_count);
	for (size_t i = 0; i < view->profile->node_count; i++)
		cumulative[i] = NAN;
	walk_init(&walk, view);
	while (walk_next(&walk, &step)) {
		double value = view->columns[0].values[step.node];

		if (step.is_more || step.level == 0 || isnan(value))
			continue;
		sum += value;
		/* Prevents 100.00000000000003. */
		cumulative[step.node] = whole == 0                      ? NAN
					: fabs(sum / whole - 1) < 1e-12 ? 100
									: 100 * sum / whole;
	}
	walk_fini(&walk);
}

void view_settle(struct view *view, const struct options *options)
{
	const struct style_options *style = &options->style;

	view->depth = options->query.depth;
	view->is_flat = options->query.mode == VIEW_FLAT;
	view->format = style->format;
	view->names = output_is_for_users(&options->output) ? style->names
							    : style_stored_names(style);
	view->term = term_probe(style->color);
	accumulate(view);
	view->rows = options->query.rows;
}
