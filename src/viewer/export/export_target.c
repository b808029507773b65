/* Choice of the export format, and which options it can be combined with. */
#include "viewer/export/export_target.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Entry `index` of both format tables in a row; false past the end. */
static bool target_at(size_t index, struct export_target *target)
{
	size_t views = 0;

	while (export_view_format_at(views))
		views++;
	*target = (struct export_target){0};
	if (index < views)
		target->view = export_view_format_at(index);
	else
		target->whole = export_format_at(index - views);
	return target->view || target->whole;
}

static const char *target_name(const struct export_target *target)
{
	return target->view ? target->view->name : target->whole->name;
}

static const char *target_suffix(const struct export_target *target)
{
	return target->view ? target->view->suffix : target->whole->suffix;
}

static void list_formats(char *text, size_t capacity)
{
	struct export_target target;
	size_t length = 0;

	text[0] = '\0';
	for (size_t i = 0; target_at(i, &target); i++) {
		const char *name = target_name(&target);

		if (length + strlen(name) + 3 > capacity)
			return;
		length += (size_t)sprintf(text + length, "%s%s", i ? ", " : "", name);
	}
}

static bool ends_with(const char *path, const char *suffix)
{
	size_t length = strlen(path);
	size_t end = strlen(suffix);

	return length > end + 1 && path[length - end - 1] == '.' &&
	       strcasecmp(path + length - end, suffix) == 0;
}

int export_target_find(const struct options *options, struct export_target *target,
		       struct proton_error *err)
{
	char known[300];

	for (size_t i = 0; target_at(i, target); i++) {
		if (options->export_format
			    ? strcasecmp(options->export_format, target_name(target)) == 0
			    : ends_with(options->output, target_suffix(target)))
			return PROTON_OK;
	}
	list_formats(known, sizeof(known));
	if (options->export_format)
		return err_set(err, PROTON_E_INVALID, "Unknown export format: %.60s; available: %s",
			       options->export_format, known);
	return err_set(err, PROTON_E_INVALID,
		       "cannot infer an export format from %.200s; choose one with --export: %s",
		       options->output, known);
}

/* The first given option that has an effect on printed output only. */
static const char *option_for_the_screen(const struct options *options)
{
	return options->csv            ? "--csv"
	       : options->json         ? "--json"
	       : options->gate_count   ? "--fail-if"
	       : options->list         ? "--list"
	       : options->print_sorted ? "--print-sorted"
				       : NULL;
}

/* The first given option that a format of the whole profile cannot honor. */
static const char *option_for_views(const struct options *options)
{
	bool is_turned = options->mode !=
			 VIEW_TREE; /* in these modes, -i and -e select what is counted */

	return options->metric_count                                    ? "--metrics"
	       : options->include && !is_turned                         ? "--include"
	       : options->exclude && !is_turned                         ? "--exclude"
	       : options->has_threshold || options->threshold_count     ? "--threshold"
	       : options->depth_is_set && options->mode != VIEW_CALLERS ? "--depth"
	       : options->rows                                          ? "--rows"
	       : options->format                                        ? "--format"
									: NULL;
}

static int check_whole(const struct options *options, const struct export_format *format,
		       struct proton_error *err)
{
	const char *option = option_for_views(options);

	if (options->mode && format->needs_trace)
		return err_set(err, PROTON_E_INVALID,
			       "%s needs trace events, which %s does not have", format->name,
			       options->mode == VIEW_FLAT ? "a flat table" : "a bottom-up tree");
	if (option)
		return err_set(err, PROTON_E_INVALID,
			       "%s cannot be used with %s, which always contains the whole profile",
			       option, format->name);
	if (options->base || options->merge_how != MERGE_SUM)
		return err_set(err, PROTON_E_INVALID,
			       "%s produces a table, which %s cannot represent; use csv",
			       options->base ? "--diff" : "this --merge", format->name);
	return PROTON_OK;
}

static int check_view(const struct options *options, const struct export_view_format *format,
		      struct proton_error *err)
{
	bool is_table = !format->needs_weight && !format->is_report;
	bool is_stdout = !options->output || strcmp(options->output, "-") == 0;

	if (options->merge_how != MERGE_SUM && format->is_report)
		return err_set(err, PROTON_E_INVALID,
			       "this --merge produces a table, which %s cannot represent; use csv",
			       format->name);
	if (options->merge_how != MERGE_SUM && options->merge_how != MERGE_MEAN && !is_table)
		return err_set(err, PROTON_E_INVALID,
			       "this --merge produces non-additive values, which %s cannot "
			       "represent; use --merge mean, or csv",
			       format->name);
	if (format->takes_one && options->metric_count > 1)
		return err_set(err, PROTON_E_INVALID, "%s supports one metric, not %zu",
			       format->name, options->metric_count);
	if (format->is_binary && is_stdout && isatty(STDOUT_FILENO) == 1)
		return err_set(err, PROTON_E_INVALID, "%s is binary; write it to a file with -o",
			       format->name);
	return PROTON_OK;
}

int export_check(const struct options *options, struct proton_error *err)
{
	const char *screen = option_for_the_screen(options);
	struct export_target target;
	int status;

	if (screen)
		return err_set(err, PROTON_E_INVALID, "Cannot specify both --export and %s",
			       screen);
	status = export_target_find(options, &target, err);
	if (status)
		return status;
	return target.view ? check_view(options, target.view, err)
			   : check_whole(options, target.whole, err);
}

bool export_is_for_programs(const struct options *options)
{
	struct export_target target;
	struct proton_error err;

	if (export_target_find(options, &target, &err))
		return false;
	return target.view ? !target.view->is_report : !target.whole->needs_trace;
}

bool export_is_of_columns(const struct options *options)
{
	struct export_target target;
	struct proton_error err;

	if (export_target_find(options, &target, &err) || !target.view)
		return false;
	return options->merge_how != MERGE_SUM || (options->base && !target.view->is_report);
}
