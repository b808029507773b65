/*
 * Command proton-viewer: loads profiles, transforms and filters them, prints or exports them, and
 * checks gates. Exit status 0; 2 with a message for bad input; 3 if a gate fails.
 */
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/message.h"
#include "base/standard.h"
#include "export/bounds.h"
#include "viewer/export/export_run.h"
#include "viewer/export/export_target.h"
#include "viewer/export/output_check.h"
#include "viewer/numbers/compare.h"
#include "viewer/numbers/gate_report.h"
#include "viewer/print/pager.h"
#include "viewer/print/print_warps.h"
#include "viewer/print/printable_text.h"
#include "viewer/print/table_model.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/arrange.h"
#include "viewer/query/cut.h"
#include "viewer/query/input.h"
#include "viewer/query/select.h"
#include "viewer/query/viewer_options.h"

#define EXIT_BAD 2
#define EXIT_GATE 3

static int print_error(const struct proton_error *err)
{
	message("%s", err->text);
	return EXIT_BAD;
}

/* On a terminal, text is collected first: for a pager, and to clean the raw names of CSV. */
static void begin(struct out *out, const struct options *options)
{
	bool is_collected = options->csv || (!options->json && !options->no_pager);

	out_init(out, is_collected && isatty(STDOUT_FILENO) == 1 ? -1 : STDOUT_FILENO);
}

/* A reader that closes the pipe early (`| head`) is not an error. */
static int finish(struct out *out, const struct profile *profile, const struct options *options,
		  struct proton_error *err)
{
	bool is_over = out_is_over(out);
	struct out raw = *out;
	bool is_cut_short;
	int status;

	if (raw.fd < 0) {
		out_init(out, STDOUT_FILENO);
		if (options->csv)
			text_clean_lines(out, raw.bytes, raw.length);
		else if (raw.errnum || !pager_show(raw.bytes, raw.length))
			out_bytes(out, raw.bytes, raw.length);
		out->errnum = out->errnum ? out->errnum : raw.errnum;
		out_fini(&raw);
	}
	is_cut_short = out_finish(out, err) && out->errnum == EPIPE;
	if ((is_over || out_is_over(out)) && !is_cut_short)
		bounds_refuse(profile, err);
	status = out->errnum && !is_cut_short ? print_error(err) : 0;

	out_fini(out);
	return status;
}

/*
 * True for a terminal, unless options select how much to show: the tree is limited to a readable
 * size.
 */
static bool is_cut(const struct options *options, const struct table_model *table)
{
	return table->term.is_tty && !options->all && !options->print_sorted &&
	       !options->depth_is_set && !options->rows && !options->has_threshold &&
	       !options->threshold_count;
}

/* `gates`: results of the options' gates; NULL: they were not checked. */
static int print(struct view *view, const struct options *options, const struct gate_result *gates)
{
	struct table_model table = view_table(view, options);
	struct proton_error err = {0};
	struct out out;

	table.gates = gates;
	table.gate_count = gates ? options->gate_count : 0;
	view_settle(view, options);
	begin(&out, options);
	out.limit = bounds_output(view->profile);
	if (options->list) {
		list_print(&view->metrics, &out);
	} else if (options->csv) {
		csv_print(&table, &out);
	} else if (options->json) {
		json_print(&table, &out);
	} else {
		if (is_cut(options, &table))
			cut_tree(&table, view->state);
		header_print(&table, &out);
		tree_print(&table, &out);
		if (options->print_sorted)
			sorted_print(&table, &out);
	}
	return finish(&out, view->profile, options, &err);
}

/* EXIT_BAD: a gate could not be checked. */
static int judge(const struct view *view, const struct options *options,
		 struct gate_result *results)
{
	struct proton_error err;

	for (size_t i = 0; i < options->gate_count; i++) {
		if (gate_check(&options->gates[i], view->profile, view->state, &view->gates[i],
			       &results[i], &err))
			return print_error(&err);
	}
	return 0;
}

static int print_judged(struct view *view, const struct options *options)
{
	struct gate_result *results = xcalloc(options->gate_count, sizeof(*results));
	int status = judge(view, options, results);
	bool is_judged = status == 0;

	if (is_judged)
		status = print(view, options, results);
	for (size_t i = 0; i < options->gate_count; i++) {
		if (is_judged)
			gate_report_result(&results[i], view->profile);
		if (status == 0 && results[i].failed)
			status = EXIT_GATE;
		gate_result_fini(&results[i]);
	}
	free(results);
	return status;
}

static void report_empty(const char *path, const struct profile *profile)
{
	if (profile->node_count == 1)
		message("%s is an empty profile: it has no frames", input_display_name(path));
	else
		message("%s has %zu frames, but no measurements", input_display_name(path),
			profile->node_count - 1);
}

static int load_view(struct view *view, struct input *input, struct input *base,
		     const struct options *options, struct proton_error *err)
{
	struct profile *profile;
	int status;

	*view = (struct view){0};
	err->text[0] = '\0';
	if (options->base && !options->list)
		return compare_runs(view, base, input, options, err);
	if (options->merge_how != MERGE_SUM && !options->list)
		return compare_many(view, input, options, err);
	profile = input_load_all(input);
	if (!profile)
		return PROTON_E_INVALID;
	input_report_losses(profile);
	status = view_init(view, profile, options, err);
	if (status || options->list || view_is_empty(view))
		return status;
	return view_columns(view, options, err);
}

/* Creates the view that the options select. E_INVALID with a message, or "" if one was printed. */
static int make_view(struct view *view, struct input *input, struct input *base,
		     const struct options *options, struct proton_error *err)
{
	int status = load_view(view, input, base, options, err);

	if (status == PROTON_OK && (input_is_refused(input) || input_is_refused(base))) {
		err->text[0] = '\0';
		status = PROTON_E_INVALID;
	}
	return status;
}

static int view_and_judge(struct view *view, const struct options *options)
{
	struct proton_error err;

	if (!options->list && view_is_empty(view)) {
		/* If -i and -e left nothing, a message was printed already. */
		if (options->mode == VIEW_TREE)
			report_empty(options->path, view->profile);
		else if (!options->include && !options->exclude)
			message("%s has no kernel times, which this table is built from; use the "
				"tree "
				"view",
				input_display_name(options->path));
		if (options->gate_count)
			return EXIT_BAD;
		/* Programs can read a table without rows. */
		return options->csv || options->json ? print(view, options, NULL) : EXIT_BAD;
	}
	if (options->list && view->profile->node_count == 1 && view_is_empty(view)) {
		report_empty(options->path, view->profile);
		return EXIT_BAD;
	}
	if (!options->list && view_filter(view, options, &err))
		return print_error(&err);
	return options->list ? print(view, options, NULL) : print_judged(view, options);
}

static bool is_export(const struct options *options)
{
	return options->export_format || options->output;
}

static int export_compared(const struct options *options, struct input *input, struct input *base)
{
	struct proton_error err;
	struct view view;
	int status = make_view(&view, input, base, options, &err);

	if (status == PROTON_OK && view_is_empty(&view)) {
		report_empty(options->path, view.profile);
		status = EXIT_BAD;
	} else {
		if (status == PROTON_OK)
			status = view_filter(&view, options, &err);
		if (status == PROTON_OK)
			status = export_columns(options, &view, &err);
		if (status && err.text[0])
			print_error(&err);
		status = status ? EXIT_BAD : 0;
	}
	view_fini(&view);
	return status;
}

static int export(const struct options *options, struct input *input, struct input *base)
{
	struct proton_error err;
	struct profile *profile = NULL;
	struct profile *before = NULL;
	int status = EXIT_BAD;

	if (export_is_of_columns(options))
		return export_compared(options, input, base);
	if (options->base && compare_check_sums(options, base, input, &err))
		return print_error(&err);
	profile = input_load_all(input);
	if (profile)
		input_report_losses(profile);
	if (profile && options->base)
		before = input_load_all(base);
	if (before)
		input_report_losses(before);
	if (before && compare_check_sums(options, base, input, &err))
		print_error(&err);
	else if (profile && (before || !options->base) && !input_is_refused(input) &&
		 !input_is_refused(base))
		status = export_run(options, &profile, &before, &err) ? print_error(&err) : 0;
	profile_free(before);
	profile_free(profile);
	return status;
}

static int show(const struct options *options, struct input *input, struct input *base)
{
	struct proton_error err;
	struct view view;
	int status = make_view(&view, input, base, options, &err);

	if (status && err.text[0])
		print_error(&err);
	status = status ? EXIT_BAD : view_and_judge(&view, options);
	view_fini(&view);
	return status;
}

static int report_warps(const struct options *options, struct input *input, struct input *base)
{
	struct proton_error err = {0};
	struct warps_report report;
	struct view view;
	struct out out;
	int status = make_view(&view, input, base, options, &err);

	if (status == PROTON_OK)
		status = select_paths(options, view.profile, view.state, &err);
	if (status) {
		if (err.text[0])
			print_error(&err);
		view_fini(&view);
		return EXIT_BAD;
	}
	warps_report_init(&report, view.profile, view.state);
	begin(&out, options);
	out.limit = bounds_output(view.profile);
	if (!report.kernel_count)
		warps_report_nothing(view.profile, options);
	else if (options->csv)
		warps_csv(&report, options, &out);
	else if (options->json)
		warps_json(&report, options, &out);
	else
		warps_print(&report, options, &out);
	status = report.kernel_count ? finish(&out, view.profile, options, &err) : EXIT_BAD;
	warps_report_fini(&report);
	view_fini(&view);
	return status;
}

/* The option that requires complete profiles; NULL: the output is for users. */
static const char *option_for_programs(const struct options *options)
{
	return options->gate_count                                     ? "--fail-if"
	       : options->base                                         ? "--diff"
	       : options->csv                                          ? "--csv"
	       : options->json                                         ? "--json"
	       : is_export(options) && export_is_for_programs(options) ? "--export"
								       : NULL;
}

static int run(const struct options *options)
{
	const char *needs_complete = option_for_programs(options);
	struct proton_error err;
	struct input input;
	struct input base;
	int status;

	if (is_export(options) && export_check(options, &err))
		return print_error(&err);
	input_init(&input, options->paths, options->path_count);
	input_init(&base, &options->base, options->base ? 1 : 0);
	input.needs_complete = base.needs_complete = needs_complete;
	input.is_partial_allowed = base.is_partial_allowed = options->allow_partial;
	if (input.count == 0 || (options->base && base.count == 0))
		status = EXIT_BAD;
	else if (output_check(options, &input, &base, &err))
		status = print_error(&err);
	else if (is_export(options))
		status = export(options, &input, &base);
	else if (options->warps)
		status = report_warps(options, &input, &base);
	else
		status = show(options, &input, &base);
	/* Some input could not be shown. */
	if (status != EXIT_BAD && (input.has_failed || base.has_failed))
		status = EXIT_BAD;
	input_fini(&base);
	input_fini(&input);
	return status;
}

int main(int argc, char **argv)
{
	struct options options;
	enum options_result result;
	int status = 0;

	message_set_name("proton-viewer");
	standard_occupy();
	setlocale(LC_CTYPE, "");
	signal(SIGPIPE, SIG_IGN);
	result = options_parse(&options, argc, argv);
	if (result == OPTIONS_RUN)
		status = run(&options);
	options_fini(&options);
	if (result == OPTIONS_BAD)
		return EXIT_BAD;
	if (result == OPTIONS_DONE && (fflush(stdout) || ferror(stdout)) && errno != EPIPE) {
		message("%s", strerror(errno));
		return EXIT_BAD;
	}
	return status;
}
