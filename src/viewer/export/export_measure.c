/* Metric values for exporters: inclusive and exclusive values per node, packed into runs. */
#include "viewer/export/export_measure.h"

#include <math.h>

#include "viewer/print/number_format.h"
#include "viewer/print/xalloc.h"

void measure_fini(struct measure *measure)
{
	metric_column_fini(&measure->total);
	metric_column_fini(&measure->own);
	free(measure->total_starts);
	free(measure->own_starts);
}

static bool ends_with(const char *text, const char *end)
{
	size_t length = text ? strlen(text) : 0;

	return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

static const char *unit_of(const struct metric_column *column)
{
	static const struct {
		double ns;
		const char *name;
	} times[] = {
		{1, "nanoseconds"}, {1e3, "microseconds"}, {1e6, "milliseconds"}, {1e9, "seconds"}};
	size_t length = strlen(column->name);

	if (ends_with(column->which, "/%"))
		return "percent";
	if (column->which)
		length -= strlen(column->which) + 1;
	if (length > 2 && memcmp(column->name + length - 2, "/%", 2) == 0)
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
		return ""; /* a rate of the metric */
	if (strcmp(column->source->name, "bytes") == 0)
		return "bytes";
	return strcmp(column->source->name, "count") == 0 ? "count" : "";
}

/* Adds the values of hidden nodes to the node above them. */
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
 * The time of a scope includes that of timed scopes inside it. The exclusive time is the rest, or 0
 * if the inner scopes ran concurrently.
 */
static void unnest_values(const struct profile *profile, const uint8_t *shown,
			  struct metric_column *own)
{
	AUTO_FREE double *inside = xcalloc(profile->node_count, sizeof(*inside));

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
}

void measure_own(struct measure *measure, const struct metrics *metrics, const char *name,
		 const uint8_t *shown)
{
	const struct profile *profile = metrics->profile;

	if (!measure->total.is_additive || !measure->total.values)
		return;
	if (derive_own_column(metrics, name, &measure->own, NULL))
		xgive_up(); /* the name is known, so memory ran out */
	if (measure->own.is_inclusive)
		keep_hidden(profile, shown, measure);
	else if (strcmp(measure->own.source->name, "cpu_time") == 0)
		unnest_values(profile, shown, &measure->own);
}

/* Subtracting sums that are equal may leave this share of them. */
#define ROUNDING 1e-12

/* Finds out whether a whole column can be written as integers. */
static void find_exact(struct metric_column *column, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!isnan(column->values[i]) && (column->values[i] != floor(column->values[i]) ||
						  fabs(column->values[i]) > 9e15))
			return;
	column->exact = xcalloc(count, sizeof(*column->exact));
	for (size_t i = 0; i < count; i++)
		column->exact[i] = isnan(column->values[i]) ? 0 : (int64_t)column->values[i];
}

static void find_compared_own(struct measure *measure, const struct profile *profile,
			      const uint8_t *shown)
{
	const struct metric_column *total = &measure->total;
	struct metric_column *own = &measure->own;
	size_t count = profile->node_count;

	own->values = xcalloc(count, sizeof(*own->values));
	memcpy(own->values, total->values, count * sizeof(*own->values));
	if (!total->is_inclusive) {
		if (total->source && strcmp(total->source->name, "cpu_time") == 0)
			unnest_values(profile, shown, own);
		return;
	}
	for (size_t i = 1; i < count; i++)
		if (shown[i] && !isnan(total->values[i]))
			own->values[profile->nodes[i].parent] -= total->values[i];
	for (size_t i = 0; i < count; i++)
		if (fabs(own->values[i]) <= ROUNDING * fabs(total->values[i]))
			own->values[i] = 0;
}

void measure_compared(struct measure *measure, const struct profile *profile, const uint8_t *shown)
{
	struct metric_column *total = &measure->total;

	if (!total->values)
		return;
	if (total->is_additive) {
		find_compared_own(measure, profile, shown);
		find_exact(&measure->own, profile->node_count);
	}
	find_exact(total, profile->node_count);
}

struct export_metric measure_describe(const struct measure *measure, const struct profile *profile,
				      const uint8_t *shown)
{
	const struct metric_column *total = &measure->total;
	struct export_metric metric = {
		.name = total->name,
		.unit = unit_of(total),
		.total = {.values = total->values, .exact = total->exact},
		.own = {.values = measure->own.values, .exact = measure->own.exact},
		.is_inclusive = total->is_inclusive,
		.field = EXPORT_NO_FIELD,
		.per_unit = total->divisor,
		.which = total->which,
		.words = total->words,
		.word = total->word,
	};
	double largest = 0;

	if (!total->values)
		return metric;
	/* Each column has one number format, as in the tree. */
	for (size_t i = 0; i < profile->node_count; i++)
		if (shown[i] && isfinite(total->values[i]) && fabs(total->values[i]) > largest)
			largest = fabs(total->values[i]);
	struct number_format style = number_format_for(largest, total->exact != NULL);
	metric.decimals = style.decimals;
	metric.is_scientific = style.is_scientific;

	if (measure->own.values && total->is_inclusive && !total->which) {
		if (strcmp(total->source->name, "time") == 0)
			metric.field = KERNEL_TOTAL_NS;
		else if (strcmp(total->source->name, "count") == 0)
			metric.field = KERNEL_COUNT;
	}
	return metric;
}

/* Equal bit by bit: NAN equals NAN, and 0 does not equal -0. */
static bool is_same(const struct metric_column *column, size_t a, size_t b)
{
	return bits_of_double(column->values[a]) == bits_of_double(column->values[b]) &&
	       (!column->exact || column->exact[a] == column->exact[b]);
}

/* Replaces the array by a copy of its first bytes: shrinking it would leave a hole in the heap. */
static void *shrink_array(void *array, size_t bytes)
{
	if (!array)
		return NULL;
	void *copy = xcalloc(bytes, 1);
	memcpy(copy, array, bytes);
	free(array);
	return copy;
}

static size_t pack_runs(struct metric_column *column, uint32_t **starts_out,
			struct export_numbers *numbers, size_t count)
{
	size_t runs = 1;

	if (!column->values)
		return 0;
	for (size_t i = 1; i < count; i++)
		runs += !is_same(column, i - 1, i);
	if (runs > count / 4)
		return count * (sizeof(double) + (column->exact ? sizeof(int64_t) : 0));
	uint32_t *starts = xcalloc(runs, sizeof(*starts));
	runs = 1;
	for (size_t i = 1; i < count; i++) {
		if (is_same(column, runs - 1, i))
			continue;
		column->values[runs] = column->values[i];
		if (column->exact)
			column->exact[runs] = column->exact[i];
		starts[runs++] = (uint32_t)i;
	}
	column->values = shrink_array(column->values, runs * sizeof(*column->values));
	column->exact = shrink_array(column->exact, runs * sizeof(*column->exact));
	*starts_out = starts;
	*numbers = (struct export_numbers){column->values, column->exact, starts, (uint32_t)runs};
	return runs * (sizeof(double) + sizeof(int64_t) + sizeof(uint32_t));
}

size_t measure_pack(struct measure *measure, struct export_metric *metric, size_t node_count)
{
	return pack_runs(&measure->total, &measure->total_starts, &metric->total, node_count) +
	       pack_runs(&measure->own, &measure->own_starts, &metric->own, node_count) +
	       sizeof(*measure) + sizeof(*metric);
}
