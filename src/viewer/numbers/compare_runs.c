/*
 * --diff: runs of FILE against runs of BASE, node by node. A side is one file, several runs of the
 * same program, or with --merge sum the sum of several files.
 */
#include <math.h>

#include "base/array.h"
#include "base/message.h"
#include "viewer/export/export_check.h"
#include "viewer/numbers/compare.h"
#include "viewer/numbers/repeats.h"
#include "viewer/numbers/why.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/filter.h"
#include "viewer/ranks/rank_job_input.h"

/* A value of one run. */
struct run_value {
	uint32_t node; /* of the union */
	uint32_t name; /* index of comparison->metrics */
	double value;
};

/* One side. Only existing values are stored, because the trees of runs may differ. */
struct runs {
	size_t count;
	struct run_value *entries; /* in the order of the runs */
	size_t entry_count;
	bool *has_node; /* by node of the union */
	size_t node_capacity;
	size_t job_count; /* runs that are jobs */
	/* The values by node and name; set when all runs are known. */
	double *values;
	size_t *first; /* index of `values` by node * name_count + name; one more at the end */
};

static void runs_fini(struct runs *runs)
{
	FREE_ALL(runs->entries, runs->has_node, runs->values, runs->first);
}

static void reserve_nodes(struct runs *runs, size_t count)
{
	size_t before = runs->node_capacity;

	xreserve(&runs->has_node, &runs->node_capacity, count, sizeof(bool));
	memset(runs->has_node + before, 0, runs->node_capacity - before);
}

static void take_values(struct comparison *comparison, const struct view *view,
			const struct metric_column *columns, const uint32_t *nodes, void *context)
{
	struct runs *runs = context;

	reserve_nodes(runs, comparison->all->node_count);
	for (size_t n = 0; n < view->profile->node_count; n++) {
		if (view->state[n] != NODE_GONE)
			runs->has_node[nodes[n]] = true;
		for (size_t i = 0; i < comparison->name_count; i++) {
			if (!columns[i].values || isnan(columns[i].values[n]))
				continue;
			XADD(runs->entries, runs->entry_count,
			     (struct run_value){nodes[n], (uint32_t)i, columns[i].values[n]});
		}
	}
	runs->job_count += view->profile->ranks != NULL;
	runs->count++;
}

/* E_INVALID with an empty message: a message was printed for each file. */
static int add_side(struct comparison *comparison, struct input *input, struct runs *runs,
		    struct why *why, enum why_side side, struct proton_error *err)
{
	bool is_sum = comparison->options->query.is_sum_asked_for;
	struct profile *profile;
	int status = PROTON_OK;

	while (status == PROTON_OK && (profile = is_sum ? rank_input_sum(input, false)
							: rank_input_next(input, false)) != NULL) {
		why_add(why, side, profile);
		status = comparison_add(comparison, profile, take_values, runs, err);
	}
	if (status == PROTON_OK && runs->count == 0) {
		err->text[0] = '\0';
		status = PROTON_E_INVALID;
	}
	return status;
}

/* ------------------------------------------------------------------ changes */

/* When all runs are known: groups the values by node and name. */
static void sort_values(const struct comparison *comparison, struct runs *runs)
{
	size_t names = comparison->name_count;
	size_t keys = comparison->all->node_count * names;
	size_t *first = xcalloc(keys + 2, sizeof(*first));

	reserve_nodes(runs, comparison->all->node_count);
	runs->values = xcalloc(runs->entry_count, sizeof(*runs->values));
	for (size_t i = 0; i < runs->entry_count; i++)
		first[runs->entries[i].node * names + runs->entries[i].name + 2]++;
	for (size_t k = 2; k < keys + 2; k++)
		first[k] += first[k - 1];
	/* Each entry advances the start of its key to the next free position. */
	for (size_t i = 0; i < runs->entry_count; i++) {
		const struct run_value *entry = &runs->entries[i];

		runs->values[first[entry->node * names + entry->name + 1]++] = entry->value;
	}
	runs->first = first;
	free(runs->entries);
	runs->entries = NULL;
}

/* A run without the node counts as 0 for additive metrics if another run of the side has it. */
static struct repeats repeats_at(const struct comparison *comparison, const struct runs *runs,
				 size_t name, size_t node)
{
	size_t key = node * comparison->name_count + name;
	size_t count = runs->first[key + 1] - runs->first[key];
	size_t zeros = count && comparison->metrics[name].is_additive ? runs->count - count : 0;

	return repeats_of(runs->values + runs->first[key], count, zeros);
}

enum change_column {
	COLUMN_BEFORE,
	COLUMN_AFTER,
	COLUMN_CHANGE, /* sorted by */
	COLUMN_PERCENT,
	COLUMNS_OF_ONE_RUN,
	COLUMN_LOW_PERCENT = COLUMNS_OF_ONE_RUN,
	COLUMN_HIGH_PERCENT,
	COLUMNS_OF_RUNS,
	COLUMN_LOW = COLUMNS_OF_RUNS,
	COLUMN_HIGH,
	COLUMN_MEDIAN_BEFORE,
	COLUMN_MEDIAN_AFTER,
	COLUMNS_FOR_PROGRAMS,
};

static const char *const column_names[] = {
	[COLUMN_BEFORE] = "before",
	[COLUMN_AFTER] = "after",
	[COLUMN_CHANGE] = "change",
	[COLUMN_PERCENT] = "change/%",
	[COLUMN_LOW_PERCENT] = "low/%",
	[COLUMN_HIGH_PERCENT] = "high/%",
	[COLUMN_LOW] = "low",
	[COLUMN_HIGH] = "high",
	[COLUMN_MEDIAN_BEFORE] = "median before",
	[COLUMN_MEDIAN_AFTER] = "median after",
};

/* Change of a value between the sides, by column; NAN: no value, or unknown. */
struct change {
	double number[COLUMNS_FOR_PROGRAMS];
};

static void add_percents(struct change *change)
{
	double *number = change->number;

	number[COLUMN_LOW_PERCENT] = share_percent(number[COLUMN_LOW], number[COLUMN_BEFORE]);
	number[COLUMN_HIGH_PERCENT] = share_percent(number[COLUMN_HIGH], number[COLUMN_BEFORE]);
}

static struct change change_at(const struct comparison *comparison, const struct runs *base,
			       const struct runs *file, size_t name, size_t node)
{
	struct repeats before = repeats_at(comparison, base, name, node);
	struct repeats after = repeats_at(comparison, file, name, node);
	bool is_additive = comparison->metrics[name].is_additive;
	bool is_zero = is_additive && comparison->metrics[name].is_inclusive;
	struct change change;
	double *number = change.number;

	number[COLUMN_BEFORE] = is_zero && !before.count ? 0 : before.mean;
	number[COLUMN_AFTER] = is_zero && !after.count ? 0 : after.mean;
	number[COLUMN_MEDIAN_BEFORE] = is_zero && !before.count ? 0 : before.median;
	number[COLUMN_MEDIAN_AFTER] = is_zero && !after.count ? 0 : after.median;
	/* An additive value that only one side has changes as a whole. */
	if (is_additive && !before.count && (after.count || is_zero))
		before = repeats_of(NULL, 0, base->count);
	if (is_additive && !after.count && before.count)
		after = repeats_of(NULL, 0, file->count);
	number[COLUMN_CHANGE] = after.mean - before.mean;
	number[COLUMN_PERCENT] = change_percent(before.mean, after.mean);
	if (!isfinite(number[COLUMN_PERCENT]))
		number[COLUMN_PERCENT] = NAN;
	if (!repeats_interval(&before, &after, &number[COLUMN_LOW], &number[COLUMN_HIGH]))
		number[COLUMN_LOW] = number[COLUMN_HIGH] = NAN;
	add_percents(&change);
	return change;
}

static struct change without_noise(struct change change)
{
	static const enum change_column rounded[] = {COLUMN_CHANGE, COLUMN_LOW, COLUMN_HIGH};
	double *number = change.number;
	/* fmax() skips NAN */
	double scale = fmax(fabs(number[COLUMN_BEFORE]), fabs(number[COLUMN_AFTER]));

	for (size_t i = 0; i < ARRAY_LENGTH(rounded); i++)
		number[rounded[i]] = difference_without_noise(number[rounded[i]], scale);
	if (number[COLUMN_CHANGE] == 0)
		number[COLUMN_PERCENT] = 0;
	add_percents(&change);
	return change;
}

/* ------------------------------------------------------------------ columns */

static const enum change_column of_gate[] = {COLUMN_BEFORE, COLUMN_AFTER, COLUMN_LOW, COLUMN_HIGH};
#define COLUMNS_OF_GATE ARRAY_LENGTH(of_gate)

static void add_metric(const struct comparison *comparison, struct view *view, size_t name,
		       struct runs *base, struct runs *file)
{
	bool is_for_programs = comparison->is_exact;
	bool has_runs = base->count > 1 || file->count > 1;
	size_t count = !has_runs         ? COLUMNS_OF_ONE_RUN
		       : is_for_programs ? COLUMNS_FOR_PROGRAMS
					 : COLUMNS_OF_RUNS;
	struct metric_column *columns[COLUMNS_FOR_PROGRAMS];
	struct metric_column *verdict = NULL;
	bool is_time = verdict_is_time(comparison->metrics[name].label);

	for (size_t c = 0; c < count; c++)
		columns[c] = comparison_column(comparison, view, name, column_names[c]);
	columns[COLUMN_BEFORE]->is_additive = comparison->metrics[name].is_additive;
	columns[COLUMN_AFTER]->is_additive = comparison->metrics[name].is_additive;
	if (has_runs)
		verdict = comparison_words(view,
					   xasprintf("%s verdict", comparison->metrics[name].label),
					   verdict_words);
	for (size_t n = 0; n < view->profile->node_count; n++) {
		struct change change = change_at(comparison, base, file, name, n);
		struct change clean = without_noise(change);
		const struct change *shown = is_for_programs ? &change : &clean;

		for (size_t c = 0; c < count; c++)
			columns[c]->values[n] = shown->number[c];
		if (verdict)
			verdict->word[n] = isnan(clean.number[COLUMN_LOW])
						   ? WORD_NONE
						   : verdict_of(clean.number[COLUMN_LOW],
								clean.number[COLUMN_HIGH], is_time);
	}
}

/* The slowest rank and the imbalance of both sides, if each run is a job. */
static const struct {
	const char *name;
	size_t metric; /* 0 is the first of RANK_METRICS */
	bool is_after, is_rank;
} rank_columns[] = {
	{"slowest before", 0, false, false},   {"slowest after", 0, true, false},
	{"slowest rank", 1, true, true},       {"imbalance/% before", 2, false, false},
	{"imbalance/% after", 2, true, false},
};
#define RANK_COLUMNS ARRAY_LENGTH(rank_columns)

/* A rank is that of the last run: there is no mean of ranks. */
static double last_value(const struct comparison *comparison, const struct runs *runs, size_t name,
			 size_t node)
{
	const size_t *first = runs->first + node * comparison->name_count + name;

	return first[1] > first[0] ? runs->values[first[1] - 1] : NAN;
}

static void add_ranks(const struct comparison *comparison, struct view *view,
		      const struct runs *base, const struct runs *file)
{
	size_t names = comparison->gate_end;
	size_t count = view->profile->node_count;

	if (!comparison->rank_count || base->job_count < base->count ||
	    file->job_count < file->count)
		return;
	for (size_t i = 0; i < RANK_COLUMNS; i++) {
		struct metric_column *column = &view->columns[view->column_count++];
		const struct runs *runs = rank_columns[i].is_after ? file : base;
		size_t name = names + rank_columns[i].metric;

		*column = (struct metric_column){.name = xstrdup(rank_columns[i].name),
						 .which = rank_columns[i].name,
						 .is_inclusive = true,
						 .values = xcalloc(count, sizeof(double))};
		if (rank_columns[i].is_rank) /* without decimals */
			column->exact = xcalloc(count, sizeof(*column->exact));
		for (size_t n = 0; n < count; n++) {
			column->values[n] = rank_columns[i].is_rank
						    ? last_value(comparison, runs, name, n)
						    : repeats_at(comparison, runs, name, n).mean;
			if (column->exact && !isnan(column->values[n]))
				column->exact[n] = (int64_t)column->values[n];
		}
	}
}

static const char *const standings[] = {"new", "gone"};

static void add_standing(struct view *view, const struct runs *base, const struct runs *file)
{
	struct metric_column *column = comparison_words(view, xstrdup("path"), standings);

	for (size_t n = 0; n < view->profile->node_count; n++) {
		bool was = base->has_node[n];
		bool is = file->has_node[n];

		column->word[n] = was == is ? WORD_NONE : was;
	}
}

/* Columns that are tested but not printed. */
static void add_hidden(const struct comparison *comparison, struct view *view,
		       const struct runs *base, const struct runs *file)
{
	size_t gates = comparison->first_gate;

	for (size_t i = comparison->shown_count; i < comparison->gate_end; i++) {
		size_t count = i < gates ? 1 : COLUMNS_OF_GATE;
		double *values[COLUMNS_OF_GATE];

		for (size_t c = 0; c < count; c++)
			values[c] = comparison_column(comparison, view, i, "hidden")->values;
		for (size_t n = 0; n < view->profile->node_count; n++) {
			struct change change = change_at(comparison, base, file, i, n);

			/* A threshold applies to the change. */
			if (i < gates)
				values[0][n] = change.number[COLUMN_AFTER] -
					       change.number[COLUMN_BEFORE];
			for (size_t c = 0; i >= gates && c < count; c++)
				values[c][n] = change.number[of_gate[c]];
		}
		if (i < gates)
			continue;
		comparison_gate(comparison, view, i,
				&(struct gate_numbers){.before = values[0],
						       .after = values[1],
						       .low = values[2],
						       .high = values[3]});
	}
}

/* ------------------------------------------------------------------ the whole */

int compare_check_sums(const struct options *options, const struct input *base,
		       const struct input *input, struct proton_error *err)
{
	size_t before = base->unit_count - base->left_out - base->copies;
	size_t after = input->unit_count - input->left_out - input->copies;
	bool is_export = output_is_export(&options->output);
	bool is_report = is_export && !export_is_of_columns(options);

	if (before != after && (options->query.is_sum_asked_for || is_report))
		return err_set(err, PROTON_E_INVALID,
			       "%s cannot compare the sum of %zu files with the sum of %zu "
			       "baseline files%s",
			       is_report ? "this report" : "--merge sum", after, before,
			       is_report ? "" : "; omit it to compare means");
	if (is_report && before > 1 && !options->query.is_sum_asked_for)
		return err_set(err, PROTON_E_INVALID,
			       "this report shows sums of several files, not means; add --merge "
			       "sum, or use csv");
	return PROTON_OK;
}

static bool has_relative_gate(const struct options *options)
{
	for (size_t i = 0; i < options->query.gate_count; i++) {
		if (options->query.gates[i].kind != GATE_VALUE)
			return true;
	}
	return false;
}

static void report_one_run(const struct options *options, const struct runs *base,
			   const struct runs *file)
{
	if ((base->count > 1 && file->count > 1) ||
	    (base->count == file->count && !has_relative_gate(options)))
		return;
	message("one run%s: cannot estimate noise; give several runs of each side",
		base->count == file->count ? " of each side"
		: base->count == 1         ? " of the baseline"
					   : "");
}

/* NULL: the first metric is not a time. */
static char *explain(const struct comparison *comparison, const struct why *why, struct runs *base,
		     struct runs *file)
{
	if (!comparison->shown_count || !verdict_is_time(comparison->metrics[0].label))
		return NULL;
	struct change change = without_noise(change_at(comparison, base, file, 0, 0));
	if (isnan(change.number[COLUMN_LOW]))
		return why_sentence(why, WHY_NOISE_UNKNOWN);
	return why_sentence(why, verdict_of(change.number[COLUMN_LOW], change.number[COLUMN_HIGH],
					    true) == VERDICT_NOISE
					 ? WHY_NOISE_ONLY
					 : WHY_NOISE_NOT);
}

static void show_runs(struct comparison *comparison, struct view *view, const struct why *why,
		      struct runs *base, struct runs *file)
{
	sort_values(comparison, base);
	sort_values(comparison, file);
	comparison_take_union(comparison, view,
			      (COLUMNS_FOR_PROGRAMS + 1) * comparison->name_count + 1 +
				      RANK_COLUMNS);
	for (size_t i = 0; i < comparison->shown_count; i++)
		add_metric(comparison, view, i, base, file);
	add_ranks(comparison, view, base, file);
	add_standing(view, base, file);
	view->shown_count = view->column_count;
	view->sort_column = comparison->shown_count ? COLUMN_CHANGE : 0;
	view->by_magnitude = true;
	view->base_runs = base->count;
	view->runs = file->count;
	view->why = explain(comparison, why, base, file);
	add_hidden(comparison, view, base, file);
}

int compare_runs(struct view *view, struct input *base, struct input *input,
		 const struct options *options, struct proton_error *err)
{
	struct comparison comparison;
	struct runs before = {0}, after = {0};
	AT_END(why_fini) struct why why = {0};

	*view = (struct view){0};
	comparison_begin(&comparison, options);
	int status = add_side(&comparison, base, &before, &why, WHY_BEFORE, err);
	if (status == PROTON_OK)
		status = add_side(&comparison, input, &after, &why, WHY_AFTER, err);
	if (status == PROTON_OK)
		status = compare_check_sums(options, base, input, err);
	if (status == PROTON_OK)
		status = comparison_check_found(&comparison, err);
	comparison.all->is_damaged |= base->left_out || input->left_out;
	if (status == PROTON_OK) {
		show_runs(&comparison, view, &why, &before, &after);
		if (!input_is_refused(base) && !input_is_refused(input)) {
			input_report_losses(view->profile);
			report_one_run(options, &before, &after);
		}
	}
	runs_fini(&before);
	runs_fini(&after);
	comparison_end(&comparison);
	return status;
}
