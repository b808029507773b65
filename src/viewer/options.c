/* Options: names and meanings are those people know from Proton's viewer. See options.h. */
#include "viewer/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libproton/proton.h>

#include "viewer/say.h"
#include "viewer/xalloc.h"

#define DEPTH_DEFAULT 100

/* 24 lines of 80 columns: the smallest screen there is. */
static const char help_text[] =
	"usage: proton-viewer [options] FILE\n"
	"Print a profile (.proton, .hatchet, .hatchet_msgpack, or - for stdin) as a tree.\n"
	"\n"
	"  -l, --list             list the metrics of the profile\n"
	"  -m, --metrics A,B,...  what to show, sorted by A (time/ms,time/%,count)\n"
	"  -i, --include REGEX    show only paths through a frame that matches\n"
	"  -e, --exclude REGEX    leave out frames that match, with all below them\n"
	"  -t, --threshold VALUE  show frames with at least VALUE of the first metric\n"
	"  -d, --depth N          levels to show; default: 100\n"
	"  -f, --format FORMAT    source frames: full, file_function_line, function_line\n"
	"                         or file_function\n"
	"      --print-sorted     after the tree, all frames by the first metric\n"
	"      --csv              the tree as comma-separated values, all digits\n"
	"      --export FORMAT    folded, speedscope, pprof, csv, hatchet, ...\n"
	"  -o, --output FILE      where to; its end tells the format (- is stdout)\n"
	"      --color WHEN       auto, always or never\n"
	"  -h, --help, --version  this text, or the version\n"
	"\n"
	"Metrics: time/U avg_time/U min_time/U max_time/U cpu_time/U avg_cpu_time/U\n"
	"  with U one of s, ms, us, ns; [g|t]flop[8|16|32|64]/s; [g|t]byte/s; util;\n"
	"  METRIC/%; and whatever was recorded. --list tells what a profile has.\n"
	"\n"
	"  proton-viewer -m time/ms,tflop16/s,util -t 0.1 proton.hatchet\n"
	"  proton-viewer -m time/% -i attention -o stacks.folded proton.proton\n";

enum {
	OPTION_PRINT_SORTED = 256,
	OPTION_CSV,
	OPTION_COLOR,
	OPTION_EXPORT,
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
	{"csv", no_argument, NULL, OPTION_CSV},
	{"export", required_argument, NULL, OPTION_EXPORT},
	{"output", required_argument, NULL, 'o'},
	{"color", required_argument, NULL, OPTION_COLOR},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, OPTION_VERSION},
	{NULL, 0, NULL, 0},
};

#define REFUSE(...) (say(__VA_ARGS__), OPTIONS_BAD)

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
	char *end;

	options->threshold = strtod(text, &end);
	options->has_threshold = true;
	if (end == text || *end || isnan(options->threshold))
		return REFUSE("--threshold needs a number, not \"%s\"", text);
	return OPTIONS_RUN;
}

static enum options_result parse_depth(struct options *options, const char *text)
{
	char *end;
	unsigned long depth;

	errno = 0;
	depth = strtoul(text, &end, 10);
	if (end == text || *end || *text == '-' || depth == 0)
		return REFUSE("--depth needs a whole number of at least 1, not \"%s\"", text);
	options->depth = depth;
	options->depth_is_set = true;
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
		return parse_depth(options, optarg);
	case 'f':
		if (name_format_find(optarg, &options->format))
			return OPTIONS_RUN;
		return REFUSE("--format must be full, file_function_line, function_line or "
			      "file_function, not \"%s\"",
			      optarg);
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
		/* getopt_long() has said what is wrong. */
		return REFUSE("see proton-viewer --help");
	}
}

enum options_result options_parse(struct options *options, int argc, char **argv)
{
	char name[] = "proton-viewer";
	enum options_result result = OPTIONS_RUN;
	int option;

	*options = (struct options){.depth = DEPTH_DEFAULT};
	if (argc > 0)
		argv[0] = name; /* getopt_long() begins its sentences with it */
	while ((option = getopt_long(argc, argv, "lm:i:e:t:d:f:o:h", long_options, NULL)) != -1) {
		result = parse_one(options, option);
		if (result != OPTIONS_RUN)
			return result;
	}
	if (options->include && options->exclude)
		return REFUSE("Cannot specify both include and exclude");
	if (options->csv && options->print_sorted)
		return REFUSE("Cannot specify both --csv and --print-sorted");
	if (argc - optind == 0)
		return REFUSE("Must specify a file to read; see proton-viewer --help");
	if (argc - optind > 1)
		return REFUSE("Must specify one file to read, not %d", argc - optind);
	options->path = argv[optind];
	return OPTIONS_RUN;
}

void options_fini(struct options *options)
{
	free(options->metrics);
	free(options->metrics_text);
}
