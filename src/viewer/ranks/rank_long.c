/* --export long: a row per rank, frame and metric; --export parquet, which Python writes. */
#include "viewer/ranks/rank_views.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/message.h"
#include "format/csv_write.h"
#include "model/ranks.h"
#include "viewer/export/save.h"
#include "viewer/print/xalloc.h"
#include "viewer/ranks/rank_job_input.h"
#include "viewer/ranks/rank_numbers.h"
#include "viewer/ranks/rank_report.h"
#include "viewer/ranks/rank_scan.h"

/* ------------------------------------------------------------------ rows */

struct table {
	const struct options *options;
	const struct input *files;
	struct out *out;
	char **texts; /* by node of the sum: ",node,path,name," */
	size_t text_count;
	struct out start;  /* the first fields of a rank: "rank,host" */
	struct out metric; /* as a field */
	size_t metrics_found;
};

/* The fields of a node, which are the same in all ranks. */
static const char *text_of(struct table *table, const struct profile *sum, uint32_t node)
{
	while (table->text_count < sum->node_count) {
		uint32_t made = (uint32_t)table->text_count;
		AUTO_FREE char *path = rank_path(sum, made, NAMES_RAW);
		struct out name, text;
		size_t length;

		out_init(&name, -1);
		out_init(&text, -1);
		name_write(&name, sum, sum->nodes[made].frame, NAME_FULL);
		out_printf(&text, ",%u,", made);
		csv_quoted(&text, path, strlen(path));
		out_byte(&text, ',');
		csv_quoted(&text, name.bytes, name.length);
		out_byte(&text, ',');
		XADD(table->texts, table->text_count, out_take(&text, &length));
		if (!table->texts[made])
			xgive_up();
		out_fini(&name);
	}
	return table->texts[node];
}

/* A metric of a rank; `own` may be NULL. */
static void write_series(struct table *table, const struct rank_scan_step *step,
			 const double *values, const double *own)
{
	for (uint32_t i = 0; i < step->source->node_count && !table->out->errnum; i++) {
		double of_frame = own ? own[i] : NAN;

		/* Frames above and beside the recorded ones have zeros. */
		if (isnan(values[i]) || (values[i] == 0 && !(of_frame < 0 || of_frame > 0)))
			continue;
		out_bytes(table->out, table->start.bytes, table->start.length);
		out_text(table->out, text_of(table, step->sum, step->maps->nodes[i]));
		out_bytes(table->out, table->metric.bytes, table->metric.length);
		out_byte(table->out, ',');
		csv_number(table->out, values[i]);
		out_byte(table->out, ',');
		csv_number(table->out, of_frame);
		out_byte(table->out, '\n');
	}
}

static void write_metric(struct table *table, const struct rank_scan_step *step, const char *name)
{
	AT_END(metric_column_fini) struct metric_column column = {0}, own = {0};
	struct proton_error none;

	if (derive_column(step->metrics, name, &column, &none) == PROTON_OK && column.values) {
		bool has_own = column.is_additive &&
			       derive_own_column(step->metrics, name, &own, &none) == PROTON_OK;

		table->metric.length = 0;
		csv_quoted(&table->metric, name, strlen(name));
		write_series(table, step, column.values, has_own ? own.values : NULL);
		table->metrics_found++;
	}
}

static int write_rank(void *context, const struct rank_scan_step *step, struct proton_error *err)
{
	struct table *table = context;
	const struct query_options *query = &table->options->query;
	const char *host = profile_info_text(step->source, "host");
	const struct metrics *metrics = step->metrics;

	table->start.length = 0;
	out_printf(&table->start, "%u,", step->rank);
	csv_quoted(&table->start, host, strlen(host));
	for (size_t i = 0; i < query->metric_count; i++)
		write_metric(table, step, query->metrics[i]);
	for (size_t i = 0; i < metrics->count && !query->metric_count; i++)
		if (metrics->raws[i].source == RAW_NUMBER)
			write_metric(table, step, metrics->raws[i].label);
	return table->out->errnum ? err_errno(err, table->out->errnum, "cannot write the table")
				  : PROTON_OK;
}

static int write_table(const void *context, struct out *out, struct proton_error *err)
{
	struct table table = *(const struct table *)context;
	struct profile *sum = NULL;

	out->limit = 0; /* all ranks are one output */
	table.out = out;
	out_init(&table.start, -1);
	out_init(&table.metric, -1);
	out_text(out, "rank,host,node,path,name,metric,value,own\n");
	int status =
		rank_scan(table.files->paths, table.files->count, write_rank, &table, &sum, err);
	/* A reader that closes the pipe early is not an error. */
	if (out->errnum == EPIPE && status != PROTON_OK)
		status = PROTON_OK;
	else if (status == PROTON_OK && !table.metrics_found)
		status = err_set(err, PROTON_E_INVALID, "no rank has any of the metrics");
	if (sum)
		profile_free(sum);
	for (size_t i = 0; i < table.text_count; i++)
		free(table.texts[i]);
	free(table.texts);
	out_fini(&table.start);
	out_fini(&table.metric);
	return status;
}

/* ------------------------------------------------------------------ --export long */

int rank_long_run(const struct options *options, struct input *input)
{
	struct table table = {.options = options};
	struct proton_error err = {0};
	struct profile *merged = NULL;
	AT_END(input_fini) struct input files = {0};
	const char *what = options->output.exporter->name;
	int status = rank_input_job(input, false, what, &merged, &err);

	if (status == PROTON_OK)
		status = rank_input_files(input, merged, what, &files, &err);
	table.files = &files;
	if (status == PROTON_OK)
		status = save_output(&options->output, merged, write_table, &table, &err);
	if (status != PROTON_OK && err.text[0])
		message("%s", err.text);
	profile_free(merged);
	return status == PROTON_OK ? 0 : EXIT_BAD;
}

/* ------------------------------------------------------------------ --export parquet */

/* The Python that has the package: $PROTON_PYTHON, or the one next to this program, or python3. */
static char *find_python(const char *self)
{
	const char *named = environment_get("PROTON_PYTHON");
	const char *slash = strrchr(self, '/');

	if (named && *named)
		return xstrdup(named);
	char *path = xasprintf("%.*s/python3", slash ? (int)(slash - self) : 0, self);
	if (slash && access(path, X_OK) == 0)
		return path;
	free(path);
	return xstrdup("python3");
}

int rank_parquet_run(const struct options *options)
{
	const struct query_options *query = &options->query;
	char self[4096] = "proton-viewer";
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	size_t max = 16 + 2 * query->metric_count + query->path_count;
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
	const char **words = xcalloc(max, sizeof(*words)); /* ended by NULL */
	size_t count = 0;

	if (length > 0)
		self[length] = '\0';
	char *python = find_python(self);
	words[count++] = python;
	words[count++] = "-m";
	words[count++] = "triton_proton.parquet";
	words[count++] = "--viewer";
	words[count++] = self;
	words[count++] = "-o";
	words[count++] = options->output.path;
	if (query->allow_partial)
		words[count++] = "--allow-partial";
	if (query->allow_mixed)
		words[count++] = "--allow-mixed";
	if (options->output.no_clobber)
		words[count++] = "--no-clobber";
	for (size_t i = 0; i < query->metric_count; i++) {
		words[count++] = "--metric";
		words[count++] = query->metrics[i];
	}
	words[count++] = "--";
	for (size_t i = 0; i < query->path_count; i++)
		words[count++] = query->paths[i];
	execvp(python, (char **)(uintptr_t)words);
	message("cannot write Parquet: cannot run %s: %s; set PROTON_PYTHON to a Python with "
		"triton_proton and pyarrow",
		python, strerror(errno));
	free(words);
	free(python);
	return EXIT_BAD;
}
