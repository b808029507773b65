/*
 * Command-line options of proton: parsing, and checks before anything is started. The recorder
 * checks the names of backends and their modes itself, in the target process.
 */
#include "cli/proton_options.h"

#include <errno.h>
#include <getopt.h>
#include <libproton/proton.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/array.h"
#include "base/message.h"
#include "cli/script.h"
#include "cli/which.h"
#include "export/export.h"
#include "format/target.h"

static const char help_text[] =
	"usage: proton [OPTIONS] SCRIPT.py [ARGS...]\n"
	"       proton [OPTIONS] pytest [ARGS...]\n"
	"       proton [OPTIONS] --module NAME [ARGS...]\n"
	"       proton [OPTIONS] -- PROGRAM [ARGS...]\n"
	"\n"
	"Run a program, record its kernels and scopes, and write a profile when it exits.\n"
	"\n"
	"Recording:\n"
	"  -b, --backend NAME        cupti, instrumentation or host\n"
	"                            (default: cupti if usable, otherwise host)\n"
	"  -m, --mode MODE           mode of instrumentation: NAME[:KEY=VALUE]...\n"
	"  -c, --context KIND        shadow: scopes (default); python: Python call stack\n"
	"  -d, --data KIND           tree: totals (default); trace: timeline\n"
	"  -k, --hook NAME           triton: record the launch_metadata of kernels\n"
	"      --memory              record GPU memory copies and memsets\n"
	"      --no-nvtx             do not record NVTX ranges as scopes\n"
	"      --no-children         do not record child processes\n"
	"\n"
	"Output:\n"
	"  -n, --name PATH           output path without suffix; -: standard output\n"
	"                            (default: proton)\n"
	"  -o, --output-format NAME  hatchet (default for trees), hatchet_msgpack,\n"
	"                            proton, chrome_trace (default for traces),\n"
	"                            perfetto or none\n"
	"      --no-clobber          do not replace existing output\n"
	"  -q, --quiet               print errors only\n"
	"\n"
	"Other:\n"
	"      --module NAME         run a module, like python -m NAME\n"
	"      --which               show which Python, proton and proton-viewer are used\n"
	"  -h, --help                print this help\n"
	"      --version             print the version\n"
	"\n"
	"Examples:\n"
	"  proton -n out/softmax -k triton softmax.py --rows 4096\n"
	"  proton -b instrumentation -m default:auto=all matmul.py\n"
	"  proton-viewer -m time/ms out/softmax.hatchet\n";

enum {
	OPTION_MODULE = 256,
	OPTION_MEMORY,
	OPTION_VERSION,
	OPTION_WHICH,
	OPTION_NO_NVTX,
	OPTION_NO_CHILDREN,
	OPTION_NO_CLOBBER,
};

static const struct option long_options[] = {
	{"name", required_argument, NULL, 'n'},
	{"backend", required_argument, NULL, 'b'},
	{"context", required_argument, NULL, 'c'},
	{"mode", required_argument, NULL, 'm'},
	{"data", required_argument, NULL, 'd'},
	{"hook", required_argument, NULL, 'k'},
	{"output-format", required_argument, NULL, 'o'},
	{"memory", no_argument, NULL, OPTION_MEMORY},
	{"module", required_argument, NULL, OPTION_MODULE},
	{"no-children", no_argument, NULL, OPTION_NO_CHILDREN},
	{"no-clobber", no_argument, NULL, OPTION_NO_CLOBBER},
	{"no-nvtx", no_argument, NULL, OPTION_NO_NVTX},
	{"quiet", no_argument, NULL, 'q'},
	{"version", no_argument, NULL, OPTION_VERSION},
	{"which", no_argument, NULL, OPTION_WHICH},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

/* `+`: stop at the first argument that is not an option; `:`: report missing values separately. */
static const char short_options[] = "+:n:b:c:m:d:k:o:qh";

/* Prints the option as the user typed it: "-x" from a cluster, or the whole long word. */
static void report_bad_option(int result, char **argv)
{
	const char *word = argv[optind - 1];
	bool is_long = strncmp(word, "--", 2) == 0;

	if (result == ':' && is_long)
		message("option %s needs a value; see proton --help", word);
	else if (result == ':')
		message("option -%c needs a value; see proton --help", optopt);
	else if (is_long && optopt)
		message("option %.*s takes no value", (int)strcspn(word, "="), word);
	else if (is_long)
		message("unknown option %s; see proton --help", word);
	else
		message("unknown option -%c; see proton --help", optopt);
}

static void print_out(const char *text)
{
	fputs(text, stdout);
	fflush(stdout);
}

/* The target: `module`, or the first argument after the options. */
static enum options_outcome take_target(int argc, char **argv, const char *module,
					bool is_separated, struct options *options)
{
	if (module) {
		options->kind = TARGET_MODULE;
		options->target = module;
		options->arguments = argv + optind;
		return OPTIONS_RUN;
	}
	options->options = argv + 1;
	options->option_count = (size_t)optind - 1;
	if (optind >= argc && !script_check_mode(options))
		return OPTIONS_BAD;
	if (optind >= argc) {
		message("nothing to run: name a script, module or program; see proton --help");
		return OPTIONS_BAD;
	}
	options->kind = TARGET_SCRIPT;
	options->target = argv[optind];
	if (is_separated)
		options->kind = TARGET_PROGRAM;
	else if (strcmp(options->target, "pytest") == 0)
		options->kind = TARGET_MODULE;
	options->arguments = argv + optind + 1;
	return OPTIONS_RUN;
}

enum options_outcome options_parse(int argc, char **argv, struct options *options)
{
	const char *module = NULL;
	bool is_separated = false;

	*options = (struct options){0};
	opterr = 0;
	while (!module) {
		int before = optind;
		int result = getopt_long(argc, argv, short_options, long_options, NULL);

		if (result == -1) {
			/*
			 * "--" as the separator advances by one, as the value of an option by two.
			 */
			is_separated = optind == before + 1;
			break;
		}
		switch (result) {
		case 'n':
			options->name = optarg;
			break;
		case 'b':
			options->backend = optarg;
			break;
		case 'c':
			options->context = optarg;
			break;
		case 'm':
			options->mode = optarg;
			break;
		case 'd':
			options->data = optarg;
			break;
		case 'k':
			options->hook = optarg;
			break;
		case 'o':
			options->format = optarg;
			break;
		case 'q':
			options->is_quiet = true;
			break;
		case OPTION_MEMORY:
			options->wants_memory = true;
			break;
		case OPTION_MODULE: /* like python -m: the rest belongs to the module */
			module = optarg;
			break;
		case OPTION_NO_CHILDREN:
			options->has_no_children = true;
			break;
		case OPTION_NO_CLOBBER:
			options->no_clobber = true;
			break;
		case OPTION_NO_NVTX:
			options->has_no_nvtx = true;
			break;
		case OPTION_VERSION:
			which_note_others();
			print_out("proton " PROTON_VERSION "\n");
			return OPTIONS_DONE;
		case OPTION_WHICH:
			return which_print() ? OPTIONS_DONE : OPTIONS_BAD;
		case 'h':
			print_out(help_text);
			return OPTIONS_DONE;
		default:
			report_bad_option(result, argv);
			return OPTIONS_BAD;
		}
	}
	return take_target(argc, argv, module, is_separated, options);
}

static const char *const contexts[] = {"shadow", "python"};
static const char *const data_kinds[] = {"tree", "trace"};
static const char *const hooks[] = {"triton"};
static const char *const formats[] = {
	"hatchet", "hatchet_msgpack", "proton", "chrome_trace", "perfetto", "none",
};

static bool check_choice(const char **value, const char *what, const char *const *values,
			 size_t value_count)
{
	char known[128] = "";
	size_t used = 0;

	if (!*value)
		return true;
	for (size_t i = 0; i < value_count; i++) {
		if (strcasecmp(*value, values[i]) == 0) {
			*value = values[i];
			return true;
		}
		used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
					 i == 0 ? "" : (i + 1 == value_count ? " or " : ", "),
					 values[i]);
	}
	message("unknown %s '%s'; expected %s", what, *value, known);
	return false;
}

/* The suffix of the output file; NULL: no file. The format is valid. */
static const char *suffix_of(const struct options *options)
{
	const char *name = options->format;
	const struct export_format *format;

	if (!name)
		name = options->data && strcmp(options->data, "trace") == 0 ? "chrome_trace"
									    : "hatchet";
	format = export_format_find(name);
	return format ? format->suffix : NULL;
}

/* Checks that the recorder would make later. */
static bool check_name(const struct options *options)
{
	const char *name = options->name ? options->name : "proton";
	bool no_clobber = options->no_clobber || target_env_no_clobber();
	struct proton_error err;
	char *stem = NULL;
	int status;

	if (!*name) {
		message("the output name is empty; use a file name, or - for standard output");
		return false;
	}
	if (target_is_standard_output(name)) {
		if (!options->format || strcmp(options->format, "proton") != 0)
			return true;
		message("output format \"proton\" cannot be written to standard output");
		return false;
	}
	status = target_stem(name, &stem, &err);
	if (status == PROTON_OK)
		status = target_check_all(stem, suffix_of(options), no_clobber, &err);
	if (status != PROTON_OK)
		message("%s", err.text);
	free(stem);
	return status == PROTON_OK;
}

bool options_check(struct options *options)
{
	if (!check_choice(&options->context, "context", contexts, ARRAY_LENGTH(contexts)) ||
	    !check_choice(&options->data, "data", data_kinds, ARRAY_LENGTH(data_kinds)) ||
	    !check_choice(&options->hook, "hook", hooks, ARRAY_LENGTH(hooks)) ||
	    !check_choice(&options->format, "output format", formats, ARRAY_LENGTH(formats)) ||
	    !check_name(options))
		return false;
	if (options->target[0] == '\0') {
		message("the name of the script, module or program is empty");
		return false;
	}
	if (options->kind != TARGET_PROGRAM && !script_check_mode(options))
		return false;
	if (options->kind == TARGET_SCRIPT)
		return script_check(options);
	if (options->kind == TARGET_PROGRAM && options->hook) {
		message("-k works only with Python scripts and modules; remove it, or run a "
			"script");
		return false;
	}
	if (options->kind == TARGET_PROGRAM && options->context &&
	    strcmp(options->context, "python") == 0) {
		message("-c python works only with Python scripts and modules; remove it, or run a "
			"script");
		return false;
	}
	return true;
}
