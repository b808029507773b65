/* Command-line filters (-i, -e, -t, --rows) applied to the nodes of a view. */
#include "viewer/query/select.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/message.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/filter.h"

int select_paths(const struct options *options, const struct profile *profile, uint8_t *state,
		 struct proton_error *err)
{
	const char *pattern = options->query.include ? options->query.include
						     : options->query.exclude;
	size_t matches = 0;
	int status = PROTON_OK;

	if (options->query.include)
		status = filter_include(profile, state, pattern, &matches, err);
	else if (options->query.exclude)
		status = filter_exclude(profile, state, pattern, &matches, err);
	if (status)
		return status;
	if (pattern && matches == 0)
		message("no frame matches \"%s\"", pattern);
	return PROTON_OK;
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
	bool *is_enough;

	if (!options->query.has_threshold && !options->query.threshold_count)
		return PROTON_OK;
	is_enough = xcalloc(count, sizeof(*is_enough));
	memset(is_enough, true, count);
	if (options->query.has_threshold)
		status = require(thresholds->first, options->query.threshold, thresholds, is_enough,
				 count, err);
	for (size_t i = 0; i < options->query.threshold_count && status == PROTON_OK; i++)
		status = require(&thresholds->others[i], options->query.thresholds[i].min,
				 thresholds, is_enough, count, err);
	if (status == PROTON_OK)
		filter_require(profile, state, is_enough);
	free(is_enough);
	return status;
}

static int descending(const void *left, const void *right)
{
	double a = *(const double *)left;
	double b = *(const double *)right;

	return a < b ? 1 : a > b ? -1 : 0;
}

void select_rows(const struct profile *profile, const double *values, size_t rows,
		 bool by_magnitude, uint8_t *state)
{
	double *sorted = xcalloc(profile->node_count, sizeof(*sorted));
	size_t above = 0; /* rows with a larger value than the smallest one shown */
	size_t count = 0;
	double min;

	for (size_t i = 1; i < profile->node_count; i++)
		if (state[i] == NODE_SHOWN)
			sorted[count++] = isnan(values[i]) ? -INFINITY
					  : by_magnitude   ? fabs(values[i])
							   : values[i];
	if (count > rows) {
		qsort(sorted, count, sizeof(*sorted), descending);
		min = sorted[rows - 1];
		while (above < rows && sorted[above] > min)
			above++;
		/* Rows with equal values are shown in file order, as many as allowed. */
		rows -= above;
		for (size_t i = 1; i < profile->node_count; i++) {
			double value = isnan(values[i]) ? -INFINITY
				       : by_magnitude   ? fabs(values[i])
							: values[i];

			if (state[i] != NODE_SHOWN || value > min)
				continue;
			if (value == min && rows)
				rows--;
			else
				state[i] = NODE_HIDDEN;
		}
	}
	free(sorted);
}
