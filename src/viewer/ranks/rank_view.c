/* --ranks: loads one or two jobs, makes the tables, checks gates, prints. */
#include "viewer/ranks/rank_views.h"

#include <math.h>
#include <stdio.h>

#include "base/array.h"
#include "base/message.h"
#include "model/ranks.h"
#include "viewer/export/save.h"
#include "viewer/numbers/gate.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/hiding.h"
#include "viewer/ranks/rank_job_input.h"
#include "viewer/ranks/rank_report.h"
#include "viewer/ranks/rank_scan.h"

/* ------------------------------------------------------------------ a job */

/* A job with a table per metric. */
struct job {
	struct profile *profile; /* merged */
	struct profile *sum;     /* the tree of metrics from the ranks' profiles */
	struct rank_rows *tables;
	size_t count;
};

static void job_fini(struct job *job)
{
	for (size_t i = 0; i < job->count; i++)
		rank_rows_fini(&job->tables[i]);
	free(job->tables);
	profile_free(job->sum);
	profile_free(job->profile);
	*job = (struct job){0};
}

/* Tables from the statistics of a merged file alone. False: it does not have all of them. */
static bool read_statistics(struct job *job, const char *const *metrics)
{
	for (size_t i = 0; i < job->count; i++)
		if (rank_time_divisor(metrics[i]) == 0 &&
		    !rank_rows_of_values(&job->tables[i], job->profile, metrics[i]))
			return false;
	message("the profiles of the ranks are not next to the merged file: only frames in which a "
		"metric was recorded are compared");
	return true;
}

/* Tables of metrics other than the kernel time, if possible from the profiles of the ranks. */
static int read_metrics(struct job *job, struct input *input, const char *const *metrics,
			struct proton_error *err)
{
	struct input files;
	size_t first = 0;

	while (first < job->count && rank_time_divisor(metrics[first]) > 0)
		first++;
	if (first == job->count)
		return PROTON_OK;
	int status = rank_input_files(input, job->profile, metrics[first], &files, err);
	if (status == PROTON_OK)
		status = rank_scan_metrics(files.paths, files.count, metrics, job->count,
					   job->tables, &job->sum, err);
	else if (rank_input_is_merged(input) && read_statistics(job, metrics))
		status = PROTON_OK;
	input_fini(&files);
	return status;
}

/*
 * Leaves out the rows of hidden frames. A row has the time below its frame, so the others stay as
 * they are; a folded tree would need statistics of sums, which a merged file does not have.
 */
static int drop_hidden(struct rank_rows *rows, const struct hiding *hiding,
		       struct proton_error *err)
{
	size_t kept = 0;
	size_t count;
	AUTO_FREE bool *is_hidden = NULL;

	TRY(hiding_find(hiding, rows->profile, &is_hidden, &count, err));
	for (size_t i = 0; i < rows->count; i++)
		if (!is_hidden[rows->items[i].node])
			rows->items[kept++] = rows->items[i];
	rows->count = kept;
	return PROTON_OK;
}

static int job_init(struct job *job, struct input *input, const struct query_options *query,
		    struct proton_error *err)
{
	static const char *const time[] = {"time/ms"};
	const char *const *metrics = query->metric_count ? query->metrics : time;

	TRY(rank_input_job(input, true, "--ranks", &job->profile, err));
	job->count = query->metric_count ? query->metric_count : 1;
	job->tables = xcalloc(job->count, sizeof(*job->tables));
	for (size_t i = 0; i < job->count; i++)
		if (rank_time_divisor(metrics[i]) > 0)
			rank_rows_of_time(&job->tables[i], job->profile, metrics[i]);
	int status = read_metrics(job, input, metrics, err);
	for (size_t i = 0; i < job->count && status == PROTON_OK; i++)
		status = drop_hidden(&job->tables[i], &query->hiding, err);
	return status;
}

/* ------------------------------------------------------------------ gates */

/*
 * The grammar of viewer/numbers/gate.h over the numbers of a table of frames:
 *
 *   imbalance > 10% in allreduce     maximum / mean - 1
 *   could_go/ms > 50                 (maximum - mean) x ranks
 *   mean/ms  min/ms  max/ms  ranks
 *
 * Another metric of -m has no unit: "max > 1e9".
 */

/* The number with this name, and what its values are divided by. RANK_NUMBERS: none. */
static enum rank_number find_rank_number(const char *name, const char *metric, double *divisor_out)
{
	size_t length = strcspn(name, "/");
	double ns = rank_time_divisor(metric);
	enum rank_number i = 0;
	char unit[16];

	while (i < RANK_NUMBERS && (strlen(rank_number_fields[i].name) != length ||
				    strncmp(name, rank_number_fields[i].name, length) != 0))
		i++;
	*divisor_out = 1;
	if (i == RANK_MIN_RANK || i == RANK_MAX_RANK)
		return RANK_NUMBERS;
	if (i == RANK_NUMBERS || rank_number_fields[i].unit != REPORT_VALUE || ns == 0)
		return name[length] ? RANK_NUMBERS : i;
	snprintf(unit, sizeof(unit), "time%s", name + length);
	*divisor_out = rank_time_divisor(unit) / ns;
	return *divisor_out > 0 ? i : RANK_NUMBERS;
}

/* The imbalance is in percent. */
static double number_in(const struct rank_row *row, enum rank_number number, double divisor)
{
	struct report_value values[RANK_NUMBERS];

	rank_numbers(row, values);
	return number == RANK_RANKS       ? row->ranks
	       : number == RANK_IMBALANCE ? 100 * values[number].as.number
					  : values[number].as.number / divisor;
}

static int check_percent(const struct gate *gate, struct proton_error *err)
{
	if (strcmp(gate->metric, "imbalance") != 0 || gate->kind != GATE_VALUE || gate->is_percent)
		return PROTON_OK;
	return err_set(err, PROTON_E_INVALID,
		       "--fail-if \"%.100s\": imbalance is in percent; write %s%%", gate->text,
		       gate->amount_text);
}

static double *unknown(size_t count)
{
	double *values = xcalloc(count, sizeof(*values));

	for (size_t i = 0; i < count; i++)
		values[i] = NAN;
	return values;
}

static int rank_gate_check(const struct gate *gate, const struct rank_rows *rows,
			   const struct rank_diff *diff, struct gate_result *result,
			   struct proton_error *err)
{
	size_t count = rows->profile->node_count;
	double divisor = 1;
	enum rank_number number = find_rank_number(gate->metric, rows->metric, &divisor);
	struct gate_numbers values = {.is_inclusive = rows->is_inclusive};
	double *after, *before;
	int status = check_percent(gate, err);

	*result = (struct gate_result){.gate = gate};
	if (number == RANK_NUMBERS)
		return err_set(err, PROTON_E_INVALID,
			       "--fail-if \"%.100s\": --ranks has no %.60s; available: imbalance, "
			       "ranks, and %s",
			       gate->text, gate->metric,
			       rank_time_divisor(rows->metric) > 0
				       ? "could_go/ms, mean/ms, min/ms, max/ms (or /s, /us, /ns)"
				       : "could_go, mean, min, max");
	if (status != PROTON_OK)
		return status;
	uint8_t *state = xcalloc(count, 1);
	values.label = gate->metric;
	values.after = after = unknown(count);
	for (size_t i = 0; i < rows->count; i++)
		after[rows->items[i].node] = number_in(&rows->items[i], number, divisor);
	values.before = before = diff ? unknown(count) : NULL;
	for (size_t i = 0; diff && i < diff->count; i++)
		if (diff->items[i].before.ranks && diff->items[i].after.ranks)
			before[diff->items[i].after.node] =
				number_in(&diff->items[i].before, number, divisor);
	status = gate_check(gate, rows->profile, state, &values, result, err);
	FREE_ALL(state, after, before);
	return status;
}

/* ------------------------------------------------------------------ output */

static void write_view(const void *context, struct report *report)
{
	const struct rank_report *view = context;

	if (view->diffs)
		rank_diff_write(view, report);
	else
		rank_write(view, report);
	if (report->format == REPORT_JSON && view->gates)
		gate_write_json(&report->json, view->gates, view->gate_count,
				view->tables[0].profile);
}

/* Checks the gates, prints, and reports the gates. */
static int judge_and_show(const struct options *options, struct rank_report *report)
{
	const struct query_options *query = &options->query;
	AUTO_FREE struct gate_result *results = xcalloc(query->gate_count, sizeof(*results));
	struct proton_error err;
	int status = 0;

	for (size_t i = 0; i < query->gate_count && status == 0; i++) {
		if (rank_gate_check(&query->gates[i], &report->tables[0], report->diffs,
				    &results[i], &err)) {
			message("%s", err.text);
			status = EXIT_BAD;
		}
	}
	report->gates = query->gate_count ? results : NULL;
	report->gate_count = query->gate_count;
	if (status == 0) {
		status = report_show(options, report->profile, write_view, report);
		for (size_t i = 0; i < query->gate_count; i++) {
			gate_report_result(&results[i], report->tables[0].profile);
			if (status == 0 && results[i].failed)
				status = EXIT_GATE;
		}
	}
	for (size_t i = 0; i < query->gate_count; i++)
		gate_result_fini(&results[i]);
	return status;
}

/* ------------------------------------------------------------------ --ranks */

/* False: a message was printed. */
static bool has_times(const struct job *job, const struct options *options)
{
	if (!job->tables[0].count && !options->output.exporter &&
	    !wait_report_is_there(job->profile)) {
		message("the ranks have no kernel times, which --ranks compares");
		return false;
	}
	return true;
}

static int report_job(const struct options *options, const struct job *job,
		      const struct job *before)
{
	AUTO_FREE struct rank_diff *diffs = xcalloc(job->count, sizeof(*diffs));
	AT_END(rank_groups_fini) struct rank_groups groups;
	struct rank_report view = {
		.profile = job->profile,
		.tables = job->tables,
		.table_count = job->count,
		.groups = &groups,
	};

	rank_groups_init(&groups, job->profile);
	for (size_t i = 0; before && i < job->count; i++)
		rank_diff_init(&diffs[i], &before->tables[i], &job->tables[i]);
	view.diffs = before ? diffs : NULL;
	int status = judge_and_show(options, &view);
	for (size_t i = 0; i < job->count; i++)
		rank_diff_fini(&diffs[i]);
	return status;
}

int rank_view_run(const struct options *options, struct input *input, struct input *base)
{
	AT_END(job_fini) struct job job = {0}, before = {0};
	struct proton_error err = {0};
	bool has_base = base->count > 0;
	int status = job_init(&job, input, &options->query, &err);

	if (status == PROTON_OK && has_base)
		status = job_init(&before, base, &options->query, &err);
	if (status != PROTON_OK && err.text[0])
		message("%s", err.text);
	if (status != PROTON_OK || !has_times(&job, options) ||
	    (has_base && !has_times(&before, options)))
		status = EXIT_BAD;
	else
		status = report_job(options, &job, has_base ? &before : NULL);
	return status;
}
