/* Command-line options of proton. The recorder checks backends and modes in the target. */
#include "cli/proton_options.h"

#include <getopt.h>
#include <libproton/proton.h>
#include <stdio.h>
#include <unistd.h>

#include "base/array.h"
#include "base/message.h"
#include "export/export.h"
#include "format/rank.h"
#include "format/target.h"

static const char usage[] =
	"usage: proton [OPTIONS] SCRIPT.py [ARGS...]\n"
	"       proton [OPTIONS] pytest [ARGS...]\n"
	"       proton [OPTIONS] --module NAME [ARGS...]\n"
	"       proton [OPTIONS] -- PROGRAM [ARGS...]\n"
	"       proton ctl [PID|NAME] start|stop|snapshot|status|leave\n"
	"       proton attach [-n PATH] PID\n"
	"       proton bench [--runs N] [--against BASE] SCRIPT [ARGS...]\n"
	"       proton doctor [--json] [--report FILE]\n"
	"       proton mcp [--allow-run]\n"
	"       proton watch [--device N] [--interval SECONDS] [--json]\n"
	"\n"
	"Run a program, record its kernels and scopes, and write a profile when it exits.\n";

/* Modules of the package. */
static const char *const tools[] = {"triton_proton.attach", "triton_proton.bench",
				    "triton_proton.doctor", "triton_proton.mcp"};

static const char examples[] = "\n"
			       "Examples:\n"
			       "  proton -n out/softmax -k triton softmax.py --rows 4096\n"
			       "  proton -b instrumentation -m default:auto=all matmul.py\n"
			       "  proton-viewer -m time/ms out/softmax.hatchet\n";

/* Like python -m: the rest belongs to the module. */
static enum options_result take_module(void *into, const char *value, struct proton_error *err)
{
	struct options *options = into;

	options->kind = TARGET_MODULE;
	options->target = value;
	return OPTIONS_LAST;
}

static enum options_result print_version(void *into, const char *value, struct proton_error *err)
{
	which_note_others();
	return options_print_version(into, value, err);
}

static enum options_result print_which(void *into, const char *value, struct proton_error *err)
{
	(void)into, (void)value, (void)err;
	return which_print() ? OPTIONS_DONE : OPTIONS_BAD;
}

/* The library reads these options from variables, in child processes too. */
static enum options_result set_variable(const char *name, const char *value,
					struct proton_error *err)
{
	return setenv(name, value, 1) != 0 ? OPTIONS_REFUSE(err, "out of memory") : OPTIONS_RUN;
}

static enum options_result take_ranks(void *into, const char *value, struct proton_error *err)
{
	(void)into;
	return set_variable("PROTON_RANKS", value, err);
}

static enum options_result take_rank(void *into, const char *value, struct proton_error *err)
{
	uint32_t rank;

	(void)into;
	if (!rank_parse(value, &rank))
		return OPTIONS_REFUSE(err, "--rank needs the number of a rank, not \"%s\"", value);
	return set_variable("PROTON_RANK", value, err);
}

static enum options_result take_kernel_times(void *into, const char *value,
					     struct proton_error *err)
{
	(void)into;
	return set_variable("PROTON_KERNEL_TIMES", value, err);
}

/* An option that is written as a mode. */
static enum options_result set_mode(struct options *options, const char *key, const char *value,
				    struct proton_error *err)
{
	char *mode;

	if (options->mode)
		return OPTIONS_REFUSE(err,
				      "--%s excludes other modes (--mode, --windows, "
				      "--counters)",
				      key);
	if (asprintf(&mode, "default:%s=%s", key, value) < 0)
		return OPTIONS_REFUSE(err, "out of memory");
	options->mode = mode;
	return OPTIONS_RUN;
}

static enum options_result take_windows(void *into, const char *value, struct proton_error *err)
{
	return set_mode(into, "windows", value, err);
}

static enum options_result take_counters(void *into, const char *value, struct proton_error *err)
{
	return set_mode(into, "counters", value, err);
}

static const char *const contexts[] = {"shadow", "python", "python+scopes", NULL};
static const char *const data_kinds[] = {"tree", "trace", NULL};
static const char *const hooks[] = {"triton", NULL};
static const char *const formats[] = {
	"hatchet", "hatchet_msgpack", "proton", "chrome_trace", "perfetto", "none", NULL};
static const char *const times[] = {"software", "hardware", NULL};
static const char *const rank_modes[] = {"auto", "on", "off", "merge", "merge-keep", NULL};

#define MEMBER(name) .member = offsetof(struct options, name)
#define ONE_OF(values) .words = (values), .is_text = true

static const struct option_row rows[] = {
	{.help = "Recording"},
	{'b', "backend", "NAME",
	 "cupti, rocprofiler, roctracer, instrumentation or\n"
	 "host (default: the first that is usable)",
	 MEMBER(backend)},
	{'m', "mode", "MODE", "mode of the backend: NAME[:KEY=VALUE]...", MEMBER(mode)},
	{0, "windows", "LEN/DIST", "record kernels for LEN in each DIST, such as 50ms/5s",
	 .parse = take_windows},
	{0, "counters", "SET",
	 "roofline: operations and bytes of kernels, counted\n"
	 "on a few launches",
	 .parse = take_counters},
	{'c', "context", "KIND",
	 "shadow: scopes (default); python: Python call stack;\n"
	 "python+scopes: both",
	 MEMBER(context), ONE_OF(contexts)},
	{'d', "data", "KIND", "tree: totals (default); trace: timeline", MEMBER(data),
	 ONE_OF(data_kinds)},
	{'k', "hook", "NAME", "triton: record the launch_metadata of kernels", MEMBER(hook),
	 ONE_OF(hooks)},
	{0, "modules", NULL, "PyTorch modules as scopes; implies --backward",
	 MEMBER(wants_modules)},
	{0, "backward", NULL, "attribute backward kernels to forward scopes",
	 MEMBER(wants_backward)},
	{0, "torch-ops", NULL, "PyTorch operators (aten::addmm) as frames",
	 MEMBER(wants_torch_ops)},
	{0, "shapes", NULL, "input shapes with operators of compiled PyTorch code",
	 MEMBER(wants_shapes)},
	{0, "memory", NULL, "record GPU memory copies and memsets", MEMBER(wants_memory)},
	{0, "kernel-times", "HOW", "software or hardware (default: see the manual)",
	 .parse = take_kernel_times, ONE_OF(times)},
	{0, "no-nvtx", NULL, "do not record NVTX ranges as scopes", MEMBER(has_no_nvtx)},
	{0, "no-children", NULL, "do not record child processes", MEMBER(has_no_children)},
	{0, "wait", NULL, "record nothing until proton ctl starts a session", MEMBER(must_wait)},
	{0, "start-after", "SECS", "begin to record after these seconds", MEMBER(start_after)},
	{0, "for", "SECS", "record for these seconds, then write the profile", MEMBER(record_for)},
	{0, "range", "NAME", "record the first scope or NVTX range of that name", MEMBER(range)},
	{.help = "Output"},
	{'n', "name", "PATH",
	 "output path without suffix; -: standard output\n"
	 "(default: proton)",
	 MEMBER(name)},
	{'o', "output-format", "NAME",
	 "hatchet (default for trees), hatchet_msgpack,\n"
	 "proton, chrome_trace (default for traces),\n"
	 "perfetto or none",
	 MEMBER(format), ONE_OF(formats)},
	{0, "no-clobber", NULL, "do not replace existing output", MEMBER(no_clobber)},
	{0, "ranks", "HOW",
	 "in a job of many processes, put the rank into names:\n"
	 "auto (default), on, off; merge, merge-keep: write\n"
	 "one file at the end, by torch.distributed",
	 .parse = take_ranks, ONE_OF(rank_modes)},
	{0, "rank", "N", "rank of this process, if its launcher does not tell", .parse = take_rank},
	{'q', "quiet", NULL, "print errors only", MEMBER(is_quiet)},
	{.help = "Other"},
	{0, "module", "NAME", "run a module, like python -m NAME", .parse = take_module},
	{0, "which", NULL, "show which Python, proton and proton-viewer are used",
	 .parse = print_which},
	{'h', "help", .help = "print this help"},
	OPTION_COMPLETION,
	{0, "version", NULL, "print the version", .parse = print_version},
};

/* The target: the module, or the first argument after the options. */
static enum options_result take_target(int argc, char **argv, bool is_separated,
				       struct options *options)
{
	if (options->target) {
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
	for (size_t i = 0; i < ARRAY_LENGTH(tools) && options->kind == TARGET_SCRIPT; i++) {
		if (strcmp(options->target, strchr(tools[i], '.') + 1) != 0)
			continue;
		options->kind = TARGET_TOOL;
		options->target = tools[i];
	}
	options->arguments = argv + optind + 1;
	return OPTIONS_RUN;
}

enum options_result options_parse(int argc, char **argv, struct options *options)
{
	const struct option_table table = {rows, ARRAY_LENGTH(rows), options};
	struct proton_error err = {0};
	bool is_separated = false;

	*options = (struct options){0};
	enum options_result result =
		options_read(&table, 1, &is_separated, argc, argv, "proton", &err);
	if (result == OPTIONS_HELP) {
		fputs(usage, stdout);
		options_print(&table, 1);
		fputs(examples, stdout);
	}
	if (result == OPTIONS_HELP || result == OPTIONS_DONE)
		fflush(stdout);
	else if (result == OPTIONS_BAD && err.text[0])
		message("%s", err.text);
	else if (result != OPTIONS_BAD)
		return take_target(argc, argv, is_separated, options);
	return result == OPTIONS_HELP ? OPTIONS_DONE : result;
}

/* The suffix of the output file; NULL: no file. The format is valid. */
static const char *suffix_of(const struct options *options, bool is_ranked)
{
	const char *name = options->format;

	if (!name)
		name = options->data && strcmp(options->data, "trace") == 0 ? "chrome_trace"
		       : is_ranked                                          ? "proton"
									    : "hatchet";
	const struct export_format *format = export_format_find(name);
	return format ? format->suffix : NULL;
}

/* Checks that the recorder would make later. */
static bool check_name(const struct options *options)
{
	const char *name = options->name ? options->name : "proton";
	bool no_clobber = options->no_clobber || target_env_no_clobber();
	struct proton_error err;
	bool is_ranked = false;
	AUTO_FREE char *stem = NULL;

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
	bool is_valid = target_stem(name, &stem, &err) == PROTON_OK &&
			rank_resolve(&stem, true, &is_ranked, &err) == PROTON_OK &&
			target_check_all(stem, suffix_of(options, is_ranked), no_clobber, &err) ==
				PROTON_OK;
	if (!is_valid)
		message("%s", err.text);
	return is_valid;
}

/* Options that need the Python package, or one of the contexts. */
static bool check_package(const struct options *options)
{
	bool is_python = options->context && strncmp(options->context, "python", 6) == 0;
	bool has_scopes = !is_python || strchr(options->context, '+');
	enum rank_names names = RANK_NAMES_AUTO;

	if (options->wants_modules && !has_scopes) {
		message("--modules needs a context with scopes; use -c python+scopes");
		return false;
	}
	if (options->kind != TARGET_PROGRAM)
		return true;
	rank_names_read(&names, NULL);
	const char *refused = options->hook                    ? "-k"
			      : names == RANK_NAMES_MERGE      ? "--ranks merge"
			      : names == RANK_NAMES_MERGE_KEEP ? "--ranks merge"
			      : !has_scopes                    ? "-c python"
			      : is_python                      ? "-c python+scopes"
			      : options->wants_modules         ? "--modules"
			      : options->wants_torch_ops       ? "--torch-ops"
			      : options->wants_shapes          ? "--shapes"
			      : options->wants_backward        ? "--backward"
							       : NULL;
	if (refused)
		message("%s works only with Python scripts and modules; remove it, or run a "
			"script",
			refused);
	return !refused;
}

static bool check_seconds(const char *option, const char *text)
{
	char *end = NULL;
	double seconds = text ? strtod(text, &end) : 1;

	/* NaN fails all comparisons. */
	if (!text || (end != text && !*end && seconds > 0 && seconds <= 1e9))
		return true;
	message("%s needs a number of seconds above 0, not \"%s\"", option, text);
	return false;
}

bool options_check(struct options *options)
{
	if (!check_seconds("--start-after", options->start_after) ||
	    !check_seconds("--for", options->record_for))
		return false;
	if (options->range && (!*options->range || options->start_after || options->record_for)) {
		message("--range needs the name of a scope, and no --start-after and --for");
		return false;
	}
	options->must_wait |= options->start_after || options->record_for || options->range;
	if (!check_name(options))
		return false;
	if (options->target[0] == '\0') {
		message("the name of the script, module or program is empty");
		return false;
	}
	if (options->kind != TARGET_PROGRAM && !script_check_mode(options))
		return false;
	if (options->kind == TARGET_SCRIPT && !script_check(options))
		return false;
	return check_package(options);
}
