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

#include "base/array.h"
#include "base/message.h"
#include "base/replace.h"
#include "export/bounds.h"
#include "format/profile_view.h"
#include "format/target.h"
#include "viewer/export/export_measure.h"
#include "viewer/export/report_pages.h"
#include "viewer/export/save.h"
#include "viewer/print/printers.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/derive.h"
#include "viewer/query/filter.h"
#include "viewer/query/frame_names.h"
#include "viewer/query/raw_metrics.h"
#include "viewer/query/select.h"
#include "viewer/ranks/rank_report.h"
#include "viewer/ranks/rank_views.h"

/* Values per byte of the largest output; limits exports with many metrics. */
#define BYTES_PER_CELL 8u
/* Number of values from which on they are packed; every profile may have that many. */
#define PACKED_CELLS_MIN ((uint64_t)1 << 20)
#define PACKED_BYTES_MIN ((uint64_t)8 << 20) /* allowed for every profile */

/* ------------------------------------------------------------------ which metrics */

/* Metrics to export by default: all numeric ones, or the max important one. */
static size_t default_names(const struct metrics *metrics, const struct exporter *exporter,
			    const char **names)
{
	static const char *const telling[] = {"time", "cpu_time"};
	size_t count = 0;

	for (size_t i = 0; i < 2 && exporter->takes_one; i++) {
		if (metrics_has_number(metrics, telling[i])) {
			names[0] = metrics_find(metrics, telling[i])->label;
			return 1;
		}
	}
	for (size_t i = 0; i < metrics->count; i++)
		if (metrics->raws[i].source == RAW_NUMBER)
			names[count++] = metrics->raws[i].label;
	if (exporter->takes_one || exporter->needs_weight || !derive_compares_ranks(metrics))
		return exporter->takes_one && count ? 1 : count;
	names[count++] = "slowest/ns"; /* as times are */
	names[count++] = "slowest_rank";
	names[count++] = "imbalance/%";
	return count;
}

/* Derived metrics that a report adds where they can be computed. */
static const char *const report_derived[] = {"avg_time/us", "tflop/s",      "tflop8/s",
					     "tflop16/s",   "tflop32/s",    "tflop64/s",
					     "gbyte/s",     "dram_gbyte/s", "util",
					     "occupancy",   "slowest/ms",   "slowest_rank",
					     "imbalance/%"};

#define REPORT_METRICS_MAX (sizeof(report_derived) / sizeof(report_derived[0]))

/* All numeric metrics, times in the unit of the tree, and the derived ones. */
static size_t report_names(const struct metrics *metrics, const char **names)
{
	size_t count = 0;

	ARRAY_EACH(raw, metrics->raws, metrics->count) {
		if (raw->source != RAW_NUMBER)
			continue;
		names[count++] = strcmp(raw->name, "time") == 0       ? "time/ms"
				 : strcmp(raw->name, "cpu_time") == 0 ? "cpu_time/ms"
								      : raw->label;
	}
	for (size_t i = 0; i < REPORT_METRICS_MAX; i++)
		if (derive_is_available(metrics, report_derived[i]) &&
		    (!derive_is_of_ranks(report_derived[i]) || derive_compares_ranks(metrics)))
			names[count++] = report_derived[i];
	return count;
}

/* The column of a requested metric; fails if the format cannot represent it. */
static int derive_total(const struct metrics *metrics, const struct exporter *exporter,
			const char *name, struct metric_column *column, struct proton_error *err)
{
	int status = derive_column(metrics, name, column, err);

	if (status)
		return status;
	if (!column->values)
		return err_set(err, PROTON_E_INVALID,
			       "metric %.100s is not numeric and cannot be exported as %s",
			       column->name, exporter->name);
	if (exporter->needs_weight && !column->is_additive)
		return err_set(err, PROTON_E_INVALID,
			       "metric %.100s is not additive and cannot be exported as %s",
			       column->name, exporter->name);
	return PROTON_OK;
}

/* ------------------------------------------------------------------ the view */

static void write_name(struct out *out, const struct export_view *view, uint32_t frame)
{
	name_write_shown(out, view->profile, frame, (enum name_format)view->name_format,
			 (enum name_style)view->name_style);
}

/* From node states to true or false, without the levels beyond --depth. */
static void show_levels(const struct profile *profile, uint8_t *state, size_t depth)
{
	AUTO_FREE uint32_t *levels = xcalloc(profile->node_count, sizeof(*levels));

	state[0] = 1;
	for (size_t i = 1; i < profile->node_count; i++) {
		uint32_t parent = profile->nodes[i].parent;

		levels[i] = levels[parent] + 1;
		state[i] = state[i] == NODE_SHOWN && state[parent] && levels[i] < depth;
	}
}

static uint32_t *owners_of(const struct profile *profile, const uint8_t *shown)
{
	uint32_t *owner = xcalloc(profile->node_count, sizeof(*owner));

	for (size_t i = 1; i < profile->node_count; i++)
		owner[i] = shown[i] ? (uint32_t)i : owner[profile->nodes[i].parent];
	return owner;
}

/* A view and the memory that belongs to it. */
struct chosen {
	struct export_view view;
	struct metrics metrics;
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
	FREE_ALL(chosen->described, chosen->measures, chosen->names);
	metrics_fini(&chosen->metrics);
	FREE_ALL(chosen->state, chosen->title, chosen->owner);
}

static void choose_names(struct chosen *chosen, const struct options *options,
			 const struct exporter *exporter)
{
	size_t asked = options->query.metric_count;
	size_t max = chosen->metrics.count + REPORT_METRICS_MAX;
	size_t space = asked > max ? asked : max;

	chosen->names = xcalloc(space, sizeof(*chosen->names));
	if (asked)
		memcpy(chosen->names, options->query.metrics, asked * sizeof(*chosen->names));
	if (asked)
		chosen->count = asked;
	else if (exporter->input == EXPORTS_REPORT)
		chosen->count = report_names(&chosen->metrics, chosen->names);
	else
		chosen->count = default_names(&chosen->metrics, exporter, chosen->names);
	chosen->measures = xcalloc(chosen->count, sizeof(*chosen->measures));
	chosen->described = xcalloc(chosen->count, sizeof(*chosen->described));
}

/*
 * Computes the values of all metrics one by one. If there are many, each is packed before the next
 * is computed. The total of the first metric exists already.
 */
static int measure_all(struct chosen *chosen, const struct exporter *exporter,
		       const struct profile *profile, struct proton_error *err)
{
	uint64_t bytes = bounds_profile_bytes(profile);
	bool is_packed = chosen->count > (PACKED_CELLS_MIN + bytes / 4) / profile->node_count;
	uint64_t max = PACKED_BYTES_MIN + bounds_memory_left(profile);
	uint64_t used = 0;

	for (size_t i = 0; i < chosen->count; i++) {
		struct measure *measure = &chosen->measures[i];
		int status = i ? derive_total(&chosen->metrics, exporter, chosen->names[i],
					      &measure->total, err)
			       : PROTON_OK;

		if (status)
			return status;
		measure_own(measure, &chosen->metrics, chosen->names[i], chosen->state);
		chosen->described[i] = measure_describe(measure, profile, chosen->state);
		if (!is_packed)
			continue;
		used += measure_pack(measure, &chosen->described[i], profile->node_count);
		if (used > max)
			return err_set(
				err, PROTON_E_RANGE,
				"%zu metrics exceed the memory limit of a profile of this size; "
				"select fewer metrics (-m)",
				chosen->count);
	}
	return PROTON_OK;
}

/* The first file and the number of others. */
static char *name_side(char *const *paths, size_t count)
{
	return count > 1 ? xasprintf("%s and %zu more", paths[0], count - 1) : xstrdup(paths[0]);
}

/* Title: both sides for a comparison. */
static char *make_title(const struct options *options, bool is_difference, bool is_partial)
{
	const struct query_options *query = &options->query;
	AUTO_FREE char *after = name_side(query->paths, query->path_count);
	AUTO_FREE char *before = is_difference ? name_side(query->bases, query->base_count)
					       : xstrdup("");
	return xasprintf("%s%s%s%s", after, is_difference ? " against " : "", before,
			 is_partial ? " (partial)" : "");
}

/* The columns that -t METRIC=VALUE tests. */
static int derive_thresholds(struct chosen *chosen, const struct options *options,
			     struct proton_error *err)
{
	chosen->thresholds = xcalloc(options->query.threshold_count, sizeof(*chosen->thresholds));
	for (size_t i = 0; i < options->query.threshold_count; i++) {
		int status = derive_column(&chosen->metrics, options->query.thresholds[i].metric,
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
	if (options->query.mode == VIEW_TREE) {
		status = select_paths(options, profile, chosen->state, err);
		if (status)
			return status;
	}
	status = derive_thresholds(chosen, options, err);
	if (status)
		return status;
	thresholds.others = chosen->thresholds;
	status = select_minimum(options, profile, &thresholds, chosen->state, err);
	if (status == PROTON_OK && options->query.rows)
		select_rows(profile, chosen->measures[0].total.values, options->query.rows, false,
			    chosen->state);
	return status;
}

/* Fills in what all formats share, after nodes and metrics have been selected. */
static void fill_view(struct chosen *chosen, const struct options *options,
		      const struct exporter *exporter, const struct profile *profile)
{
	chosen->view = (struct export_view){
		.profile = profile,
		.title = chosen->title,
		.shown = chosen->state,
		.owner = chosen->owner,
		.metrics = chosen->described,
		.metric_count = chosen->count,
		.write_name = write_name,
		.name_format = options->style.format,
		/* Short C++ names for users; other programs get the recorded names. */
		.name_style = exporter->input == EXPORTS_REPORT
				      ? options->style.names
				      : style_stored_names(&options->style),
	};
}

/* Release with chosen_fini(), even after an error. May replace *profile. */
static int chosen_init(struct chosen *chosen, const struct options *options,
		       struct profile **profile, struct proton_error *err)
{
	const struct exporter *exporter = options->output.exporter;
	size_t hidden = hiding_count();

	*chosen = (struct chosen){
		.title = make_title(options, false, profile_is_partial(*profile)),
	};
	int status = view_turn(profile, options, &chosen->state, err);
	if (status)
		return status;
	hidden = hiding_count() - hidden;
	metrics_init(&chosen->metrics, *profile);
	choose_names(chosen, options, exporter);
	/* Tables have a value per metric and frame, and some formats need as many bytes or more. */
	uint64_t cells = bounds_output(*profile) / BYTES_PER_CELL;
	if (chosen->count && (*profile)->node_count > cells / chosen->count)
		return err_set(err, PROTON_E_RANGE,
			       "%zu metrics of %zu frames exceed the output limit of a profile of "
			       "this size; select fewer metrics (-m)",
			       chosen->count, (*profile)->node_count);
	if (chosen->count)
		status = derive_total(&chosen->metrics, exporter, chosen->names[0],
				      &chosen->measures[0].total, err);
	if (status == PROTON_OK && chosen->count == 0 && exporter->needs_weight)
		status = err_set(err, PROTON_E_INVALID, "%s contains no measurements",
				 options->query.paths[0]);
	if (status == PROTON_OK && chosen->count)
		status = choose_nodes(chosen, options, *profile, err);
	if (status)
		return status;
	show_levels(*profile, chosen->state, options->query.depth);
	chosen->owner = owners_of(*profile, chosen->state);
	status = measure_all(chosen, exporter, *profile, err);
	if (status)
		return status;
	fill_view(chosen, options, exporter, *profile);
	if (exporter->input == EXPORTS_REPORT) {
		report_init(&chosen->report, &chosen->metrics, chosen->state);
		chosen->report.hidden_count = hidden;
		chosen->report.hidden_by = hiding_option(&options->query.hiding) ?: "";
		chosen->view.report = &chosen->report;
	}
	return PROTON_OK;
}

/* A format and what it writes. */
struct job {
	const struct exporter *exporter;
	struct export_view *view;
};

static int write_job(const void *context, struct out *out, struct proton_error *err)
{
	const struct job *job = context;

	if (job->exporter->write)
		return job->exporter->write(job->view->profile, out, err);
	job->exporter->write_view(job->view, out);
	return PROTON_OK;
}

static int write_view(const struct options *options, struct export_view *view,
		      struct proton_error *err)
{
	const struct job job = {options->output.exporter, view};
	int status = PROTON_OK;

	if (job.exporter->has_paths)
		status = export_check_paths(view, !job.exporter->needs_weight, err);
	if (status == PROTON_OK)
		status = save_output(&options->output, view->profile, write_job, &job, err);
	if (status == PROTON_OK && view->negative_count)
		message("omitted %" PRIu64 " negative values, which %s cannot represent",
			view->negative_count, job.exporter->name);
	return status;
}

/* The printed text of some views. */
static void write_texts(const struct profile *profile, const struct options *options,
			struct export_report *report)
{
	AUTO_FREE uint8_t *all_shown = xcalloc(profile->node_count, sizeof(*all_shown));
	struct report text = {.out = &report->warps, .options = options, .is_page = true};
	AT_END(warps_report_fini) struct warps_report warps;

	warps_report_init(&warps, profile, all_shown);
	if (warps.kernel_count)
		warps_write(&warps, &text);
	if (profile->ranks && wait_report_is_there(profile))
		wait_report_text(profile, WAITS_DEFAULT, options->style.names, &report->waits);
}

static int export_view(const struct options *options, struct input *input, struct profile **profile,
		       struct profile **base, struct proton_error *err)
{
	AT_END(chosen_fini) struct chosen chosen;
	AT_END(chosen_fini) struct chosen before = {0};
	int status = chosen_init(&chosen, options, profile, err);
	struct export_report *report = chosen.view.report;

	if (status == PROTON_OK && *base) {
		status = chosen_init(&before, options, base, err);
		free(before.title);
		before.title = name_side(options->query.bases, options->query.base_count);
		before.view.title = before.title;
		chosen.view.other = &before.view;
	}
	/* The other modes have no lines below kernels. */
	if (status == PROTON_OK && report && options->query.mode == VIEW_TREE) {
		status = report_source_write(*profile, options, &report->source, err);
		report_ranks_write(*profile, options, &report->ranks);
		rank_traces_report(input, &chosen.view, &report->timeline);
		write_texts(*profile, options, report);
	}
	if (status == PROTON_OK)
		status = write_view(options, &chosen.view, err);
	return status;
}

int export_run(const struct options *options, struct input *input, struct profile **profile,
	       struct profile **base, struct proton_error *err)
{
	struct export_view whole = {0};
	uint8_t *state;

	if (options->output.exporter->write_view)
		return export_view(options, input, profile, base, err);
	/* In tree mode the profile is exported unchanged. */
	if (options->query.mode != VIEW_TREE) {
		int status = view_turn(profile, options, &state, err);

		if (status)
			return status;
		free(state);
	}
	whole.profile = *profile;
	return write_view(options, &whole, err);
}

/* ------------------------------------------------------------------ columns */

/*
 * The columns that the format can represent. Sizes must be additive: in a comparison these are the
 * columns before and after.
 */
static int take_columns(struct chosen *chosen, struct view *view, const struct exporter *exporter,
			struct proton_error *err)
{
	chosen->measures = xcalloc(view->shown_count, sizeof(*chosen->measures));
	for (size_t i = 0; i < view->shown_count; i++) {
		struct metric_column *column = &view->columns[i];

		if (exporter->needs_weight && !(column->is_additive && column->values))
			continue;
		chosen->measures[chosen->count++].total = *column;
		*column = (struct metric_column){0}; /* moved */
	}
	if (chosen->count == 0)
		return err_set(err, PROTON_E_INVALID,
			       "metric %.100s is not additive and cannot be exported as %s",
			       view->columns[0].name, exporter->name);
	return PROTON_OK;
}

int export_columns(const struct options *options, struct view *view, struct proton_error *err)
{
	const struct profile *profile = view->profile;
	AT_END(chosen_fini)
	struct chosen chosen = {
		.title = make_title(options, options->query.base != NULL,
				    profile_is_partial(profile)),
	};
	const struct exporter *exporter = options->output.exporter;

	chosen.state = xcalloc(profile->node_count, sizeof(*chosen.state));
	memcpy(chosen.state, view->state, profile->node_count);
	if (options->query.rows)
		select_rows(profile, view->columns[view->sort_column].values, options->query.rows,
			    view->by_magnitude, chosen.state);
	int status = take_columns(&chosen, view, exporter, err);
	if (status == PROTON_OK) {
		show_levels(profile, chosen.state, options->query.depth);
		chosen.owner = owners_of(profile, chosen.state);
		chosen.described = xcalloc(chosen.count, sizeof(*chosen.described));
		for (size_t i = 0; i < chosen.count; i++) {
			measure_compared(&chosen.measures[i], profile, chosen.state);
			chosen.described[i] =
				measure_describe(&chosen.measures[i], profile, chosen.state);
		}
		fill_view(&chosen, options, exporter, profile);
		status = write_view(options, &chosen.view, err);
	}
	return status;
}

/* ------------------------------------------------------------------ --strip */

static int write_copy(const struct profile_view *view, const char *path, bool no_clobber,
		      struct proton_error *err)
{
	struct file_replace file;
	int status = target_check(path, no_clobber, NULL, err);

	if (status == PROTON_OK)
		status = file_replace_begin(&file, path, err);
	if (status != PROTON_OK)
		return status;
	file.is_exclusive = no_clobber;
	return file_replace_end(&file, profile_strip(view, &file.out, err), err);
}

int strip_run(const char *path, const char *output, bool no_clobber, struct proton_error *err)
{
	struct profile_view view;
	AUTO_FREE char *bytes = NULL;
	size_t length;
	int status = file_read_all(path, NULL, &bytes, &length, err);

	if (status != PROTON_OK)
		return status;
	if (!profile_view_recognize(bytes, length))
		status = err_set(err, PROTON_E_FORMAT,
				 "cannot strip %s: it is not a .proton file; record or merge with "
				 "that format",
				 input_display_name(path));
	else
		status = profile_view_open(&view, bytes, length, err);
	if (status == PROTON_OK) {
		if (view.is_damaged || view.state != PROFILE_FILE_FINISHED)
			status = err_set(err, PROTON_E_FORMAT,
					 "cannot strip %s: it is not complete",
					 input_display_name(path));
		else
			status = write_copy(&view, output, no_clobber, err);
		profile_view_fini(&view);
	}
	return status;
}
