/* The table of output formats of proton-viewer. */
#include "viewer/export/exporters.h"

#include <stdio.h>
#include <strings.h>

#include "base/array.h"
#include "export/export.h"
#include "export/export_view.h"
#include "model/save_profile.h"

/* clang-format off: one row per format */
static const struct exporter exporters[] = {
	{"html", "html", "report for a browser, in one file", EXPORTS_REPORT,
	 .write_view = export_html},
	{"folded", "folded", "stacks for flamegraph.pl and inferno", EXPORTS_VIEW,
	 .needs_weight = true, .takes_one = true, .has_paths = true, .write_view = export_folded},
	{"speedscope", "speedscope.json", "flame graph for www.speedscope.app", EXPORTS_VIEW,
	 .needs_weight = true, .has_paths = true, .write_view = export_speedscope},
	{"pprof", "pb.gz", "for pprof and readers of its profiles", EXPORTS_VIEW, .is_binary = true,
	 .needs_weight = true, .has_paths = true, .write_view = export_pprof},
	{"csv", "csv", "CSV with paths, inclusive and exclusive values", EXPORTS_VIEW,
	 .has_paths = true, .write_view = export_csv},
	{"table", NULL, "the printed tree or table as CSV", EXPORTS_TABLE, .format = REPORT_CSV},
	{"json", "json", "the printed tree or table as one JSON object", EXPORTS_TABLE,
	 .format = REPORT_JSON},
	{"markdown", "md", "the largest rows as a table for a pull request", EXPORTS_TABLE,
	 .format = REPORT_MARKDOWN},
	{EXPORT_HATCHET, "tree for hatchet and the viewers (JSON)", EXPORTS_PROFILE,
	 .write = export_hatchet},
	{EXPORT_MSGPACK, "the same in MessagePack", EXPORTS_PROFILE, .write = export_msgpack},
	{EXPORT_CHROME_TRACE, "timeline for chrome://tracing", EXPORTS_TRACE,
	 .write = export_chrome_trace, .write_part = export_chrome_part},
	{"chrome_gzip", "json.gz", "the same, compressed", EXPORTS_TRACE, .is_binary = true,
	 .write = export_chrome_gzip, .write_part = export_chrome_part},
	{EXPORT_PERFETTO, "timeline for ui.perfetto.dev", EXPORTS_TRACE, .write = export_perfetto,
	 .write_part = export_perfetto_part},
	{"ranks", "ranks.proton", "one profile of all ranks, as of proton-merge", EXPORTS_JOB,
	 .is_binary = true, .write = profile_save},
	{"long", NULL, "a CSV line per rank, frame and metric", EXPORTS_RANKS, .is_binary = false},
	{EXPORT_PARQUET, "parquet", "the same for DuckDB, Polars, Spark; needs pyarrow",
	 EXPORTS_RANKS, .is_binary = true},
};
/* clang-format on */

static int refuse_format(struct proton_error *err, const char *what, const char *value)
{
	char known[300] = "";
	size_t used = 0;

	for (size_t i = 0; i < ARRAY_LENGTH(exporters) && used < sizeof(known); i++)
		used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", i ? ", " : "",
					 exporters[i].name);
	return err_set(err, PROTON_E_INVALID, "%s '%.200s'; known: %s", what, value, known);
}

static const struct exporter *find_exporter(const char *name, struct proton_error *err)
{
	for (size_t i = 0; i < ARRAY_LENGTH(exporters); i++)
		if (strcasecmp(name, exporters[i].name) == 0)
			return &exporters[i];
	refuse_format(err, "unknown export format", name);
	return NULL;
}

/* The format that the suffix of a path selects. */
static const struct exporter *exporter_of_path(const char *path, struct proton_error *err)
{
	size_t length = strlen(path);

	for (size_t i = 0; i < ARRAY_LENGTH(exporters); i++) {
		const char *suffix = exporters[i].suffix;
		size_t end = suffix ? strlen(suffix) : 0;

		if (suffix && length > end + 1 && path[length - end - 1] == '.' &&
		    strcasecmp(path + length - end, suffix) == 0)
			return &exporters[i];
	}
	refuse_format(err, "cannot infer an export format from", path);
	return NULL;
}

void exporters_print(void)
{
	printf("\nFormats of --export, with the suffix that selects them:\n");
	for (size_t i = 0; i < ARRAY_LENGTH(exporters); i++)
		printf("  %-15s  %s%s%s%s\n", exporters[i].name, exporters[i].help,
		       exporters[i].suffix ? " (." : "",
		       exporters[i].suffix ? exporters[i].suffix : "",
		       exporters[i].suffix ? ")" : "");
}

/* ------------------------------------------------------------------ options */

/* --csv and --json are aliases: each is --export with one of the formats. */
static enum options_result choose_format(struct output_options *output, const char *option,
					 const char *name, struct proton_error *err)
{
	const char *before = output->option;

	if (before && strcmp(before, option) != 0)
		return OPTIONS_REFUSE(err, "Cannot specify both %s and %s", before, option);
	output->option = option;
	output->exporter = find_exporter(name, err);
	return output->exporter ? OPTIONS_RUN : OPTIONS_BAD;
}

static enum options_result parse_export(void *into, const char *value, struct proton_error *err)
{
	return choose_format(into, "--export", value, err);
}

static enum options_result parse_csv(void *into, const char *value, struct proton_error *err)
{
	return choose_format(into, "--csv", "table", err);
}

static enum options_result parse_json(void *into, const char *value, struct proton_error *err)
{
	return choose_format(into, "--json", "json", err);
}

#define MEMBER(name) .member = offsetof(struct output_options, name)

/* clang-format off: one row per option */
static const struct option_row rows[] = {
	{.help = "Output"},
	{0, "export", "FORMAT", "write in a format of the list below", .parse = parse_export},
	{0, "csv", NULL, "alias of --export table", .parse = parse_csv},
	{0, "json", NULL, "alias of --export json", .parse = parse_json},
	{'o', "output", "FILE", "write to FILE; its suffix selects the format", MEMBER(path)},
	{0, "no-clobber", NULL, "do not replace an existing FILE of -o", MEMBER(no_clobber)},
};
/* clang-format on */

struct option_table output_options_init(struct output_options *output)
{
	*output = (struct output_options){0};
	return (struct option_table){rows, ARRAY_LENGTH(rows), output};
}

enum options_result output_options_finish(struct output_options *output, struct proton_error *err)
{
	if (output->path && !output->exporter) {
		output->option = "--export";
		output->exporter = exporter_of_path(output->path, err);
		if (!output->exporter)
			return OPTIONS_BAD;
	}
	if (output->path && strcmp(output->path, "-") == 0)
		output->path = NULL;
	return OPTIONS_RUN;
}
