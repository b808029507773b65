/*
 * Command-line options of proton-viewer, compatible with upstream's viewer: parsing, checks and
 * help.
 */
#include "viewer/query/viewer_options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libproton/proton.h>

#include "base/message.h"
#include "base/printable.h"
#include "viewer/numbers/peak_options.h"
#include "viewer/print/xalloc.h"

#define DEPTH_DEFAULT 100

static const char help_text[] =
	"usage: proton-viewer [OPTIONS] FILE|DIRECTORY...    (-: standard input)\n"
	"\n"
	"Print profiles as a tree or a table. Several files are merged.\n"
	"\n"
	"Metrics and filters:\n"
	"  -m, --metrics A,B,...  metrics to show, sorted by the first\n"
	"  -l, --list             list the metrics of the profile\n"
	"  -i, --include REGEX    show only paths through a matching frame\n"
	"  -e, --exclude REGEX    omit matching frames and their subtrees\n"
	"  -t, --threshold VALUE  minimum of the first metric, or METRIC=VALUE\n"
	"  -d, --depth N          maximum depth of the tree (default: 100)\n"
	"\n"
	"Views:\n"
	"      --top              flat table of kernels\n"
	"      --group BY         flat table by kernel, scope, module, file or device\n"
	"      --bottom-up        callers of each kernel, innermost first\n"
	"      --warps            busy, waiting and idle time of warps, critical path\n"
	"      --print-sorted     after the tree, print all frames by the first metric\n"
	"  -n, --rows N           maximum number of rows of --top, --group or --warps\n"
	"      --all              on a terminal: print all frames of a large tree\n"
	"\n"
	"Comparison:\n"
	"      --diff BASE        compare with BASE, largest change first\n"
	"                         (also -diff, --diff-profile); for several runs of a\n"
	"                         side: means, intervals and verdicts\n"
	"      --fail-if GATE     exit with status 3 if GATE is true: 'time > +5%',\n"
	"                         'util < 0.5 in matmul'\n"
	"      --merge HOW        several files: sum (default), mean, min, max or spread\n"
	"      --allow-partial    accept incomplete profiles in gates, --diff and exports\n"
	"\n"
	"Output:\n"
	"      --csv              print comma-separated values\n"
	"      --json             print one JSON object\n"
	"      --export FORMAT    html, folded, speedscope, pprof, csv, chrome_trace,\n"
	"                         perfetto, hatchet or hatchet_msgpack\n"
	"  -o, --output FILE      export to FILE; its suffix selects the format\n"
	"      --no-clobber       do not replace an existing FILE of -o\n"
	"  -f, --format FORMAT    source frames: full (default), file_function_line,\n"
	"                         function_line or file_function\n"
	"      --names STYLE      C++ names: short, full or raw\n"
	"      --peaks RATES      peak rates for util: flops16=989e12,bytes=3.35e12\n"
	"      --color WHEN       auto (default), always or never\n"
	"      --no-pager         on a terminal: do not start a pager\n"
	"  -h, --help             print this help\n"
	"      --version          print the version\n"
	"\n"
	"Metrics: time/U, avg_time/U, min_time/U, max_time/U, p50_time/U, p90_time/U,\n"
	"  p99_time/U, cpu_time/U, avg_cpu_time/U (U: s, ms, us or ns), util,\n"
	"  launch_config, [g|t]flop[4|8|16|32|64]/s, [g|t]byte/s,\n"
	"  memory_[g|t]byte/s, METRIC/%, and every recorded name\n"
	"\n"
	"Examples:\n"
	"  proton-viewer -m time/ms,tflop16/s,util -t 0.1 -i attention proton.hatchet\n"
	"  proton-viewer --diff old.hatchet --fail-if 'time > +5%' new.hatchet\n";

enum {
	OPTION_PRINT_SORTED = 256,
	OPTION_ALL,
	OPTION_ALLOW_PARTIAL,
	OPTION_BOTTOM_UP,
	OPTION_CSV,
	OPTION_DIFF,
	OPTION_EXPORT,
	OPTION_FAIL_IF,
	OPTION_GROUP,
	OPTION_JSON,
	OPTION_MERGE,
	OPTION_NAMES,
	OPTION_NO_CLOBBER,
	OPTION_NO_PAGER,
	OPTION_PEAKS,
	OPTION_TOP,
	OPTION_WARPS,
	OPTION_COLOR,
	OPTION_VERSION
};

static const struct option long_options[] = {
	{"list", no_argument, NULL, 'l'},
	{"metrics", required_argument, NULL, 'm'},
	{"include", required_argument, NULL, 'i'},
	{"exclude", required_argument, NULL, 'e'},
	{"threshold", required_argument, NULL, 't'},
	{"depth", required_argument, NULL, 'd'},
	{"format", required_argument, NULL, 'f'},
	{"print-sorted", no_argument, NULL, OPTION_PRINT_SORTED},
	{"rows", required_argument, NULL, 'n'},
	{"top", no_argument, NULL, OPTION_TOP},
	{"group", required_argument, NULL, OPTION_GROUP},
	{"bottom-up", no_argument, NULL, OPTION_BOTTOM_UP},
	{"warps", no_argument, NULL, OPTION_WARPS},
	{"diff", required_argument, NULL, OPTION_DIFF},
	{"diff-profile", required_argument, NULL, OPTION_DIFF},
	{"fail-if", required_argument, NULL, OPTION_FAIL_IF},
	{"merge", required_argument, NULL, OPTION_MERGE},
	{"names", required_argument, NULL, OPTION_NAMES},
	{"no-clobber", no_argument, NULL, OPTION_NO_CLOBBER},
	{"peaks", required_argument, NULL, OPTION_PEAKS},
	{"csv", no_argument, NULL, OPTION_CSV},
	{"export", required_argument, NULL, OPTION_EXPORT},
	{"output", required_argument, NULL, 'o'},
	{"json", no_argument, NULL, OPTION_JSON},
	{"color", required_argument, NULL, OPTION_COLOR},
	{"all", no_argument, NULL, OPTION_ALL},
	{"no-pager", no_argument, NULL, OPTION_NO_PAGER},
	{"allow-partial", no_argument, NULL, OPTION_ALLOW_PARTIAL},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, OPTION_VERSION},
	{NULL, 0, NULL, 0},
};

#define REFUSE(...) (message(__VA_ARGS__), OPTIONS_BAD)

static enum options_result parse_metrics(struct options *options, const char *text)
{
	size_t capacity = 0;
	char *rest;
	char *part;

	free(options->metrics_text);
	free(options->metrics);
	options->metrics = NULL;
	options->metric_count = 0;
	options->metrics_text = rest = xstrndup(text, strlen(text));
	while ((part = strsep(&rest, ",")) != NULL) {
		size_t length;

		part += strspn(part, " ");
		length = strlen(part);
		while (length > 0 && part[length - 1] == ' ')
			part[--length] = '\0';
		if (length == 0)
			continue;
		xreserve(&options->metrics, &capacity, options->metric_count + 1,
			 sizeof(*options->metrics));
		options->metrics[options->metric_count++] = part;
	}
	return options->metric_count ? OPTIONS_RUN : REFUSE("--metrics needs at least one metric");
}

static enum options_result parse_threshold(struct options *options, const char *text)
{
	const char *equals = strrchr(text, '=');
	const char *number = equals ? equals + 1 : text;
	char *end;
	double min = strtod(number, &end);
	struct threshold *threshold;

	if (end == number || *end || isnan(min))
		return REFUSE("--threshold needs a number, not \"%s\"", number);
	if (!equals) {
		options->threshold = min;
		options->has_threshold = true;
		return OPTIONS_RUN;
	}
	if (equals == text)
		return REFUSE("--threshold needs a metric before the \"=\" of \"%s\"", text);
	xreserve(&options->thresholds, &options->threshold_capacity, options->threshold_count + 1,
		 sizeof(*options->thresholds));
	threshold = &options->thresholds[options->threshold_count++];
	threshold->metric = xstrndup(text, (size_t)(equals - text));
	threshold->min = min;
	return OPTIONS_RUN;
}

static enum options_result parse_count(size_t *count, const char *option, const char *text)
{
	char *end;
	unsigned long number;

	errno = 0;
	number = strtoul(text, &end, 10);
	if (end == text || *end || *text == '-' || number == 0)
		return REFUSE("%s needs a whole number of at least 1, not \"%s\"", option, text);
	*count = number;
	return OPTIONS_RUN;
}

static enum options_result parse_gate(struct options *options, const char *text)
{
	struct proton_error err;

	xreserve(&options->gates, &options->gate_capacity, options->gate_count + 1,
		 sizeof(*options->gates));
	return gate_parse(&options->gates[options->gate_count++], text, &err)
		       ? REFUSE("%s", err.text)
		       : OPTIONS_RUN;
}

/* The index of `text` in a list of words that ends with NULL, or -1. */
static int find_word(const char *const *words, const char *text)
{
	for (int i = 0; words[i]; i++) {
		if (strcmp(words[i], text) == 0)
			return i;
	}
	return -1;
}

static enum options_result parse_group(struct options *options, const char *text)
{
	static const char *const words[] = {
		[REGROUP_KERNEL] = "kernel", [REGROUP_SCOPE] = "scope",   [REGROUP_FILE] = "file",
		[REGROUP_MODULE] = "module", [REGROUP_DEVICE] = "device", NULL,
	};
	int found = find_word(words, text);

	if (found < 0)
		return REFUSE("--group must be kernel, scope, module, file or device, not \"%s\"",
			      text);
	options->mode = VIEW_FLAT;
	options->group_by = (enum regroup_by)found;
	return OPTIONS_RUN;
}

static enum options_result parse_merge(struct options *options, const char *text)
{
	static const char *const words[] = {
		[MERGE_SUM] = "sum", [MERGE_MEAN] = "mean",     [MERGE_MIN] = "min",
		[MERGE_MAX] = "max", [MERGE_SPREAD] = "spread", NULL,
	};
	int found = find_word(words, text);

	if (found < 0)
		return REFUSE("--merge must be sum, mean, min, max or spread, not \"%s\"", text);
	options->merge_how = (enum merge_how)found;
	options->is_sum_asked_for = found == MERGE_SUM;
	return OPTIONS_RUN;
}

static enum options_result parse_peaks(const char *text)
{
	struct proton_error err;

	return peaks_set_own(text, &err) ? REFUSE("%s", err.text) : OPTIONS_RUN;
}

static enum options_result parse_names(struct options *options, const char *text)
{
	static const char *const words[] = {
		[NAMES_RAW] = "raw", [NAMES_FULL] = "full", [NAMES_SHORT] = "short", NULL};
	int found = find_word(words, text);

	if (found < 0)
		return REFUSE("--names must be short, full or raw, not \"%s\"", text);
	options->names = (enum name_style)found;
	options->has_names = true;
	return OPTIONS_RUN;
}

static enum options_result parse_one(struct options *options, int option)
{
	switch (option) {
	case 'l':
		options->list = true;
		return OPTIONS_RUN;
	case 'm':
		return parse_metrics(options, optarg);
	case 'i':
		options->include = optarg;
		return OPTIONS_RUN;
	case 'e':
		options->exclude = optarg;
		return OPTIONS_RUN;
	case 't':
		return parse_threshold(options, optarg);
	case 'd':
		options->depth_is_set = true;
		return parse_count(&options->depth, "--depth", optarg);
	case 'n':
		return parse_count(&options->rows, "--rows", optarg);
	case OPTION_TOP:
		return parse_group(options, "kernel");
	case OPTION_GROUP:
		return parse_group(options, optarg);
	case OPTION_BOTTOM_UP:
		options->mode = VIEW_CALLERS;
		return OPTIONS_RUN;
	case OPTION_WARPS:
		options->warps = true;
		return OPTIONS_RUN;
	case OPTION_DIFF:
		options->base = optarg;
		return OPTIONS_RUN;
	case OPTION_FAIL_IF:
		return parse_gate(options, optarg);
	case OPTION_MERGE:
		return parse_merge(options, optarg);
	case OPTION_PEAKS:
		return parse_peaks(optarg);
	case OPTION_NAMES:
		return parse_names(options, optarg);
	case OPTION_ALL:
		options->all = true;
		return OPTIONS_RUN;
	case OPTION_NO_PAGER:
		options->no_pager = true;
		return OPTIONS_RUN;
	case OPTION_NO_CLOBBER:
		options->no_clobber = true;
		return OPTIONS_RUN;
	case 'f':
		if (name_format_find(optarg, &options->format))
			return OPTIONS_RUN;
		return REFUSE("--format must be full, file_function_line, function_line or "
			      "file_function, not \"%s\"",
			      optarg);
	case OPTION_ALLOW_PARTIAL:
		options->allow_partial = true;
		return OPTIONS_RUN;
	case OPTION_PRINT_SORTED:
		options->print_sorted = true;
		return OPTIONS_RUN;
	case OPTION_CSV:
		options->csv = true;
		return OPTIONS_RUN;
	case OPTION_EXPORT:
		options->export_format = optarg;
		return OPTIONS_RUN;
	case 'o':
		options->output = optarg;
		return OPTIONS_RUN;
	case OPTION_JSON:
		options->json = true;
		return OPTIONS_RUN;
	case OPTION_COLOR:
		if (color_choice_find(optarg, &options->color))
			return OPTIONS_RUN;
		return REFUSE("--color must be auto, always or never, not \"%s\"", optarg);
	case 'h':
		fputs(help_text, stdout);
		return OPTIONS_DONE;
	case OPTION_VERSION:
		puts("proton-viewer " PROTON_VERSION);
		return OPTIONS_DONE;
	default:
		/* getopt_long() printed the message. */
		return REFUSE("see proton-viewer --help");
	}
}

/* Rejects combinations of options. */
static enum options_result check(const struct options *options)
{
	if (options->include && options->exclude)
		return REFUSE("Cannot specify both include and exclude");
	if (options->csv && options->print_sorted)
		return REFUSE("Cannot specify both --csv and --print-sorted");
	if (options->list && options->gate_count)
		return REFUSE("Cannot specify both --list and --fail-if");
	if (options->csv && options->json)
		return REFUSE("Cannot specify both --csv and --json");
	if (options->json && options->print_sorted)
		return REFUSE("Cannot specify both --json and --print-sorted");
	if (options->warps &&
	    (options->mode != VIEW_TREE || options->metric_count || options->base ||
	     options->export_format || options->output || options->list || options->print_sorted ||
	     options->has_threshold || options->threshold_count || options->gate_count ||
	     options->merge_how != MERGE_SUM))
		return REFUSE("--warps can be combined only with -i, -e, -n, -f, --names, --csv, "
			      "--json and --color");
	if (options->rows && options->mode != VIEW_FLAT && !options->warps)
		return REFUSE("--rows requires --top, --group or --warps");
	if (options->base && options->merge_how != MERGE_SUM && options->merge_how != MERGE_MEAN)
		return REFUSE("Cannot specify both --diff and --merge %s",
			      options->merge_how == MERGE_SPREAD ? "spread" : "min or max");
	return OPTIONS_RUN;
}

static bool is_printable_line(int argc, char **argv)
{
	uint32_t code = ' ';

	for (int i = 0; i < argc; i++)
		for (const char *at = argv[i]; *at && printable_is(code);)
			at += utf8_decode(at, strlen(at), &code);
	return printable_is(code);
}

enum options_result options_parse(struct options *options, int argc, char **argv)
{
	char name[] = "proton-viewer";
	static char long_diff[] = "--diff";
	enum options_result result = OPTIONS_RUN;
	int option;

	*options = (struct options){.depth = DEPTH_DEFAULT, .names = NAMES_SHORT};
	if (argc > 0)
		argv[0] = name; /* getopt_long() starts its messages with it */
	/*
	 * Upstream's viewer has a long option with one dash, which getopt() would parse as -d iff.
	 */
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "-diff") == 0)
			argv[i] = long_diff;
	}
	/*
	 * getopt's messages contain the option, which may have non-printable characters.
	 */
	opterr = is_printable_line(argc, argv);
	while ((option = getopt_long(argc, argv, "lm:i:e:t:d:n:f:o:h", long_options, NULL)) != -1) {
		if (option == '?' && !opterr)
			message("unknown option '%s', or its value is missing", argv[optind - 1]);
		result = parse_one(options, option);
		if (result != OPTIONS_RUN)
			return result;
	}
	if (check(options) == OPTIONS_BAD)
		return OPTIONS_BAD;
	if (argc - optind == 0)
		return REFUSE("Must specify a file to read; see proton-viewer --help");
	/* A screen is limited, a file is not. */
	if ((options->export_format || options->output) && !options->depth_is_set)
		options->depth = SIZE_MAX;
	options->paths = argv + optind;
	options->path_count = (size_t)(argc - optind);
	options->path = argv[optind];
	return OPTIONS_RUN;
}

void options_fini(struct options *options)
{
	for (size_t i = 0; i < options->threshold_count; i++)
		free(options->thresholds[i].metric);
	for (size_t i = 0; i < options->gate_count; i++)
		gate_fini(&options->gates[i]);
	free(options->thresholds);
	free(options->gates);
	free(options->metrics);
	free(options->metrics_text);
}
