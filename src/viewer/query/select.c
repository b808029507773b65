/* Selection of nodes of a view: by -i, -e, -t and --rows, and by the size of a terminal. */
#include "viewer/query/select.h"

#include <math.h>

#include "base/array.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/filter.h"
#include "viewer/query/hiding.h"

int select_paths(const struct options *options, const struct profile *profile, uint8_t *state,
		 struct proton_error *err)
{
	const struct query_options *query = &options->query;
	size_t matches = 0;
	int status = PROTON_OK;

	/* First what -e omits: -i then shows no path that would end there. */
	if (query->exclude)
		status = filter_exclude(profile, state, query->exclude, &matches, err);
	if (status == PROTON_OK && query->exclude && matches == 0)
		hiding_report_none(query->exclude);
	if (status == PROTON_OK && query->include)
		status = filter_include(profile, state, query->include, &matches, err);
	if (status == PROTON_OK && query->include && matches == 0)
		hiding_report_none(query->include);
	return status;
}

static int require(const struct metric_column *column, double min,
		   const struct thresholds *thresholds, bool *is_enough, size_t count,
		   struct proton_error *err)
{
	if (!column->values)
		return err_set(err, PROTON_E_INVALID,
			       "--threshold requires a numeric%s metric; %s is not numeric",
			       column == thresholds->first ? " first" : "", column->name);
	for (size_t i = 0; i < count; i++) {
		double value = column->values[i];

		/* The negation is true for NAN. */
		if (!((thresholds->by_magnitude ? fabs(value) : value) >= min))
			is_enough[i] = false;
	}
	return PROTON_OK;
}

int select_minimum(const struct options *options, const struct profile *profile,
		   const struct thresholds *thresholds, uint8_t *state, struct proton_error *err)
{
	size_t count = profile->node_count;
	int status = PROTON_OK;

	if (!options->query.has_threshold && !options->query.threshold_count)
		return PROTON_OK;
	AUTO_FREE bool *is_enough = xcalloc(count, sizeof(*is_enough));
	memset(is_enough, true, count);
	if (options->query.has_threshold)
		status = require(thresholds->first, options->query.threshold, thresholds, is_enough,
				 count, err);
	for (size_t i = 0; i < options->query.threshold_count && status == PROTON_OK; i++)
		status = require(&thresholds->others[i], options->query.thresholds[i].min,
				 thresholds, is_enough, count, err);
	if (status == PROTON_OK)
		filter_require(profile, state, is_enough);
	return status;
}

/* ------------------------------------------------------------------ the largest values */

ARRAY_ORDER(descending, double, ORDER_OF(*b, *a))

/* By node; all are equal without values. */
static double *keys_of(const double *values, size_t count, bool by_magnitude)
{
	double *keys = xcalloc(count, sizeof(*keys));

	for (size_t i = 0; values && i < count; i++)
		keys[i] = isnan(values[i]) ? -INFINITY : by_magnitude ? fabs(values[i]) : values[i];
	return keys;
}

/* Keys above a limit, and the first ones, in file order, that are equal to it. */
struct largest {
	double min;
	size_t equals;
};

/* The limit for the `max` shown nodes with the largest keys. */
static struct largest largest_of(const struct profile *profile, const uint8_t *state,
				 const double *keys, size_t max)
{
	struct largest largest = {.min = -INFINITY, .equals = SIZE_MAX};
	AUTO_FREE double *sorted = xcalloc(profile->node_count, sizeof(*sorted));
	size_t count = 0;

	for (size_t i = 1; i < profile->node_count; i++)
		if (state[i] == NODE_SHOWN)
			sorted[count++] = keys[i];
	if (count > max) {
		ARRAY_SORT(sorted, count, descending);
		largest.min = sorted[max - 1];
		for (largest.equals = max;
		     largest.equals && sorted[max - largest.equals] > largest.min;)
			largest.equals--;
	}
	return largest;
}

static bool takes_key(struct largest *largest, double key)
{
	return key > largest->min || (key == largest->min && largest->equals && largest->equals--);
}

void select_rows(const struct profile *profile, const double *values, size_t rows,
		 bool by_magnitude, uint8_t *state)
{
	AUTO_FREE double *keys = keys_of(values, profile->node_count, by_magnitude);
	struct largest largest = largest_of(profile, state, keys, rows);

	for (size_t i = 1; i < profile->node_count; i++)
		if (state[i] == NODE_SHOWN && !takes_key(&largest, keys[i]))
			state[i] = NODE_HIDDEN;
}

/* Adds an omitted frame's value to the omitted part of the first column. */
static void add_missing(struct view *view, uint32_t node, bool is_topmost)
{
	const struct metric_column *column = &view->columns[view->sort_column];

	view->cut.frames++;
	if (column->values && !isnan(column->values[node]) && (is_topmost || !column->is_inclusive))
		view->cut.value += column->values[node];
}

void select_largest(struct view *view, size_t frames)
{
	const struct profile *profile = view->profile;
	uint8_t *state = view->state;
	const struct metric_column *column = &view->columns[view->sort_column];
	AUTO_FREE double *keys = keys_of(column->values, profile->node_count, view->by_magnitude);
	bool has_whole = column->values && column->is_additive && !view->by_magnitude;
	double whole = has_whole ? metric_column_whole(column, profile->node_count) : 0;

	/* The maximum in the subtree: the selected nodes form a tree. */
	for (size_t i = profile->node_count; i-- > 1;) {
		uint32_t parent = profile->nodes[i].parent;

		if (state[i] == NODE_SHOWN && keys[i] > keys[parent])
			keys[parent] = keys[i];
	}
	struct largest largest = largest_of(profile, state, keys, frames);
	view->cut.value = 0;
	for (uint32_t i = 1; i < profile->node_count; i++) {
		bool is_topmost = state[profile->nodes[i].parent] != NODE_BELOW;

		if (state[i] != NODE_SHOWN || (is_topmost && takes_key(&largest, keys[i])))
			continue;
		state[i] = NODE_BELOW;
		add_missing(view, i, is_topmost);
	}
	view->cut.percent = whole > 0 ? 100 * view->cut.value / whole : NAN;
}
