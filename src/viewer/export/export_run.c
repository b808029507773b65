/*
 * --export: builds what an exporter needs from the command line, and runs it.
 *
 * Formats of a whole profile (export/export.h) get it as read, or as a flat table or bottom-up
 * tree. The others get a view (export/export_view.h) that is built here: per metric one column of
 * inclusive values, as in the tree, and one of exclusive values, for stacks and flame graphs.
 */
#include "viewer/export/export_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/message.h"
#include "export/bounds.h"
#include "viewer/export/export_measure.h"
#include "viewer/export/export_target.h"
#include "viewer/export/report_tables.h"
#include "viewer/export/save.h"
#include "viewer/print/progress.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/derive.h"
#include "viewer/query/filter.h"
#include "viewer/query/frame_names.h"
#include "viewer/query/raw_metrics.h"
#include "viewer/query/select.h"

/* Values per byte of the largest output; limits exports with many metrics. */
#define BYTES_PER_CELL 8u
/* Number of values from which on they are packed; every profile may have that many. */
#define PACKED_CELLS_MIN ((uint64_t)1 << 20)
#define PACKED_BYTES_MAX ((uint64_t)24 << 20)

/* ------------------------------------------------------------------ which metrics */

/* Metrics to export by default: all numeric ones, or the most important one. */
static size_t default_names(const struct metrics *metrics, const struct export_view_format *format,
			    const char **names)
{
	static const char *const telling[] = {"time", "cpu_time"};
	size_t count = 0;

	for (size_t i = 0; i < 2 && format->takes_one; i++) {
		const struct raw_metric *raw = metrics_find(metrics, telling[i]);

		if (raw && raw->source == RAW_NUMBER) {
			names[0] = raw->label;
			return 1;
		}
	}
	for (size_t i = 0; i < metrics->count; i++)
		if (metrics->raws[i].source == RAW_NUMBER)
			names[count++] = metrics->raws[i].label;
	return format->takes_one && count ? 1 : count;
}

/* Derived metrics that a report adds where they can be computed. */
static const char *const report_derived[] = {"avg_time/us", "tflop/s",   "tflop8/s", "tflop16/s",
					     "tflop32/s",   "tflop64/s", "gbyte/s",  "util"};

#define REPORT_METRICS_MAX (sizeof(report_derived) / sizeof(report_derived[0]))

static bool is_available(const struct metrics *metrics, const char *name)
{
	const char *family;
	const char *known;

	for (size_t i = 0; (known = derive_available(metrics, i, &family)) != NULL; i++)
		if (strcmp(known, name) == 0)
			return true;
	return false;
}

/* All numeric metrics, times in the unit of the tree, and the derived ones. */
static size_t report_names(const struct metrics *metrics, const char **names)
{
	size_t count = 0;

	for (size_t i = 0; i < metrics->count; i++) {
		const struct raw_metric *raw = &metrics->raws[i];

		if (raw->source != RAW_NUMBER)
			continue;
		names[count++] = strcmp(raw->name, "time") == 0       ? "time/ms"
				 : strcmp(raw->name, "cpu_time") == 0 ? "cpu_time/ms"
								      : raw->label;
	}
	for (size_t i = 0; i < REPORT_METRICS_MAX; i++)
		if (is_available(metrics, report_derived[i]))
			names[count++] = report_derived[i];
	return count;
}

/* The column of a requested metric; fails if the format cannot represent it. */
static int derive_total(struct derive *derive, const struct export_view_format *format,
			const char *name, struct metric_column *column, struct proton_error *err)
{
	int status = derive_column(derive, name, column, err);

	if (status)
		return status;
	if (!column->values)
		return err_set(err, PROTON_E_INVALID,
			       "metric %.100s is not numeric and cannot be exported as %s",
			       column->name, format->name);
	if (format->needs_weight && !column->is_additive)
		return err_set(err, PROTON_E_INVALID,
			       "metric %.100s is not additive and cannot be exported as %s",
			       column->name, format->name);
	return PROTON_OK;
}

/* ------------------------------------------------------------------ the view */

static void write_name(struct out *out, const struct export_view *view, uint32_t frame)
{
	name_write_styled(out, view->profile, frame, (enum name_format)view->name_format,
			  (enum name_style)view->name_style);
}

/* From node states to true or false, without the levels beyond --depth. */
static void show_levels(const struct profile *profile, uint8_t *state, size_t depth)
{
	uint32_t *levels = xcalloc(profile->node_count, sizeof(*levels));

	state[0] = 1;
	for (size_t i = 1; i < profile->node_count; i++) {
		uint32_t parent = profile->nodes[i].parent;

		levels[i] = levels[parent] + 1;
		state[i] = state[i] == NODE_SHOWN && state[parent] && levels[i] < depth;
	}
	free(levels);
}

static uint32_t *owners_of(const struct profile *profile, const uint8_t *shown)
{
	uint32_t *owner = xcalloc(profile->node_count, sizeof(*owner));

	for (size_t i = 1; i < profile->node_count; i++)
		owner[i] = shown[i] ? (uint32_t)i : owner[profile->nodes[i].parent];
	return owner;
}

static int write_view(const struct options *options, const struct export_target *target,
		      struct export_view *view, struct proton_error *err)
{
	const char *path = options->output;
	struct save save;
	int status = PROTON_OK;
	bool is_over;

	if (target->view && target->view->has_paths)
		status = export_check_paths(view, !target->view->needs_weight, err);
	if (status == PROTON_OK)
		status = save_begin(&save, path, options->no_clobber, err);
	if (status)
		return status;
	save.out->limit = bounds_output(view->profile);
	progress_begin("writing", path ? path : "-");
	status = target->view ? target->view->write(view, save.out, err)
			      : target->whole->write(view->profile, save.out, err);
	is_over = out_is_over(save.out);
	if (status || is_over)
		save_abandon(&save);
	else
		status = save_commit(&save, err);
	progress_end();
	return is_over ? bounds_refuse(view->profile, err) : status;
}

/* A view and the memory that belongs to it. */
struct chosen {
	struct export_view view;
	struct metrics metrics;
	struct derive derive;
	const char **names; /* of the metrics, as requested */
	size_t count;
	struct measure *measures; /* by metric */
	struct metric_column *thresholds;
	size_t threshold_count;
	struct export_metric *described;
	struct export_report report;
	char *title;
	uint8_t *state;
	uint32_t *owner;
};

static void chosen_fini(struct chosen *chosen)
{
	for (size_t i = 0; i < chosen->count; i++) {
		measure_fini(&chosen->measures[i]);
	}
	for (size_t i = 0; i < chosen->threshold_count; i++)
		metric_column_fini(&chosen->thresholds[i]);
	free(chosen->thresholds);
	report_fini(&chosen->report);
	free(chosen->described);
	free(chosen->measures);
	free(chosen->names);
	derive_fini(&chosen->derive);
	metrics_fini(&chosen->metrics);
	free(chosen->state);
	free(chosen->title);
	free(chosen->owner);
}

static void choose_names(struct chosen *chosen, const struct options *options,
			 const struct export_view_format *format)
{
	size_t asked = options->metric_count;
	size_t max = chosen->metrics.count + REPORT_METRICS_MAX;
	size_t space = asked > max ? asked : max;

	chosen->names = xcalloc(space, sizeof(*chosen->names));
	if (asked)
		memcpy(chosen->names, options->metrics, asked * sizeof(*chosen->names));
	if (asked)
		chosen->count = asked;
	else if (format->is_report)
		chosen->count = report_names(&chosen->metrics, chosen->names);
	else
		chosen->count = default_names(&chosen->metrics, format, chosen->names);
	chosen->measures = xcalloc(chosen->count, sizeof(*chosen->measures));
	chosen->described = xcalloc(chosen->count, sizeof(*chosen->described));
}

/* Tables have a value per metric and frame, and some formats need as many bytes or more. */
static int check_cells(const struct chosen *chosen, const struct profile *profile,
		       struct proton_error *err)
{
	uint64_t max = bounds_output(profile) / BYTES_PER_CELL;

	if (!chosen->count || profile->node_count <= max / chosen->count)
		return PROTON_OK;
	return err_set(err, PROTON_E_RANGE,
		       "%zu metrics of %zu frames exceed the output limit of a profile of this "
		       "size; select fewer metrics (-m)",
		       chosen->count, profile->node_count);
}

/*
 * Computes the values of all metrics one by one. If there are many, each is packed before the next
 * is computed. The total of the first metric exists already.
 */
static int measure_all(struct chosen *chosen, const struct export_view_format *format,
		       const struct profile *profile, struct proton_error *err)
{
	uint64_t bytes = bounds_profile_bytes(profile);
	bool is_packed = chosen->count > (PACKED_CELLS_MIN + bytes / 4) / profile->node_count;
	uint64_t used = 0;

	for (size_t i = 0; i < chosen->count; i++) {
		struct measure *measure = &chosen->measures[i];
		int status = i ? derive_total(&chosen->derive, format, chosen->names[i],
					      &measure->total, err)
			       : PROTON_OK;

		if (status)
			return status;
		measure_own(measure, &chosen->derive, chosen->names[i], chosen->state);
		chosen->described[i] = measure_describe(measure, profile, chosen->state);
		if (!is_packed)
			continue;
		used += measure_pack(measure, &chosen->described[i], profile->node_count);
		if (used > PACKED_BYTES_MAX + 16 * bytes)
			return err_set(
				err, PROTON_E_RANGE,
				"%zu metrics exceed the memory limit of a profile of this size; "
				"select fewer metrics (-m)",
				chosen->count);
	}
	return PROTON_OK;
}

/* Title: the first file and the number of others; both sides for a comparison. */
static char *make_title(const struct options *options, bool is_difference, bool is_partial)
{
	const char *suffix = is_partial ? " (partial)" : "";
	char *title;
	int length;

	if (is_difference)
		length = asprintf(&title, "%s against %s%s", options->path, options->base, suffix);
	else if (options->path_count > 1)
		length = asprintf(&title, "%s and %zu more%s", options->path,
				  options->path_count - 1, suffix);
	else
		length = asprintf(&title, "%s%s", options->path, suffix);
	if (length < 0)
		xgive_up();
	return title;
}

/* The columns that -t METRIC=VALUE tests. */
static int derive_thresholds(struct chosen *chosen, const struct options *options,
			     struct proton_error *err)
{
	chosen->thresholds = xcalloc(options->threshold_count, sizeof(*chosen->thresholds));
	for (size_t i = 0; i < options->threshold_count; i++) {
		int status = derive_column(&chosen->derive, options->thresholds[i].metric,
					   &chosen->thresholds[i], err);

		if (status)
			return status;
		chosen->threshold_count++;
	}
	return PROTON_OK;
}

static int choose_nodes(struct chosen *chosen, const struct options *options,
			const struct profile *profile, struct proton_error *err)
{
	struct thresholds thresholds = {.first = &chosen->measures[0].total};
	int status;

	/* In other modes, -i and -e have selected what the tree is built from. */
	if (options->mode == VIEW_TREE) {
		status = select_paths(options, profile, chosen->state, err);
		if (status)
			return status;
	}
	status = derive_thresholds(chosen, options, err);
	if (status)
		return status;
	thresholds.others = chosen->thresholds;
	status = select_minimum(options, profile, &thresholds, chosen->state, err);
	if (status == PROTON_OK && options->rows)
		select_rows(profile, chosen->measures[0].total.values, options->rows, false,
			    chosen->state);
	return status;
}

/* Fills in what all formats share, after nodes and metrics have been selected. */
static void fill_view(struct chosen *chosen, const struct options *options,
		      const struct export_view_format *format, const struct profile *profile)
{
	chosen->view = (struct export_view){
		.profile = profile,
		.title = chosen->title,
		.shown = chosen->state,
		.owner = chosen->owner,
		.metrics = chosen->described,
		.metric_count = chosen->count,
		.write_name = write_name,
		.name_format = options->format,
		/* Short C++ names for users; other programs get the recorded names. */
		.name_style = format->is_report || options->has_names ? options->names : NAMES_RAW,
	};
}

/* Release with chosen_fini(), even after an error. May replace *profile. */
static int chosen_init(struct chosen *chosen, const struct options *options,
		       const struct export_view_format *format, struct profile **profile,
		       struct proton_error *err)
{
	int status;

	*chosen = (struct chosen){
		.title = make_title(options, false, profile_is_partial(*profile)),
	};
	status = view_turn(profile, options, &chosen->state, err);
	if (status)
		return status;
	metrics_init(&chosen->metrics, *profile);
	derive_init(&chosen->derive, &chosen->metrics);
	choose_names(chosen, options, format);
	status = check_cells(chosen, *profile, err);
	if (status == PROTON_OK && chosen->count)
		status = derive_total(&chosen->derive, format, chosen->names[0],
				      &chosen->measures[0].total, err);
	if (status == PROTON_OK && chosen->count == 0 && format->needs_weight)
		status = err_set(err, PROTON_E_INVALID, "%s contains no measurements",
				 options->path);
	if (status == PROTON_OK && chosen->count)
		status = choose_nodes(chosen, options, *profile, err);
	if (status)
		return status;
	show_levels(*profile, chosen->state, options->depth);
	chosen->owner = owners_of(*profile, chosen->state);
	status = measure_all(chosen, format, *profile, err);
	if (status)
		return status;
	fill_view(chosen, options, format, *profile);
	if (format->is_report) {
		report_init(&chosen->report, &chosen->metrics, chosen->state);
		chosen->view.report = &chosen->report;
	}
	return PROTON_OK;
}

static int write_chosen(const struct options *options, const struct export_target *target,
			struct chosen *chosen, struct proton_error *err)
{
	int status = write_view(options, target, &chosen->view, err);

	if (status == PROTON_OK && chosen->view.negative_count)
		message("omitted %" PRIu64 " negative values, which %s cannot represent",
			chosen->view.negative_count, target->view->name);
	return status;
}

static int export_view(const struct options *options, const struct export_target *target,
		       struct profile **profile, struct profile **base, struct proton_error *err)
{
	struct chosen chosen;
	struct chosen before = {0};
	int status = chosen_init(&chosen, options, target->view, profile, err);

	if (status == PROTON_OK && *base) {
		status = chosen_init(&before, options, target->view, base, err);
		before.view.title = options->base;
		chosen.view.other = &before.view;
	}
	if (status == PROTON_OK)
		status = write_chosen(options, target, &chosen, err);
	chosen_fini(&chosen);
	chosen_fini(&before);
	return status;
}

static int export_whole(const struct options *options, const struct export_target *target,
			struct profile **profile, struct proton_error *err)
{
	struct export_view view = {0};
	uint8_t *state;

	/* In tree mode the profile is exported unchanged. */
	if (options->mode != VIEW_TREE) {
		int status = view_turn(profile, options, &state, err);

		if (status)
			return status;
		free(state);
	}
	view.profile = *profile;
	return write_view(options, target, &view, err);
}

int export_run(const struct options *options, struct profile **profile, struct profile **base,
	       struct proton_error *err)
{
	struct export_target target;
	int status = export_target_find(options, &target, err);

	if (status)
		return status;
	return target.view ? export_view(options, &target, profile, base, err)
			   : export_whole(options, &target, profile, err);
}

/* ------------------------------------------------------------------ columns */

/*
 * The columns that the format can represent. Sizes must be additive: in a comparison these are the
 * columns before and after.
 */
static int take_columns(struct chosen *chosen, struct view *view,
			const struct export_view_format *format, struct proton_error *err)
{
	chosen->measures = xcalloc(view->shown_count, sizeof(*chosen->measures));
	for (size_t i = 0; i < view->shown_count; i++) {
		struct metric_column *column = &view->columns[i];

		if (format->needs_weight && !(column->is_additive && column->values))
			continue;
		chosen->measures[chosen->count++].total = *column;
		*column = (struct metric_column){0}; /* moved */
	}
	if (chosen->count == 0)
		return err_set(err, PROTON_E_INVALID,
			       "metric %.100s is not additive and cannot be exported as %s",
			       view->columns[0].name, format->name);
	return PROTON_OK;
}

int export_columns(const struct options *options, struct view *view, struct proton_error *err)
{
	const struct profile *profile = view->profile;
	struct chosen chosen = {
		.title = make_title(options, options->base != NULL, profile_is_partial(profile)),
	};
	struct export_target target;
	int status = export_target_find(options, &target, err);

	chosen.state = xcalloc(profile->node_count, sizeof(*chosen.state));
	memcpy(chosen.state, view->state, profile->node_count);
	if (status == PROTON_OK && options->rows)
		select_rows(profile, view->columns[view->sort_column].values, options->rows,
			    view->by_magnitude, chosen.state);
	if (status == PROTON_OK)
		status = take_columns(&chosen, view, target.view, err);
	if (status == PROTON_OK) {
		show_levels(profile, chosen.state, options->depth);
		chosen.owner = owners_of(profile, chosen.state);
		chosen.described = xcalloc(chosen.count, sizeof(*chosen.described));
		for (size_t i = 0; i < chosen.count; i++) {
			measure_compared(&chosen.measures[i], profile, chosen.state);
			chosen.described[i] =
				measure_describe(&chosen.measures[i], profile, chosen.state);
		}
		fill_view(&chosen, options, target.view, profile);
		status = write_chosen(options, &target, &chosen, err);
	}
	chosen_fini(&chosen);
	return status;
}
