/* --ranks: loads one or two jobs, makes the tables, checks gates, prints. */
#include "viewer/ranks/rank_views.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/message.h"
#include "model/ranks.h"
#include "viewer/export/report_show.h"
#include "viewer/numbers/gate.h"
#include "viewer/numbers/gate_report.h"
#include "viewer/print/xalloc.h"
#include "viewer/ranks/rank_diff.h"
#include "viewer/ranks/rank_job_input.h"
#include "viewer/ranks/rank_report.h"
#include "viewer/ranks/rank_scan.h"
#include "viewer/ranks/wait_report.h"

#define EXIT_BAD 2
#define EXIT_GATE 3

/* ------------------------------------------------------------------ a job */

/* A job with a table per metric. */
struct job {
	struct profile *profile; /* merged */
	struct profile *sum;     /* the tree of metrics from the ranks' profiles */
	struct rank_rows *tables;
	size_t count;
	bool is_merged; /* the input is a merged file */
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
static bool read_statistics(const struct profile *merged, const char *const *metrics, size_t count,
			    struct rank_rows *tables)
{
	size_t found = 0;

	while (found < count && rank_rows_of_values(&tables[found], merged, metrics[found]))
		found++;
	if (found == count) {
		message("the profiles of the ranks are not next to the merged file: only frames in "
			"which a metric was recorded are compared");
		return true;
	}
	for (size_t i = 0; i <= found; i++)
		rank_rows_fini(&tables[i]);
	return false;
}

/* Tables of metrics other than the kernel time, if possible from the profiles of the ranks. */
static int read_metrics(struct job *job, struct input *input, const char *const *metrics,
			struct proton_error *err)
{
	const char **others = xcalloc(job->count, sizeof(*others));
	struct rank_rows *tables = xcalloc(job->count, sizeof(*tables));
	struct input files = {0};
	size_t count = 0;
	int status = PROTON_OK;

	for (size_t i = 0; i < job->count; i++)
		if (rank_time_divisor(metrics[i]) == 0)
			others[count++] = metrics[i];
	if (count)
		status = rank_input_files(input, job->is_merged, others[0], &files, err);
	if (count && status == PROTON_OK)
		status = rank_scan_metrics(files.paths, files.count, others, count, tables,
					   &job->sum, err);
	else if (count && job->is_merged && read_statistics(job->profile, others, count, tables))
		status = PROTON_OK;
	input_fini(&files);
	count = 0;
	for (size_t i = 0; i < job->count; i++)
		if (rank_time_divisor(metrics[i]) == 0)
			job->tables[i] = tables[count++];
	free(others);
	free(tables);
	return status;
}

static int job_init(struct job *job, struct input *input, const struct query_options *query,
		    struct proton_error *err)
{
	int status = rank_input_load(input, &job->profile, &job->is_merged, err);

	if (status != PROTON_OK)
		return status;
	job->count = query->metric_count ? query->metric_count : 1;
	job->tables = xcalloc(job->count, sizeof(*job->tables));
	if (!query->metric_count) {
		rank_rows_of_time(&job->tables[0], job->profile, "time/ms");
		return PROTON_OK;
	}
	for (size_t i = 0; i < query->metric_count; i++)
		if (rank_time_divisor(query->metrics[i]) > 0)
			rank_rows_of_time(&job->tables[i], job->profile, query->metrics[i]);
	return read_metrics(job, input, query->metrics, err);
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

static double percent_of(const struct rank_row *row)
{
	return 100 * rank_row_imbalance(row);
}

static double ranks_of_row(const struct rank_row *row)
{
	return row->ranks;
}

static const struct number {
	const char *name;
	bool has_unit; /* that of the metric */
	double (*of)(const struct rank_row *row);
} numbers[] = {
	{"imbalance", false, percent_of}, {"could_go", true, rank_row_saving},
	{"mean", true, rank_row_mean},    {"min", true, rank_row_min},
	{"max", true, rank_row_max},      {"ranks", false, ranks_of_row},
};

/* The number with this name, and what its values are divided by. NULL: none. */
static const struct number *find_rank_number(const char *name, const char *metric,
					     double *divisor_out)
{
	size_t length = strcspn(name, "/");
	double ns = rank_time_divisor(metric);
	char unit[16];
	double wanted;

	for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++) {
		if (strlen(numbers[i].name) != length ||
		    strncmp(name, numbers[i].name, length) != 0)
			continue;
		*divisor_out = 1;
		if (!numbers[i].has_unit || ns == 0)
			return name[length] ? NULL : &numbers[i];
		snprintf(unit, sizeof(unit), "time%s", name + length);
		wanted = rank_time_divisor(unit);
		*divisor_out = wanted / ns;
		return wanted > 0 ? &numbers[i] : NULL;
	}
	return NULL;
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
	const struct number *number = find_rank_number(gate->metric, rows->metric, &divisor);
	struct gate_numbers values = {.is_inclusive = rows->is_inclusive};
	double *after;
	double *before;
	uint8_t *state;
	int status = check_percent(gate, err);

	*result = (struct gate_result){.gate = gate};
	if (!number)
		return err_set(err, PROTON_E_INVALID,
			       "--fail-if \"%.100s\": --ranks has no %.60s; available: imbalance, "
			       "ranks, and %s",
			       gate->text, gate->metric,
			       rank_time_divisor(rows->metric) > 0
				       ? "could_go/ms, mean/ms, min/ms, max/ms (or /s, /us, /ns)"
				       : "could_go, mean, min, max");
	if (status != PROTON_OK)
		return status;
	state = xcalloc(count, 1);
	values.label = gate->metric;
	values.after = after = unknown(count);
	for (size_t i = 0; i < rows->count; i++)
		after[rows->items[i].node] = number->of(&rows->items[i]) / divisor;
	values.before = before = diff ? unknown(count) : NULL;
	for (size_t i = 0; diff && i < diff->count; i++)
		if (diff->items[i].before.ranks && diff->items[i].after.ranks)
			before[diff->items[i].after.node] = number->of(&diff->items[i].before) /
							    divisor;
	status = gate_check(gate, rows->profile, state, &values, result, err);
	free(state);
	free(after);
	free(before);
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
	struct gate_result *results = xcalloc(query->gate_count, sizeof(*results));
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
	free(results);
	return status;
}

/* ------------------------------------------------------------------ --ranks */

/* The option that needs complete profiles; NULL: none. */
static const char *strict_option(const struct options *options)
{
	return options->query.allow_partial ? NULL
	       : options->query.gate_count  ? "--fail-if"
	       : options->query.base        ? "--diff"
	       : options->output.exporter   ? options->output.option
					    : NULL;
}

/* False: a message was printed. */
static bool is_accepted(const struct job *job, const struct options *options)
{
	const char *strict = strict_option(options);

	if (!rank_report_state(job->profile) && strict) {
		message("%s needs complete profiles; use --allow-partial to accept these", strict);
		return false;
	}
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
	struct rank_diff *diffs = xcalloc(job->count, sizeof(*diffs));
	struct rank_groups groups;
	struct rank_report view = {
		.profile = job->profile,
		.tables = job->tables,
		.table_count = job->count,
		.groups = &groups,
	};
	int status;

	rank_groups_init(&groups, job->profile, "time/ms");
	for (size_t i = 0; before && i < job->count; i++)
		rank_diff_init(&diffs[i], &before->tables[i], &job->tables[i]);
	view.diffs = before ? diffs : NULL;
	status = judge_and_show(options, &view);
	for (size_t i = 0; i < job->count; i++)
		rank_diff_fini(&diffs[i]);
	free(diffs);
	rank_groups_fini(&groups);
	return status;
}

int rank_view_run(const struct options *options, struct input *input, struct input *base)
{
	struct job job = {0};
	struct job before = {0};
	struct proton_error err = {0};
	bool has_base = base->count > 0;
	int status = job_init(&job, input, &options->query, &err);

	if (status == PROTON_OK && has_base)
		status = job_init(&before, base, &options->query, &err);
	if (status != PROTON_OK && err.text[0])
		message("%s", err.text);
	if (status != PROTON_OK || !is_accepted(&job, options) ||
	    (has_base && !is_accepted(&before, options)))
		status = EXIT_BAD;
	else
		status = report_job(options, &job, has_base ? &before : NULL);
	job_fini(&job);
	job_fini(&before);
	return status;
}
