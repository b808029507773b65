/*
 * From the command line to an exporter. See export_run.h.
 *
 * Formats of a whole profile (export/export.h) get it as it was read. The others get a view of it
 * (export/view.h), made here: one column per metric with the numbers that the tree shows, and one
 * with what each frame adds itself, which is what stacks and flame graphs are drawn of.
 */
#include "viewer/export_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "export/export.h"
#include "export/view.h"
#include "model/rollup.h"
#include "viewer/derive.h"
#include "viewer/figure.h"
#include "viewer/filter.h"
#include "viewer/metrics.h"
#include "viewer/names.h"
#include "viewer/progress.h"
#include "viewer/report.h"
#include "viewer/save.h"
#include "viewer/say.h"
#include "viewer/select.h"
#include "viewer/xalloc.h"

/* One of the two tables' formats. */
struct target {
	const struct export_format *whole;
	const struct export_view_format *view;
};

/* Both tables one after the other; false past the end. */
static bool target_at(size_t index, struct target *target)
{
	size_t views = 0;

	while (export_view_format_at(views))
		views++;
	*target = (struct target){0};
	if (index < views)
		target->view = export_view_format_at(index);
	else
		target->whole = export_format_at(index - views);
	return target->view || target->whole;
}

static const char *target_name(const struct target *target)
{
	return target->view ? target->view->name : target->whole->name;
}

static const char *target_suffix(const struct target *target)
{
	return target->view ? target->view->suffix : target->whole->suffix;
}

static void list_formats(char *text, size_t capacity)
{
	struct target target;
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

static int find_target(const struct options *options, struct target *target,
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
		return err_set(err, PROTON_E_INVALID,
			       "Unknown export format: %.60s; the formats are %s",
			       options->export_format, known);
	return err_set(err, PROTON_E_INVALID,
		       "the name %.200s does not tell a format; choose one with --export: %s",
		       options->output, known);
}

/* What the screen's options could mean for a file that holds everything. */
static const char *option_for_views(const struct options *options)
{
	return options->metric_count    ? "--metrics"
	       : options->include       ? "--include"
	       : options->exclude       ? "--exclude"
	       : options->has_threshold ? "--threshold"
	       : options->depth_is_set  ? "--depth"
	       : options->format        ? "--format"
					: NULL;
}

int export_check(const struct options *options, struct proton_error *err)
{
	const char *screen = options->csv            ? "--csv"
			     : options->json         ? "--json"
			     : options->gate_count   ? "--fail-if"
			     : options->mode         ? "--top, --group or --bottom-up"
			     : options->merge_how    ? "--merge"
			     : options->list         ? "--list"
			     : options->print_sorted ? "--print-sorted"
						     : NULL;
	const char *option = option_for_views(options);
	struct target target;
	int status;

	if (options->threshold_count)
		return err_set(err, PROTON_E_INVALID,
			       "--export knows --threshold VALUE only, not METRIC=VALUE");
	if (screen)
		return err_set(err, PROTON_E_INVALID, "Cannot specify both --export and %s",
			       screen);
	status = find_target(options, &target, err);
	if (status)
		return status;
	if (target.whole && option)
		return err_set(err, PROTON_E_INVALID,
			       "%s has no meaning for %s, which holds the whole profile", option,
			       target.whole->name);
	if (options->base && !(target.view && target.view->is_report))
		return err_set(err, PROTON_E_INVALID, "--diff has no meaning for %s",
			       target_name(&target));
	if (target.view && target.view->takes_one && options->metric_count > 1)
		return err_set(err, PROTON_E_INVALID, "%s holds one metric, not %zu",
			       target.view->name, options->metric_count);
	if (target.view && target.view->is_binary && isatty(STDOUT_FILENO) == 1 &&
	    (!options->output || strcmp(options->output, "-") == 0))
		return err_set(err, PROTON_E_INVALID,
			       "%s is nothing for a terminal; name a file with -o",
			       target.view->name);
	return PROTON_OK;
}

/* ------------------------------------------------------------------ columns */

/* A metric, and the memory behind it. */
struct measure {
	struct metric_column total;
	struct metric_column own;
};

static const char *unit_of(const struct metric_column *column)
{
	static const struct {
		double ns;
		const char *name;
	} times[] = {
		{1, "nanoseconds"}, {1e3, "microseconds"}, {1e6, "milliseconds"}, {1e9, "seconds"}};
	size_t length = strlen(column->name);

	if (length > 2 && strcmp(column->name + length - 2, "/%") == 0)
		return "percent";
	if (!column->source)
		return "";
	if (strcmp(column->source->name, "time") == 0 ||
	    strcmp(column->source->name, "cpu_time") == 0) {
		double ns = metrics_unit_ns(column->source->label) * column->divisor;

		for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
			if (times[i].ns == ns)
				return times[i].name;
	}
	if (!column->is_additive)
		return ""; /* a rate of it */
	if (strcmp(column->source->name, "bytes") == 0)
		return "bytes";
	return strcmp(column->source->name, "count") == 0 ? "count" : "";
}

/* What is not shown still counts in the frame above it. */
static void keep_hidden(const struct profile *profile, const uint8_t *shown,
			struct measure *measure)
{
	struct metric_column *own = &measure->own;

	for (size_t i = 1; i < profile->node_count; i++) {
		uint32_t parent = profile->nodes[i].parent;
		double below = measure->total.values[i];

		if (shown[i] || !shown[parent] || isnan(below) || below == 0)
			continue;
		own->values[parent] = isnan(own->values[parent]) ? below
								 : own->values[parent] + below;
		if (own->exact && measure->total.exact)
			own->exact[parent] += measure->total.exact[i];
	}
}

/*
 * Time inside a scope includes that of timed scopes in it. What is the scope's own is the rest; it
 * is none if what is inside ran side by side.
 */
static void unnest(const struct profile *profile, const uint8_t *shown, struct metric_column *own)
{
	double *inside = xcalloc(profile->node_count, sizeof(*inside));

	for (size_t i = profile->node_count; i-- > 0;) {
		double value = own->values[i];
		double whole = isnan(value) ? inside[i] : value;

		if (!shown[i])
			continue;
		if (!isnan(value))
			own->values[i] = value > inside[i] ? value - inside[i] : 0;
		if (own->exact && !isnan(value))
			own->exact[i] = (int64_t)own->values[i];
		if (i > 0)
			inside[profile->nodes[i].parent] += whole;
	}
	free(inside);
}

static void make_own(struct derive *derive, const char *name, const uint8_t *shown,
		     struct measure *measure)
{
	const struct profile *profile = derive->metrics->profile;

	if (!measure->total.is_additive || !measure->total.values)
		return;
	if (derive_own_column(derive, name, &measure->own, NULL))
		xgive_up(); /* the name is known, so it is memory that is not */
	if (measure->own.is_inclusive)
		keep_hidden(profile, shown, measure);
	else if (strcmp(measure->own.source->name, "cpu_time") == 0)
		unnest(profile, shown, &measure->own);
}

/* As in the tree, whose columns have one style each. */
static struct figure_style style_of(const struct metric_column *column,
				    const struct profile *profile, const uint8_t *shown)
{
	double largest = 0;

	for (size_t i = 0; i < profile->node_count; i++)
		if (shown[i] && isfinite(column->values[i]) && fabs(column->values[i]) > largest)
			largest = fabs(column->values[i]);
	return figure_style_for(largest, column->exact != NULL);
}

static struct export_metric describe(const struct measure *measure, const struct profile *profile,
				     const uint8_t *shown)
{
	const struct metric_column *total = &measure->total;
	struct export_metric metric = {
		.name = total->name,
		.unit = unit_of(total),
		.total = total->values,
		.total_exact = total->exact,
		.own = measure->own.values,
		.own_exact = measure->own.exact,
		.is_inclusive = total->is_inclusive,
		.field = EXPORT_NO_FIELD,
		.per_unit = total->divisor,
	};
	struct figure_style style = style_of(total, profile, shown);

	metric.decimals = style.decimals;
	metric.is_scientific = style.is_scientific;

	if (measure->own.values && total->is_inclusive) {
		if (strcmp(total->source->name, "time") == 0)
			metric.field = KERNEL_TOTAL_NS;
		else if (strcmp(total->source->name, "count") == 0)
			metric.field = KERNEL_COUNT;
	}
	return metric;
}

/* What is exported when nobody chose: everything that is a number, or the most telling one. */
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

/* Metrics that a report shows besides what was recorded, where they can be derived. */
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

/* Everything that is a number, times in the unit that the tree shows, and what follows from it. */
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

/* The columns of the metrics asked for; which ones it could be made of is checked. */
static int derive_all(struct derive *derive, const struct export_view_format *format,
		      const char *const *names, struct measure *measures, size_t count,
		      struct proton_error *err)
{
	for (size_t i = 0; i < count; i++) {
		struct metric_column *column = &measures[i].total;
		int status = derive_column(derive, names[i], column, err);

		if (status)
			return status;
		if (!column->values)
			return err_set(err, PROTON_E_INVALID,
				       "metric %.100s is no number, and %s holds numbers",
				       column->name, format->name);
		if (format->needs_weight && !column->is_additive)
			return err_set(err, PROTON_E_INVALID,
				       "metric %.100s does not add up, and %s shows what does",
				       column->name, format->name);
	}
	return PROTON_OK;
}

/* ------------------------------------------------------------------ the view */

static void write_name(struct out *out, const struct export_view *view, uint32_t frame)
{
	name_write_styled(out, view->profile, frame, (enum name_format)view->name_format,
			  (enum name_style)view->name_style);
}

/* From states to yes and no, with the levels below --depth left out. */
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

static int write_view(const struct target *target, struct export_view *view, const char *path,
		      struct proton_error *err)
{
	struct save save;
	int status = save_begin(&save, path, err);

	if (status)
		return status;
	progress_begin("writing", path ? path : "-");
	status = target->view ? target->view->write(view, save.out, err)
			      : target->whole->write(view->profile, save.out, err);
	if (status)
		save_abandon(&save);
	else
		status = save_commit(&save, err);
	progress_end();
	return status;
}

/* A view, and the memory behind it. */
struct chosen {
	struct export_view view;
	struct metrics metrics;
	struct derive derive;
	const char **names; /* of the metrics, as they were asked for */
	size_t count;
	struct measure *measures; /* by metric */
	struct export_metric *described;
	struct export_report report;
	char *title;
	uint8_t *state;
	uint32_t *owner;
};

static void chosen_fini(struct chosen *chosen)
{
	for (size_t i = 0; i < chosen->count; i++) {
		metric_column_fini(&chosen->measures[i].total);
		metric_column_fini(&chosen->measures[i].own);
	}
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
	size_t most = chosen->metrics.count + REPORT_METRICS_MAX;
	size_t room = asked > most ? asked : most;

	chosen->names = xcalloc(room, sizeof(*chosen->names));
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

/* Of the first file, and how many more there are. */
static char *make_title(const struct options *options)
{
	char *title;
	int length = options->path_count > 1 ? asprintf(&title, "%s and %zu more", options->path,
							options->path_count - 1)
					     : asprintf(&title, "%s", options->path);

	if (length < 0)
		xgive_up();
	return title;
}

/* To be released with chosen_fini(), also after an error. */
static int chosen_init(struct chosen *chosen, const struct options *options,
		       const struct export_view_format *format, struct profile *profile,
		       struct proton_error *err)
{
	size_t depth = options->depth_is_set ? options->depth : SIZE_MAX;
	int status;

	*chosen = (struct chosen){.state = filter_prune(profile), .title = make_title(options)};
	metrics_init(&chosen->metrics, profile);
	derive_init(&chosen->derive, &chosen->metrics);
	choose_names(chosen, options, format);
	status = derive_all(&chosen->derive, format, chosen->names, chosen->measures, chosen->count,
			    err);
	if (status == PROTON_OK && chosen->count == 0 && format->needs_weight)
		status =
			err_set(err, PROTON_E_INVALID, "nothing was measured in %s", options->path);
	if (status == PROTON_OK && chosen->count)
		status = select_nodes(options, profile, &chosen->measures[0].total, chosen->state,
				      err);
	if (status)
		return status;
	show_levels(profile, chosen->state, depth);
	chosen->owner = owners_of(profile, chosen->state);
	for (size_t i = 0; i < chosen->count; i++) {
		make_own(&chosen->derive, chosen->names[i], chosen->state, &chosen->measures[i]);
		chosen->described[i] = describe(&chosen->measures[i], profile, chosen->state);
	}
	chosen->view = (struct export_view){
		.profile = profile,
		.title = chosen->title,
		.shown = chosen->state,
		.owner = chosen->owner,
		.metrics = chosen->described,
		.metric_count = chosen->count,
		.write_name = write_name,
		.name_format = options->format,
		/* As where people read; other programs get what was recorded. */
		.name_style = format->is_report || options->has_names ? options->names : NAMES_RAW,
	};
	if (format->is_report) {
		report_init(&chosen->report, &chosen->metrics, chosen->state);
		chosen->view.report = &chosen->report;
	}
	return PROTON_OK;
}

static int export_view(const struct options *options, const struct target *target,
		       struct profile *profile, struct profile *base, struct proton_error *err)
{
	struct chosen chosen;
	struct chosen before = {0};
	int status = chosen_init(&chosen, options, target->view, profile, err);

	if (status == PROTON_OK && base) {
		status = chosen_init(&before, options, target->view, base, err);
		before.view.title = options->base;
		chosen.view.other = &before.view;
	}
	if (status == PROTON_OK)
		status = write_view(target, &chosen.view, options->output, err);
	if (status == PROTON_OK && chosen.view.negative_count)
		say("%" PRIu64 " values below zero are left out, for %s has no place for them",
		    chosen.view.negative_count, target->view->name);
	chosen_fini(&chosen);
	chosen_fini(&before);
	return status;
}

int export_run(const struct options *options, struct profile *profile, struct profile *base,
	       struct proton_error *err)
{
	struct export_view view = {.profile = profile};
	struct target target;
	int status = find_target(options, &target, err);

	if (status)
		return status;
	if (target.view)
		return export_view(options, &target, profile, base, err);
	return write_view(&target, &view, options->output, err);
}
