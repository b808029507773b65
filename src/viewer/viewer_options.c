/* Command-line options of proton-viewer: parsing, checks of combinations, and help. */
#include "viewer/viewer_options.h"

#include <getopt.h>
#include <stdio.h>
#include <unistd.h>

#include <libproton/proton.h>

#include "base/array.h"
#include "base/message.h"
#include "viewer/export/export_check.h"

static const char usage[] =
	"usage: proton-viewer [OPTIONS] FILE|DIRECTORY...    (-: standard input)\n"
	"\n"
	"Print profiles as a tree or a table. Several files are merged; a directory\n"
	"NAME.ranks, the profiles of a job's ranks, as by proton-merge.\n";

static const char examples[] =
	"\n"
	"Metrics: time/U, avg_time/U, min_time/U, max_time/U, p50_time/U, p90_time/U,\n"
	"  p99_time/U, cpu_time/U, avg_cpu_time/U (U: s, ms, us or ns), util,\n"
	"  launch_config, [g|t]flop[4|8|16|32|64]/s, [g|t]byte/s,\n"
	"  memory_[g|t]byte/s, bound, dram_gbyte/s, l2_gbyte/s, occupancy (counters),\n"
	"  METRIC/%, and every recorded name\n"
	"\n"
	"Examples:\n"
	"  proton-viewer -m time/ms,tflop16/s,util -t 0.1 -i attention proton.hatchet\n"
	"  proton-viewer --diff old.hatchet --fail-if 'time > +5%' new.hatchet\n";

static const char *const formats[] = {
	[NAME_FULL] = "full",
	[NAME_FILE_FUNCTION_LINE] = "file_function_line",
	[NAME_FUNCTION_LINE] = "function_line",
	[NAME_FILE_FUNCTION] = "file_function",
	NULL,
};
static const char *const styles[] = {
	[NAMES_RAW] = "raw", [NAMES_FULL] = "full", [NAMES_SHORT] = "short", NULL};
static const char *const colors[] = {
	[COLOR_AUTO] = "auto", [COLOR_ALWAYS] = "always", [COLOR_NEVER] = "never", NULL};

#define STYLE(name) .member = offsetof(struct style_options, name)

/* clang-format off: one row per option */
static const struct option_row style_rows[] = {
	{.help = "Style"},
	{'f', "format", "FORMAT",
	 "source frames: full (default), file_function_line,\n"
	 "function_line or file_function",
	 STYLE(format), formats},
	{0, "names", "STYLE", "C++ names: short, full or raw", STYLE(names), styles,
	 .given = offsetof(struct style_options, has_names)},
	{0, "print-sorted", NULL, "after the tree, print all frames by the first metric",
	 STYLE(print_sorted)},
	{0, "all", NULL, "on a terminal: print all frames of a large tree", STYLE(all)},
	{0, "color", "WHEN", "auto (default), always or never", STYLE(color), colors},
	{0, "no-pager", NULL, "on a terminal: do not start a pager", STYLE(no_pager)},
};
static const struct option_row other_rows[] = {
	{.help = "Other"},
	{'h', "help", .help = "print this help"},
	OPTION_COMPLETION,
	OPTION_VERSION,
};
/* clang-format on */

static void print_help(const struct option_table *tables, size_t count)
{
	fputs(usage, stdout);
	options_print(tables, count);
	exporters_print();
	fputs(examples, stdout);
}

/* True if an option is given that --ranks does not have. */
static bool is_more_than_ranks(const struct options *options)
{
	const struct query_options *query = &options->query;

	return query->mode != VIEW_TREE || query->brief || query->warps || query->source ||
	       query->include || query->exclude || query->list || query->has_threshold ||
	       query->threshold_count || query->merge_how != MERGE_SUM ||
	       options->style.print_sorted || output_is_export(&options->output);
}

static enum options_result check_ranks(const struct options *options, struct proton_error *err)
{
	const struct query_options *query = &options->query;

	if ((query->ranks || query->ranks_of) + (query->rank != RANK_NONE) > 1)
		return OPTIONS_REFUSE(err, "Cannot specify both --rank and %s",
				      query->ranks ? "--ranks" : "--ranks-of");
	if (query->ranks_of &&
	    (query->ranks || query->metric_count || query->base || hiding_option(&query->hiding) ||
	     query->gate_count || is_more_than_ranks(options)))
		return OPTIONS_REFUSE(err, "--ranks-of can be combined only with -n, --csv, "
					   "--json, -o, --allow-partial and "
					   "--allow-mixed");
	if (query->ranks && output_is_export(&options->output))
		return OPTIONS_REFUSE(
			err,
			"--ranks prints tables, as text, --csv or --json; for %s omit "
			"--ranks: a report of a job has its ranks",
			options->output.exporter->name);
	if (query->ranks && is_more_than_ranks(options))
		return OPTIONS_REFUSE(err, "--ranks can be combined only with -m, -n, --diff, "
					   "--fail-if, --frames, --hide, --show, --csv, --json, "
					   "-o, --allow-partial and --allow-mixed");
	return OPTIONS_RUN;
}

static enum options_result check_trend(const struct options *options, struct proton_error *err)
{
	const struct query_options *query = &options->query;

	if (query->trend &&
	    (query->mode != VIEW_FLAT || query->group_by != REGROUP_KERNEL || query->warps ||
	     query->source || query->list || query->base || query->gate_count || query->ranks ||
	     query->ranks_of || query->rank != RANK_NONE || query->merge_how != MERGE_SUM ||
	     query->metric_count > 1 || query->has_threshold || query->threshold_count ||
	     query->rows || options->style.print_sorted || output_is_export(&options->output)))
		return OPTIONS_REFUSE(err,
				      "--trend can be combined only with one metric of -m, -i, -e, "
				      "--frames, --hide, --show, --csv, --json, -o and --color");
	return OPTIONS_RUN;
}

static enum options_result check_options(const struct options *options, struct proton_error *err)
{
	const struct query_options *query = &options->query;

	if (query->strip &&
	    (query->metric_count || query->base || query->gate_count || query->ranks ||
	     query->ranks_of || hiding_option(&query->hiding) || query->rank != RANK_NONE ||
	     options->output.path || options->output.exporter || is_more_than_ranks(options)))
		return OPTIONS_REFUSE(err, "--strip takes one profile, and can be combined only "
					   "with --no-clobber");
	if (query->list && query->gate_count)
		return OPTIONS_REFUSE(err, "Cannot specify both --list and --fail-if");
	if (query->depth_is_set && query->mode == VIEW_FLAT && query->group_by != REGROUP_LAYER)
		return OPTIONS_REFUSE(err, "--depth has no effect on a flat table; use --rows");
	if (query->brief + query->warps + query->source > 1)
		return OPTIONS_REFUSE(err, "Cannot specify both %s and %s",
				      query->brief ? "--brief" : "--warps",
				      query->source ? "--source" : "--warps");
	if (query->markdown && (!query->brief || options->output.exporter))
		return OPTIONS_REFUSE(err, "--markdown requires --brief, without %s",
				      query->brief ? options->output.option : "--csv or --json");
	if (query->brief && (query->include || query->exclude))
		return OPTIONS_REFUSE(err, "--brief is about a whole profile: omit -i and -e");
	if ((query->brief || query->warps || query->source) &&
	    (query->mode != VIEW_TREE || query->metric_count || query->base ||
	     output_is_export(&options->output) || query->list || options->style.print_sorted ||
	     query->has_threshold || query->threshold_count || query->gate_count ||
	     query->merge_how != MERGE_SUM))
		return OPTIONS_REFUSE(err,
				      "%s can be combined only with %s--frames, --hide, "
				      "--show, -n, -f, --names, --csv, --json, -o and --color",
				      query->brief   ? "--brief"
				      : query->warps ? "--warps"
						     : "--source",
				      query->brief ? "" : "-i, -e, ");
	if (check_ranks(options, err) == OPTIONS_BAD || check_trend(options, err) == OPTIONS_BAD)
		return OPTIONS_BAD;
	if (query->sass && !query->source &&
	    !(options->output.exporter && options->output.exporter->input == EXPORTS_REPORT))
		return OPTIONS_REFUSE(err, "--sass requires --source, or an HTML report");
	if (query->sass && options->output.exporter &&
	    strcmp(options->output.exporter->name, "table") == 0)
		return OPTIONS_REFUSE(err, "Cannot specify both --sass and %s; use --json",
				      options->output.option);
	if (query->rows && query->mode != VIEW_FLAT && !query->brief && !query->warps &&
	    !query->source && !query->ranks && !query->ranks_of && query->rank == RANK_NONE)
		return OPTIONS_REFUSE(
			err, "--rows requires --top, --group, --warps, --ranks or --source");
	if (query->base && query->merge_how != MERGE_SUM && query->merge_how != MERGE_MEAN)
		return OPTIONS_REFUSE(err, "Cannot specify both --diff and --merge %s",
				      query->merge_how == MERGE_SPREAD ? "spread" : "min or max");
	return export_check(options, err) ? OPTIONS_BAD : OPTIONS_RUN;
}

/* Upstream's viewer has a long option with one dash, which getopt() would parse as -d iff. */
static void mend_diff(int argc, char **argv)
{
	static char long_diff[] = "--diff";

	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "-diff") == 0)
			argv[i] = long_diff;
}

/*
 * The value of --source may be a separate word: if several words remain, the first one that is
 * not a file is the kernel.
 */
static void take_kernel(struct query_options *query)
{
	for (size_t i = 0; query->path_count > 1 && i < query->path_count; i++) {
		if (strcmp(query->paths[i], "-") == 0 || access(query->paths[i], F_OK) == 0)
			continue;
		query->kernel = query->paths[i];
		ARRAY_REMOVE(query->paths, query->path_count, i);
		return;
	}
}

enum options_result options_parse(struct options *options, int argc, char **argv)
{
	struct option_table tables[] = {
		query_options_init(&options->query),
		{style_rows, ARRAY_LENGTH(style_rows), &options->style},
		output_options_init(&options->output),
		{other_rows, ARRAY_LENGTH(other_rows), NULL},
	};
	struct proton_error err;
	enum options_result result;

	options->style = (struct style_options){.names = NAMES_SHORT};
	mend_diff(argc, argv);
	result =
		options_read(tables, ARRAY_LENGTH(tables), NULL, argc, argv, "proton-viewer", &err);
	if (result == OPTIONS_HELP) {
		print_help(tables, ARRAY_LENGTH(tables));
		return OPTIONS_DONE;
	}
	if (result == OPTIONS_RUN)
		result = output_options_finish(&options->output, &err);
	if (result == OPTIONS_RUN)
		result = check_options(options, &err);
	if (result == OPTIONS_RUN && argc == optind)
		result = OPTIONS_REFUSE(&err,
					"Must specify a file to read; see proton-viewer --help");
	if (result == OPTIONS_BAD)
		message("%s", err.text);
	if (options->query.depth_is_set && options->query.mode == VIEW_FLAT) {
		options->query.levels = options->query.depth;
		options->query.depth = DEPTH_DEFAULT;
		options->query.depth_is_set = false;
	}
	/* A screen is limited, a file is not. */
	if (output_is_export(&options->output) && !options->query.depth_is_set)
		options->query.depth = SIZE_MAX;
	options->query.paths = argv + optind;
	options->query.path_count = (size_t)(argc - optind);
	if (options->query.source && !options->query.kernel)
		take_kernel(&options->query);
	return result;
}
