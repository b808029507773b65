/* Comparison of profiles: the union of several trees, and statistics over many files (--merge). */
#include "viewer/numbers/compare.h"

#include <math.h>
#include <stdio.h>
#include <strings.h>

#include "base/array.h"
#include "base/message.h"
#include "export/bounds.h"
#include "viewer/numbers/repeats.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/filter.h"
#include "viewer/ranks/rank_job_input.h"
#include "viewer/ranks/rank_numbers.h"

/* Per metric and node: the columns of both sides, their values in order of nodes, and results. */
#define COMPARED_BYTES 64u

void comparison_begin(struct comparison *comparison, const struct options *options)
{
	*comparison = (struct comparison){.options = options,
					  .is_exact = !output_is_for_users(&options->output)};
	comparison->merge = sum_begin(&comparison->all);
}

void comparison_end(struct comparison *comparison)
{
	merge_free(comparison->merge);
	profile_free(comparison->all);
	for (size_t i = 0; i < comparison->name_count; i++) {
		FREE_ALL(comparison->metrics[i].name, comparison->metrics[i].source,
			 comparison->metrics[i].label);
	}
	free(comparison->metrics);
}

/* Copies the name: the profile that owns it may be freed before the next one is loaded. */
static void add_name(struct comparison *comparison, const char *name)
{
	comparison->metrics[comparison->name_count++].name = xstrdup(name);
}

/* With a time as first metric, the slowest ranks of jobs are compared, too. */
static void add_rank_names(struct comparison *comparison, const char *first)
{
	AUTO_FREE char *name = xasprintf("slowest%s", first + strcspn(first, "/"));

	metrics_lower_case(name);
	if (strncasecmp(first, "time/", 5) == 0 && derive_is_of_ranks(name)) {
		add_name(comparison, name);
		add_name(comparison, "slowest_rank");
		add_name(comparison, "imbalance/%");
		comparison->rank_count = RANK_METRICS;
	}
}

/* The first profile with metrics determines the default metrics. */
static void name_metrics(struct comparison *comparison, const struct view *view)
{
	const struct options *options = comparison->options;
	const char *defaults[VIEW_METRICS_MAX];
	const char *const *shown;
	size_t count;

	if (comparison->metrics)
		return;
	shown = view_metrics(view, options, defaults, &comparison->shown_count);
	if (comparison->shown_count == 0)
		return; /* an empty profile */
	count = comparison->shown_count + options->query.threshold_count +
		options->query.gate_count + RANK_METRICS;
	comparison->metrics = xcalloc(count, sizeof(*comparison->metrics));
	for (size_t i = 0; i < comparison->shown_count; i++)
		add_name(comparison, shown[i]);
	for (size_t i = 0; i < options->query.threshold_count; i++)
		add_name(comparison, options->query.thresholds[i].metric);
	comparison->first_gate = comparison->name_count;
	for (size_t i = 0; i < options->query.gate_count; i++)
		add_name(comparison, options->query.gates[i].metric);
	comparison->gate_end = comparison->name_count;
	if (options->query.base)
		add_rank_names(comparison, shown[0]);
}

/* The names of frames as numbers, by frame: a kernel and a scope of one name are the same frame. */
static uint32_t *number_names(const struct profile *profile)
{
	uint32_t *numbers = xcalloc(profile->frame_count + 1, sizeof(*numbers));
	AT_END(hash_table_fini) struct hash_table names = {0}; /* frame + 1 */

	for (uint32_t i = 0; i < profile->frame_count; i++) {
		const struct row_frame *frame = &profile->frames[i];
		uint32_t found = hash_table_find(&names, hash_u64(frame->name));

		numbers[i] = found && frame->kind != FRAME_SOURCE ? found - 1 : i;
		if (!found && frame->kind != FRAME_SOURCE &&
		    !hash_table_add(&names, hash_u64(frame->name), i + 1))
			xgive_up();
	}
	return numbers;
}

static bool has_equal_metrics(const struct profile *profile)
{
	AT_END(hash_table_fini) struct hash_table names = {0};
	bool is_found = false;

	for (size_t i = 0; i < profile->metric_count && !is_found; i++) {
		uint64_t hash = hash_u64(profile->metrics[i].name);

		is_found = hash_table_find(&names, hash);
		if (!hash_table_add(&names, hash, 1))
			xgive_up();
	}
	return is_found;
}

/* True if siblings have the same name, or metrics do. Recorded profiles have no such ones. */
static bool has_twins(const struct profile *profile)
{
	AUTO_FREE uint32_t *numbers = number_names(profile);
	AUTO_FREE uint32_t *seen =
		xcalloc(profile->frame_count + 1, sizeof(*seen)); /* parent + 1 */
	bool is_found = has_equal_metrics(profile);

	for (uint32_t n = 0; n < profile->node_count && !is_found; n++) {
		uint32_t child = profile->nodes[n].first_child;

		for (; child && !is_found; child = profile->nodes[child].next_sibling) {
			uint32_t number = numbers[profile->nodes[child].frame];

			is_found = seen[number] == n + 1;
			seen[number] = n + 1;
		}
	}
	return is_found;
}

/* Merges siblings of the same name, which makes paths unique. */
static struct profile *without_twins(struct profile *profile)
{
	struct profile *unique;

	if (!has_twins(profile))
		return profile;
	struct merge *merge = sum_begin(&unique);
	sum_add(merge, profile);
	return sum_end(merge, unique);
}

static int derive_side(struct comparison *comparison, struct view *view,
		       struct metric_column *columns, struct proton_error *err)
{
	int status = PROTON_OK;

	for (size_t i = 0; i < comparison->name_count && status == PROTON_OK; i++) {
		struct compared_metric *metric = &comparison->metrics[i];
		const struct metric_column *column = &columns[i];
		struct proton_error missing;

		if (derive_column(&view->metrics, metric->name, &columns[i], &missing)) {
			if (!comparison->first_error.text[0])
				comparison->first_error = missing;
			continue;
		}
		if (!column->values) {
			status = err_set(err, PROTON_E_INVALID,
					 "metric %.100s is not numeric and cannot be compared",
					 metric->name);
			break;
		}
		if (!metric->label)
			metric->label = xstrdup(column->name);
		metric->is_inclusive = column->is_inclusive;
		metric->is_additive = column->is_additive;
		if (!column->source || metric->source)
			continue;
		metric->source = xstrdup(column->source->label);
		metric->divisor = column->divisor;
	}
	return status;
}

/* *view takes the profile; release both with their functions, even after an error. */
static int derive_profile(struct comparison *comparison, struct profile *profile, struct view *view,
			  struct metric_column **columns_out, struct proton_error *err)
{
	int status = view_init(view, without_twins(profile), comparison->options, err);

	*columns_out = NULL;
	if (status)
		return status;
	name_metrics(comparison, view);
	if (comparison->options->query.metric_count) {
		status = bounds_columns(view->profile, comparison->name_count, COMPARED_BYTES, err);
		if (status)
			return status;
	}
	*columns_out = xcalloc(comparison->name_count, sizeof(**columns_out));
	return derive_side(comparison, view, *columns_out, err);
}

int comparison_add(struct comparison *comparison, struct profile *profile, comparison_use *use,
		   void *context, struct proton_error *err)
{
	AUTO_FREE struct metric_column *columns = NULL;
	AT_END(view_fini) struct view view;
	int status = derive_profile(comparison, profile, &view, &columns, err);

	if (status == PROTON_OK) {
		const struct merge_maps *maps = merge_tree(comparison->merge, view.profile);

		if (!maps)
			xgive_up();
		use(comparison, &view, columns, maps->nodes, context);
	}
	for (size_t i = 0; columns && i < comparison->name_count; i++)
		metric_column_fini(&columns[i]);
	return status;
}

int comparison_check_found(const struct comparison *comparison, struct proton_error *err)
{
	for (size_t i = 0; i < comparison->gate_end; i++) {
		if (!comparison->metrics[i].label) {
			*err = comparison->first_error;
			return PROTON_E_INVALID;
		}
	}
	return PROTON_OK;
}

/* ------------------------------------------------------------------ the result */

struct metric_column *comparison_column(const struct comparison *comparison, struct view *view,
					size_t name, const char *which)
{
	const struct compared_metric *metric = &comparison->metrics[name];
	struct metric_column *column = &view->columns[view->column_count++];

	*column = (struct metric_column){
		.name = xasprintf("%s %s", metric->label, which),
		.which = which,
		.is_inclusive = metric->is_inclusive,
		.divisor = metric->divisor,
	};
	if (metric->source)
		column->source = metrics_find(&view->metrics, metric->source);
	column->values = xcalloc(view->profile->node_count, sizeof(*column->values));
	return column;
}

struct metric_column *comparison_words(struct view *view, char *name, const char *const *words)
{
	struct metric_column *column = &view->columns[view->column_count++];

	*column = (struct metric_column){.name = name, .words = words};
	column->word = xcalloc(view->profile->node_count, sizeof(*column->word));
	return column;
}

void comparison_take_union(struct comparison *comparison, struct view *view, size_t columns)
{
	merge_free(comparison->merge);
	comparison->merge = NULL;
	*view = (struct view){.profile = comparison->all};
	comparison->all = NULL;
	view->state = filter_prune(view->profile);
	metrics_init(&view->metrics, view->profile);
	view->columns = xcalloc(columns, sizeof(*view->columns));
	if (comparison->options->query.gate_count)
		view->gates = xcalloc(comparison->options->query.gate_count, sizeof(*view->gates));
	view->gate_count = comparison->options->query.gate_count;
}

void comparison_gate(const struct comparison *comparison, struct view *view, size_t name,
		     const struct gate_numbers *numbers)
{
	struct gate_numbers *gate = &view->gates[name - comparison->first_gate];

	*gate = *numbers;
	gate->label = xstrdup(comparison->metrics[name].label);
	gate->is_inclusive = comparison->metrics[name].is_inclusive;
}

/* ------------------------------------------------------------------ many */

struct tallies {
	struct rank_row *rows; /* by node and name, over the files */
	size_t capacity;
	size_t node_count;
	uint32_t file; /* that is added */
	size_t file_count;
};

/* Visits only the nodes of this file: the union of many files is large. */
static void add_tallies(struct comparison *comparison, const struct view *view,
			const struct metric_column *columns, const uint32_t *nodes, void *context)
{
	struct tallies *tallies = context;
	const struct profile *profile = view->profile;
	size_t names = comparison->name_count;
	size_t before = tallies->node_count * names;
	size_t after = comparison->all->node_count * names;

	tallies->file_count++;
	if (names) { /* else: only empty profiles so far */
		xreserve(&tallies->rows, &tallies->capacity, after, sizeof(*tallies->rows));
		memset(tallies->rows + before, 0, (after - before) * sizeof(*tallies->rows));
		tallies->node_count = comparison->all->node_count;
	}
	for (size_t i = 0; i < names; i++) {
		const double *values = columns[i].values;

		for (size_t n = 0; values && n < profile->node_count; n++)
			if (!isnan(values[n]))
				rank_row_add(&tallies->rows[nodes[n] * names + i], tallies->file,
					     values[n]);
	}
}

/* Files without a node count as 0 for additive metrics. */
static void finish_tallies(const struct comparison *comparison, struct tallies *tallies)
{
	for (size_t n = 0; n < tallies->node_count; n++) {
		for (size_t i = 0; i < comparison->name_count; i++) {
			struct rank_row *tally = &tallies->rows[n * comparison->name_count + i];

			if (!comparison->metrics[i].is_additive || tally->ranks == 0 ||
			    tally->ranks == tallies->file_count)
				continue;
			tally->ranks = (uint32_t)tallies->file_count;
			tally->min = fmin(tally->min, 0);
			tally->max = fmax(tally->max, 0);
		}
	}
}

/* Maximum minus minimum; 0 if they differ by rounding only. */
static double range_of(const struct rank_row *tally)
{
	return difference_without_noise(tally->max - tally->min,
					fmax(fabs(tally->max), fabs(tally->min)));
}

static double tally_value(const struct rank_row *tally, enum merge_how how)
{
	if (tally->ranks == 0)
		return NAN;
	switch (how) {
	case MERGE_SUM:
		return tally->sum;
	case MERGE_MIN:
		return tally->min;
	case MERGE_MAX:
		return tally->max;
	case MERGE_MEAN:
		return tally->sum / tally->ranks;
	case MERGE_SPREAD:
		break;
	}
	return tally->sum == 0 ? (tally->min == tally->max ? 0 : NAN)
			       : 100 * (tally->max - tally->min) / fabs(tally->sum / tally->ranks);
}

static const double *add_tally_column(const struct comparison *comparison, struct view *view,
				      const struct tallies *tallies, size_t name,
				      enum merge_how how)
{
	static const char *const words[] = {
		[MERGE_SUM] = "sum", [MERGE_MEAN] = "mean",       [MERGE_MIN] = "min",
		[MERGE_MAX] = "max", [MERGE_SPREAD] = "spread/%",
	};
	struct metric_column *column = comparison_column(comparison, view, name, words[how]);

	column->is_additive = comparison->metrics[name].is_additive && how == MERGE_MEAN;
	for (size_t n = 0; n < view->profile->node_count; n++) {
		const struct rank_row *tally = &tallies->rows[n * comparison->name_count + name];
		bool is_same = how == MERGE_SPREAD && tally->ranks && range_of(tally) == 0 &&
			       !comparison->is_exact;

		column->values[n] = is_same ? 0 : tally_value(tally, how);
	}
	return column->values;
}

/* The file with the maximum; empty if all files have the same value. */
static void add_max_in(const struct comparison *comparison, struct view *view,
		       const struct tallies *tallies, size_t name, const struct input *input)
{
	bool is_time = strstr(comparison->metrics[name].name, "time") != NULL;
	char *title =
		xasprintf("%s %s", comparison->metrics[name].name, is_time ? "slowest" : "most in");
	struct metric_column *column =
		comparison_words(view, title, (const char *const *)input->labels);

	for (size_t n = 0; n < view->profile->node_count; n++) {
		const struct rank_row *tally = &tallies->rows[n * comparison->name_count + name];

		column->word[n] = tally->ranks && range_of(tally) > 0 ? tally->max_rank : WORD_NONE;
	}
}

static void show_tallies(struct comparison *comparison, struct view *view, struct tallies *tallies,
			 const struct input *input)
{
	const struct options *options = comparison->options;
	enum merge_how how = options->query.merge_how;
	enum merge_how judged = how == MERGE_SPREAD ? MERGE_MEAN : how;

	finish_tallies(comparison, tallies);
	comparison_take_union(comparison, view, 5 * comparison->name_count);
	for (size_t i = 0; i < comparison->shown_count; i++) {
		add_tally_column(comparison, view, tallies, i, judged);
		if (how != MERGE_SPREAD)
			continue;
		add_tally_column(comparison, view, tallies, i, MERGE_MIN);
		add_tally_column(comparison, view, tallies, i, MERGE_MAX);
		add_tally_column(comparison, view, tallies, i, MERGE_SPREAD);
		add_max_in(comparison, view, tallies, i, input);
	}
	view->shown_count = view->column_count;
	for (size_t i = comparison->shown_count; i < comparison->name_count; i++) {
		const double *values = add_tally_column(comparison, view, tallies, i, judged);

		if (i >= comparison->first_gate)
			comparison_gate(comparison, view, i,
					&(struct gate_numbers){.after = values});
	}
}

int compare_many(struct view *view, struct input *input, const struct options *options,
		 struct proton_error *err)
{
	struct comparison comparison;
	struct tallies tallies = {0};
	struct proton_error refusal;
	struct profile *profile;

	*view = (struct view){0};
	int status = rank_input_split(input, err);
	if (status != PROTON_OK)
		return status;
	comparison_begin(&comparison, options);
	xkeep_memory();
	xreserve(&tallies.rows, &tallies.capacity, 1, sizeof(*tallies.rows)); /* never NULL */
	while (status == PROTON_OK && (profile = rank_input_next(input, false)) != NULL) {
		tallies.file = (uint32_t)input->next - 1;
		status = comparison_add(&comparison, profile, add_tallies, &tallies, err);
	}
	int judged = rank_input_judge(input, &refusal);
	if (status == PROTON_OK && judged != PROTON_OK) {
		*err = refusal;
		status = judged;
	}
	if (status == PROTON_OK && tallies.file_count == 0) {
		err->text[0] = '\0'; /* a message was printed for each file */
		status = PROTON_E_INVALID;
	}
	if (status == PROTON_OK)
		status = comparison_check_found(&comparison, err);
	comparison.all->is_damaged |= input->left_out > 0;
	if (status == PROTON_OK) {
		show_tallies(&comparison, view, &tallies, input);
		input_report_losses(view->profile);
	}
	free(tallies.rows);
	comparison_end(&comparison);
	return status;
}
