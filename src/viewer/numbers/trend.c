/* A metric over many runs, for the history of a program. */
#include "viewer/numbers/compare.h"

#include <math.h>

#include "base/array.h"
#include "base/message.h"
#include "viewer/export/save.h"
#include "viewer/numbers/gate.h"
#include "viewer/numbers/repeats.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/derive.h"
#include "viewer/query/view.h"
#include "viewer/ranks/rank_job_input.h"

struct run {
	size_t unit; /* the input's */
	double value;
};

struct trend {
	const struct input *input;
	const char *metric;
	struct run *runs;
	size_t count;
	size_t found;                /* runs with the metric */
	struct proton_error missing; /* about the first run without it */
};

/* The metric of all selected kernels. Takes the profile. */
static int add_run(struct trend *trend, struct profile *profile, const struct options *options,
		   struct proton_error *err)
{
	AT_END(metric_column_fini) struct metric_column column = {0};
	struct proton_error missing = {0};
	AT_END(view_fini) struct view view;
	int status = view_init(&view, profile, options, err);

	if (status == PROTON_OK) {
		derive_column(&view.metrics, trend->metric, &column, &missing);
		if (!trend->missing.text[0])
			trend->missing = missing;
		trend->found += column.values != NULL;
		XADD(trend->runs, trend->count,
		     (struct run){trend->input->next - 1, column.values ? column.values[0] : NAN});
	}
	return status;
}

static double median_before(const struct trend *trend, size_t run)
{
	AUTO_FREE double *values = xcalloc(run + 1, sizeof(*values));
	size_t count = 0;

	for (size_t i = 0; i < run; i++)
		if (!isnan(trend->runs[i].value))
			values[count++] = trend->runs[i].value;
	double median = repeats_of(values, count, 0).median;
	return median;
}

static void write_trend(const void *context, struct report *report)
{
	const struct trend *trend = context;
	const struct report_field fields[] = {
		{.name = trend->metric,
		 .title = trend->metric,
		 .columns = 12,
		 .unit = REPORT_VALUE},
		{.name = "median before",
		 .title = "median before",
		 .columns = 14,
		 .unit = REPORT_VALUE},
		{.name = "change/%",
		 .title = "change/%",
		 .columns = 10,
		 .unit = REPORT_VALUE,
		 .has_sign = true},
		{.name = "run", .title = "run"},
	};

	report_begin(report, "rows", fields, ARRAY_LENGTH(fields));
	for (size_t i = 0; i < trend->count; i++) {
		const struct run *run = &trend->runs[i];
		double median = median_before(trend, i);
		const struct report_value values[] = {
			VALUE_NUMBER(run->value), VALUE_NUMBER(median),
			VALUE_NUMBER(change_percent(median, run->value)),
			VALUE_TEXT(trend->input->units[run->unit].name)};

		report_row(report, values);
	}
	report_end(report);
}

int trend_run(const struct options *options, struct input *input)
{
	struct trend trend = {
		.input = input,
		.metric = options->query.metric_count ? options->query.metrics[0] : "time/ms",
	};
	struct profile *empty = profile_new();
	struct profile *profile;
	struct proton_error err;
	int status = PROTON_OK;

	if (!empty)
		xgive_up();
	while (status == PROTON_OK && (profile = rank_input_next(input, false)) != NULL)
		status = add_run(&trend, profile, options, &err);
	if (status == PROTON_OK && trend.count && !trend.found)
		status = err_set(&err, PROTON_E_INVALID, "%s",
				 *trend.missing.text ? trend.missing.text
						     : "the metric is not numeric");
	if (status != PROTON_OK)
		message("%s", err.text);
	status = status != PROTON_OK || !trend.count || input_is_refused(input)
			 ? EXIT_BAD
			 : report_show(options, empty, write_trend, &trend);
	free(trend.runs);
	profile_free(empty);
	return status;
}
