/* One use of the viewer: loads profiles, transforms and filters them, shows them, checks gates. */
#include "viewer/viewer_run.h"

#include "base/message.h"
#include "viewer/export/export_check.h"
#include "viewer/export/export_run.h"
#include "viewer/export/save.h"
#include "viewer/numbers/compare.h"
#include "viewer/numbers/gate.h"
#include "viewer/print/printers.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/select.h"
#include "viewer/query/view.h"
#include "viewer/ranks/rank_job_input.h"
#include "viewer/ranks/rank_views.h"

static int print_error(const struct proton_error *err)
{
	message("%s", err->text);
	return EXIT_BAD;
}

/*
 * True for a terminal and for Markdown, unless options select how much to show: the tree is limited
 * to a readable size.
 */
static bool is_tree_cut(const struct options *options, const struct view *view)
{
	bool is_markdown = options->output.exporter &&
			   options->output.exporter->format == REPORT_MARKDOWN;

	return (view->term.is_tty || is_markdown) && !options->style.all &&
	       !options->style.print_sorted && !options->query.depth_is_set &&
	       !options->query.rows && !options->query.has_threshold &&
	       !options->query.threshold_count;
}

static void write_tree(const void *context, struct report *report)
{
	const struct view *view = context;

	if (report->format == REPORT_MARKDOWN) {
		tree_print_markdown(view, report->out);
		return;
	}
	if (report->format != REPORT_TEXT) {
		table_write(view, report);
		return;
	}
	tree_print(view, report->out);
	if (report->options->style.print_sorted)
		sorted_print(view, report->out);
}

/* `results`: by gate of the options; NULL: they were not checked. */
static int print_view(struct view *view, const struct options *options,
		      const struct gate_result *results)
{
	view->results = results;
	view_settle(view, options);
	if (options->query.list)
		return report_show(options, view->profile, derive_write_list, &view->metrics);
	if (output_is_for_users(&options->output) && is_tree_cut(options, view))
		select_largest(view, options->output.exporter ? MARKDOWN_FRAMES : SELECT_FRAMES);
	return report_show(options, view->profile, write_tree, view);
}

static int print_judged(struct view *view, const struct options *options)
{
	size_t count = options->query.gate_count;
	AUTO_FREE struct gate_result *results = xcalloc(count, sizeof(*results));
	struct proton_error err;
	int status = 0;

	for (size_t i = 0; i < count && status == 0; i++)
		if (gate_check(&options->query.gates[i], view->profile, view->state,
			       &view->gates[i], &results[i], &err))
			status = print_error(&err);
	bool is_judged = status == 0;
	if (is_judged)
		status = print_view(view, options, results);
	for (size_t i = 0; i < count; i++) {
		if (is_judged)
			gate_report_result(&results[i], view->profile);
		if (status == 0 && results[i].failed)
			status = EXIT_GATE;
		gate_result_fini(&results[i]);
	}
	/* A tree has it already. */
	if (status == EXIT_GATE && view->why && !output_is_for_users(&options->output))
		message("%s", view->why);
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
	*view = (struct view){0};
	err->text[0] = '\0';
	if (options->query.base && !options->query.list)
		return compare_runs(view, base, input, options, err);
	if (options->query.merge_how != MERGE_SUM && !options->query.list)
		return compare_many(view, input, options, err);
	struct profile *profile = rank_input_sum(input, false);
	if (!profile)
		return PROTON_E_INVALID;
	input_report_losses(profile);
	int status = view_init(view, profile, options, err);
	if (status || options->query.list || view_is_empty(view))
		return status;
	return view_columns(view, options, err);
}

typedef int use_view_fn(const struct options *options, struct view *view);

/* Calls `use` with the view that the options select, if nothing is missing that they require. */
static int with_view(const struct options *options, struct input *input, struct input *base,
		     use_view_fn *use)
{
	struct proton_error err;
	AT_END(view_fini) struct view view;
	int status = load_view(&view, input, base, options, &err);

	if (status && err.text[0])
		print_error(&err);
	status = status || input_is_refused(input) || input_is_refused(base) ? EXIT_BAD
									     : use(options, &view);
	return status;
}

static int view_and_judge(const struct options *options, struct view *view)
{
	struct proton_error err;

	if (!options->query.list && view_is_empty(view)) {
		/* If -i and -e left nothing, a message was printed already. */
		if (options->query.mode == VIEW_TREE)
			report_empty(options->query.paths[0], view->profile);
		else if (!options->query.include && !options->query.exclude)
			message("%s has no kernel times, which this table is built from; "
				"use the tree view",
				input_display_name(options->query.paths[0]));
		if (options->query.gate_count)
			return EXIT_BAD;
		/* Programs can read a table without rows. */
		return output_is_for_users(&options->output) ? EXIT_BAD
							     : print_view(view, options, NULL);
	}
	if (options->query.list && view->profile->node_count == 1 && view_is_empty(view)) {
		report_empty(options->query.paths[0], view->profile);
		return EXIT_BAD;
	}
	if (!options->query.list && view_filter(view, options, &err))
		return print_error(&err);
	return options->query.list ? print_view(view, options, NULL) : print_judged(view, options);
}

static int export_compared(const struct options *options, struct view *view)
{
	struct proton_error err;

	if (view_is_empty(view)) {
		report_empty(options->query.paths[0], view->profile);
		return EXIT_BAD;
	}
	if (view_filter(view, options, &err) || export_columns(options, view, &err))
		return print_error(&err);
	return 0;
}

static struct profile *load_whole(struct input *input, const struct exporter *exporter)
{
	struct profile *profile = NULL;
	struct proton_error err;

	if (exporter->input != EXPORTS_JOB)
		profile = rank_input_sum(input, exporter->input == EXPORTS_REPORT);
	else if (rank_input_job(input, true, exporter->name, &profile, &err) && err.text[0])
		print_error(&err);
	if (profile)
		input_report_losses(profile);
	else if (exporter->input == EXPORTS_JOB)
		input->has_failed = true;
	return profile;
}

static int export_profile(const struct options *options, struct input *input, struct input *base)
{
	struct proton_error err;
	struct profile *profile = NULL, *before = NULL;
	int status = EXIT_BAD;

	if (export_is_of_columns(options))
		return with_view(options, input, base, export_compared);
	profile = load_whole(input, options->output.exporter);
	if (profile && options->query.base)
		before = load_whole(base, options->output.exporter);
	if (before && compare_check_sums(options, base, input, &err))
		print_error(&err);
	else if (profile && (before || !options->query.base) && !input_is_refused(input) &&
		 !input_is_refused(base))
		status = export_run(options, input, &profile, &before, &err) ? print_error(&err)
									     : 0;
	profile_free(before);
	profile_free(profile);
	return status;
}

static int report_warps(const struct options *options, struct view *view)
{
	struct warps_report report;
	struct proton_error err;
	int status = EXIT_BAD;

	if (select_paths(options, view->profile, view->state, &err))
		return print_error(&err);
	warps_report_init(&report, view->profile, view->state);
	if (report.kernel_count)
		status = report_show(options, view->profile, warps_write, &report);
	else
		warps_report_nothing(view->profile, options);
	warps_report_fini(&report);
	return status;
}

static int report_source(const struct options *options, struct view *view)
{
	AT_END(source_report_fini) struct source_report report = {0};
	struct proton_error err;
	int status = select_paths(options, view->profile, view->state, &err);

	if (status == PROTON_OK)
		status = source_report_init(&report, view->profile, view->state,
					    options->query.kernel, &err);
	if (status == PROTON_OK && options->query.sass && !view->profile->samples)
		message("%s has no machine code for --sass; record with output format proton",
			input_display_name(options->query.paths[0]));
	if (status) {
		status = print_error(&err);
	} else if (!report.kernel_count) {
		source_report_nothing(options);
		status = EXIT_BAD;
	} else {
		status = report_show(options, view->profile, source_write, &report);
	}
	return status;
}

static int report_brief(const struct options *options, struct view *view)
{
	struct brief brief;
	struct proton_error err;

	if (view_is_empty(view)) {
		report_empty(options->query.paths[0], view->profile);
		if (!options->output.exporter)
			return EXIT_BAD;
	}
	int status = brief_init(&brief, view->profile, view->state, options, &err)
			     ? print_error(&err)
			     : report_show(options, view->profile, brief_write, &brief);
	brief_fini(&brief);
	return status;
}

/* The option that requires complete profiles; NULL: the output is for users. */
static const char *option_for_programs(const struct options *options)
{
	const struct output_options *output = &options->output;

	return options->query.gate_count                                      ? "--fail-if"
	       : options->query.base                                          ? "--diff"
	       : output->exporter && export_is_for_programs(output->exporter) ? output->option
									      : NULL;
}

/* The view that the options select, of input that is there. */
static int run_view(const struct options *options, struct input *input, struct input *base)
{
	const struct query_options *query = &options->query;
	struct proton_error err;
	bool has_files = true;

	if (output_check(options, input, base, &err))
		return print_error(&err);
	if (query->rank != RANK_NONE && rank_one_select(input, query->rank, &has_files, &err))
		return print_error(&err);
	if (!has_files)
		return rank_one_run(options, input);
	if (output_is_export(&options->output) && options->output.exporter->input == EXPORTS_RANKS)
		return options->output.exporter->is_binary ? rank_parquet_run(options)
							   : rank_long_run(options, input);
	if (output_is_export(&options->output) &&
	    options->output.exporter->input == EXPORTS_TRACE && input->count > 1)
		return rank_traces_run(options, input);
	if (output_is_export(&options->output))
		return export_profile(options, input, base);
	if (query->trend)
		return trend_run(options, input);
	if (query->ranks_of)
		return rank_frame_run(options, input);
	if (query->ranks)
		return rank_view_run(options, input, base);
	return with_view(options, input, base,
			 query->brief    ? report_brief
			 : query->warps  ? report_warps
			 : query->source ? report_source
					 : view_and_judge);
}

static void init_input(struct input *input, const struct options *options, char *const *paths,
		       size_t count, struct input_store *store)
{
	rank_input_init(input, paths, count);
	input->store = store;
	input->needs_complete = option_for_programs(options);
	input->is_partial_allowed = options->query.allow_partial;
	input->is_mixed_allowed = options->query.allow_mixed;
	input->keeps_times = options->query.ranks_of || view_needs_rank_times(options);
	input->is_sum_meant = options->query.is_sum_asked_for;
}

int viewer_run(const struct options *options, struct input_store *store,
	       struct input_store *base_store)
{
	struct input input, base;
	struct proton_error err;
	int status;

	if (options->query.strip && options->query.path_count != 1) {
		message("--strip takes one profile");
		return EXIT_BAD;
	}
	if (options->query.strip)
		return strip_run(options->query.paths[0], options->query.strip,
				 options->output.no_clobber, &err)
			       ? print_error(&err)
			       : 0;
	init_input(&input, options, options->query.paths, options->query.path_count, store);
	init_input(&base, options, options->query.bases, options->query.base_count, base_store);
	if (input.count == 0 || (options->query.base && base.count == 0))
		status = EXIT_BAD;
	else
		status = run_view(options, &input, &base);
	/* Some input could not be shown. */
	if (status != EXIT_BAD && (input.has_failed || base.has_failed))
		status = EXIT_BAD;
	if (status == 0 && (input.is_cut || base.is_cut))
		status = EXIT_CUT;
	input_fini(&base);
	input_fini(&input);
	return status;
}

bool viewer_load(const struct options *options, struct input_store *store)
{
	AT_END(input_fini) struct input input;

	init_input(&input, options, options->query.paths, options->query.path_count, store);
	bool is_loaded = input.count > 0;
	/* A rank is found by the view. */
	if (is_loaded && options->query.rank == RANK_NONE) {
		store->first = rank_input_sum(&input, false);
		is_loaded = store->first && !input.has_failed;
	}
	if (!is_loaded || input.unit_count > 1) {
		profile_free(store->first);
		store->first = NULL;
	}
	return is_loaded;
}
