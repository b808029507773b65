/* Checks of the output: its format with other options, and its path. */
#include "viewer/export/export_check.h"

#include <errno.h>
#include <unistd.h>

#include "base/replace.h"
#include "format/rank.h"
#include "viewer/print/xalloc.h"

/* The first given option that a format of the whole profile cannot honor. */
static const char *option_for_views(const struct options *options)
{
	/* In other modes, -i and -e select what is counted. */
	bool is_tree = options->query.mode == VIEW_TREE;

	return options->query.metric_count         ? "--metrics"
	       : options->query.include && is_tree ? "--include"
	       : options->query.exclude && is_tree ? "--exclude"
	       : hiding_option(&options->query.hiding) && is_tree
		       ? hiding_option(&options->query.hiding)
	       : options->query.has_threshold || options->query.threshold_count     ? "--threshold"
	       : options->query.depth_is_set && options->query.mode != VIEW_CALLERS ? "--depth"
	       : options->query.rows                                                ? "--rows"
	       : options->style.format                                              ? "--format"
										    : NULL;
}

/* These are large, so standard output is not an alternative. */
static int check_file(const struct options *options, const struct exporter *exporter,
		      struct proton_error *err)
{
	if (exporter->is_binary && !options->output.path)
		return err_set(err, PROTON_E_INVALID, "%s is binary; write it to a file with -o",
			       exporter->name);
	return PROTON_OK;
}

static int check_whole(const struct options *options, const struct exporter *exporter,
		       struct proton_error *err)
{
	const char *option = option_for_views(options);

	if (options->query.mode && exporter->input == EXPORTS_TRACE)
		return err_set(err, PROTON_E_INVALID,
			       "%s needs trace events, which %s does not have", exporter->name,
			       options->query.mode == VIEW_FLAT ? "a flat table"
								: "a bottom-up tree");
	if (option)
		return err_set(err, PROTON_E_INVALID,
			       "%s cannot be used with %s, which always contains the whole profile",
			       option, exporter->name);
	if (options->query.base || options->query.merge_how != MERGE_SUM)
		return err_set(err, PROTON_E_INVALID,
			       "%s produces a table, which %s cannot represent; use csv",
			       options->query.base ? "--diff" : "this --merge", exporter->name);
	return check_file(options, exporter, err);
}

static int check_view(const struct options *options, const struct exporter *exporter,
		      struct proton_error *err)
{
	bool is_table = !exporter->needs_weight && exporter->input != EXPORTS_REPORT;

	if (options->query.merge_how != MERGE_SUM && exporter->input == EXPORTS_REPORT)
		return err_set(err, PROTON_E_INVALID,
			       "this --merge produces a table, which %s cannot represent; use csv",
			       exporter->name);
	if (options->query.merge_how != MERGE_SUM && options->query.merge_how != MERGE_MEAN &&
	    !is_table)
		return err_set(err, PROTON_E_INVALID,
			       "this --merge produces non-additive values, which %s cannot "
			       "represent; use --merge mean, or csv",
			       exporter->name);
	if (exporter->takes_one && options->query.metric_count > 1)
		return err_set(err, PROTON_E_INVALID, "%s supports one metric, not %zu",
			       exporter->name, options->query.metric_count);
	if (exporter->is_binary && !options->output.path && isatty(STDOUT_FILENO) == 1)
		return err_set(err, PROTON_E_INVALID, "%s is binary; write it to a file with -o",
			       exporter->name);
	return PROTON_OK;
}

/* The table of all ranks has all frames. */
static int check_ranks(const struct options *options, const struct exporter *exporter,
		       struct proton_error *err)
{
	const struct query_options *query = &options->query;

	if (query->mode || query->base || query->include || query->exclude || query->warps ||
	    query->source || query->has_threshold || query->threshold_count ||
	    query->depth_is_set || query->rows || query->rank != RANK_NONE ||
	    query->merge_how != MERGE_SUM)
		return err_set(err, PROTON_E_INVALID,
			       "%s can be combined only with -m, -o, --no-clobber, "
			       "--allow-partial and --allow-mixed",
			       exporter->name);
	return check_file(options, exporter, err);
}

static bool shows_other_table(const struct query_options *query)
{
	return query->list || query->trend || query->warps || query->source || query->ranks ||
	       query->ranks_of || query->rank != RANK_NONE;
}

int export_check(const struct options *options, struct proton_error *err)
{
	const struct exporter *exporter = options->output.exporter;
	bool is_export = output_is_export(&options->output);
	/* The first given option that has no effect on the output. */
	const char *other = is_export && options->query.gate_count ? "--fail-if"
			    : is_export && options->query.list     ? "--list"
			    : options->style.print_sorted          ? "--print-sorted"
								   : NULL;

	if (!exporter)
		return PROTON_OK;
	if (other)
		return err_set(err, PROTON_E_INVALID, "Cannot specify both %s and %s",
			       options->output.option, other);
	if (exporter->format == REPORT_MARKDOWN && shows_other_table(&options->query))
		return err_set(err, PROTON_E_INVALID,
			       "markdown has only trees and flat tables; use table or json");
	if (exporter->input == EXPORTS_TABLE)
		return PROTON_OK;
	if (exporter->input == EXPORTS_RANKS)
		return check_ranks(options, exporter, err);
	return exporter->write ? check_whole(options, exporter, err)
			       : check_view(options, exporter, err);
}

/* ------------------------------------------------------------------ the path */

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool status_of(const char *path, struct stat *st)
{
	return strcmp(path, "-") == 0 ? fstat(STDIN_FILENO, st) == 0 : stat(path, st) == 0;
}

const char *output_find_input(const struct input *input, const struct stat *output)
{
	struct stat st;

	for (size_t i = 0; i < input->count; i++)
		if (status_of(input->paths[i], &st) && is_same(&st, output))
			return input_display_name(input->paths[i]);
	return NULL;
}

static char *parent_of(const char *path, const char **name_out)
{
	const char *slash = strrchr(path, '/');

	*name_out = slash ? slash + 1 : path;
	return slash ? xstrndup(path, (size_t)(slash - path) + 1) : xstrdup(".");
}

/*
 * The input directory that contains the profile `path`, or NULL. If a directory has several forms
 * of a profile, only one is read, but the others count as inputs too.
 */
static const char *find_directory(char *const *inputs, size_t count, const char *path)
{
	const char *name;
	AUTO_FREE char *parent = parent_of(path, &name);
	const char *found = NULL;
	struct stat directory, st;

	if (input_is_profile_name(name) && stat(parent, &directory) == 0)
		for (size_t i = 0; i < count && !found; i++)
			if (status_of(inputs[i], &st) && is_same(&st, &directory))
				found = inputs[i];
	return found;
}

static int check_inputs(const struct options *options, const struct input *input,
			const struct input *base, const struct stat *st, const char *path,
			struct proton_error *err)
{
	const char *found = output_find_input(input, st);

	if (!found)
		found = output_find_input(base, st);
	if (!found && path)
		found = find_directory(options->query.paths, options->query.path_count, path);
	if (!found && path)
		found = find_directory(options->query.bases, options->query.base_count, path);
	if (!found)
		return PROTON_OK;
	return err_set(err, PROTON_E_INVALID,
		       "cannot write %s: it is an input (%s); choose another output",
		       path ? path : "standard output", found);
}

int output_check_place(const char *path, struct proton_error *err)
{
	const char *name;
	AUTO_FREE char *parent = parent_of(path, &name);
	char *real = input_is_profile_name(name) ? realpath(parent, NULL) : NULL;
	bool is_in_job = false;

	for (const char *at = real; at && *at; at += strcspn(at, "/")) {
		at++;
		is_in_job |= rank_is_job(at, strcspn(at, "/"));
	}
	free(real);
	if (!is_in_job)
		return PROTON_OK;
	return err_set(err, PROTON_E_INVALID,
		       "cannot write %s: it would be one more profile among the ranks of a job; "
		       "choose another directory",
		       path);
}

int output_check(const struct options *options, const struct input *input, const struct input *base,
		 struct proton_error *err)
{
	const char *path = options->output.path;
	struct stat st;
	AUTO_FREE char *target = NULL;
	bool exists;

	if (!path && fstat(STDOUT_FILENO, &st) == 0 && S_ISREG(st.st_mode))
		return check_inputs(options, input, base, &st, NULL, err);
	if (!path)
		return PROTON_OK;
	if (!*path)
		return err_set(err, PROTON_E_INVALID, "--output is empty; name a file");
	/* Devices and pipes are written to, never replaced. */
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return PROTON_OK;
	int status = file_replace_target(path, &target, &exists, &st, err);
	if (status != PROTON_OK)
		return status;
	if (exists)
		status = check_inputs(options, input, base, &st, target, err);
	/* A copy of one file in another form may be next to it. */
	if (status == PROTON_OK && (input->count > 1 || input->units[0].is_job))
		status = output_check_place(path, err);
	if (status == PROTON_OK && exists && options->output.no_clobber)
		status = err_set(err, PROTON_E_INVALID,
				 "%s exists and --no-clobber is set; choose another output", path);
	return status;
}

bool export_is_for_programs(const struct exporter *exporter)
{
	return exporter->input != EXPORTS_REPORT && exporter->input != EXPORTS_TRACE;
}

bool export_is_of_columns(const struct options *options)
{
	const struct exporter *exporter = options->output.exporter;

	return exporter->write_view && (options->query.merge_how != MERGE_SUM ||
					(options->query.base && exporter->input != EXPORTS_REPORT));
}
