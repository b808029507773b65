/*
 * Roll-up of metrics: sums over subtrees.
 *
 * Parents precede their children, so one scan from the last node to the first adds every subtree to
 * its parent.
 */
#include "model/rollup.h"

#include <math.h>

#include "base/array.h"
#include "model/estimates.h"

void column_fini(struct column *column)
{
	free(column->value);
	free(column->exact);
	*column = (struct column){0};
}

static void drop_exact(struct column *column)
{
	free(column->exact);
	column->exact = NULL;
}

static int column_init(struct column *column, const struct profile *profile, bool is_exact,
		       struct proton_error *err)
{
	size_t count = profile->node_count;

	*column = (struct column){.value = malloc(count * sizeof(*column->value))};
	if (is_exact)
		column->exact = calloc(count, sizeof(*column->exact));
	if (!column->value || (is_exact && !column->exact)) {
		column_fini(column);
		return err_nomem(err);
	}
	for (size_t i = 0; i < count; i++)
		column->value[i] = NAN;
	return PROTON_OK;
}

/* Adds to the double of a node, which may be NaN for no value. */
static void add_double(struct column *column, uint32_t node, double value)
{
	double *sum = &column->value[node];

	*sum = isnan(*sum) ? value : *sum + value;
}

static void add_int64(struct column *column, uint32_t node, int64_t value)
{
	add_double(column, node, (double)value);
	if (column->exact &&
	    __builtin_add_overflow(column->exact[node], value, &column->exact[node]))
		drop_exact(column);
}

static void add_u64(struct column *column, uint32_t node, uint64_t value)
{
	if (value <= INT64_MAX) {
		add_int64(column, node, (int64_t)value);
	} else {
		add_double(column, node, (double)value);
		drop_exact(column);
	}
}

/* Turns own values into sums over subtrees. NaN counts as no value and does not spread. */
static void roll_up(struct column *column, const struct profile *profile)
{
	for (size_t i = 0; i < profile->node_count; i++)
		if (isnan(column->value[i]))
			column->value[i] = 0;
	for (size_t i = profile->node_count - 1; i > 0; i--) {
		uint32_t parent = profile->nodes[i].parent;

		column->value[parent] += column->value[i];
		if (column->exact && __builtin_add_overflow(column->exact[parent], column->exact[i],
							    &column->exact[parent]))
			drop_exact(column);
	}
	/* Sums of doubles may be off in the last digit; the exact integers replace them. */
	for (size_t i = 0; column->exact && i < profile->node_count; i++)
		column->value[i] = (double)column->exact[i];
	column->is_inclusive = true;
}

/* ------------------------------------------------------------------ metrics */

/* The metric of that name with either number type; NULL if not found. */
static const struct row_metric *find_number(const struct profile *profile, uint32_t name)
{
	const struct row_metric *metric = NULL;

	if (name != STRING_NONE)
		metric = profile_metric_find(profile, name, PROTON_METRIC_DOUBLE);
	if (!metric && name != STRING_NONE)
		metric = profile_metric_find(profile, name, PROTON_METRIC_INT64);
	return metric;
}

/* The string of a metric named `text`; a name with a NUL in it matches up to the NUL. */
static uint32_t find_string(const struct profile *profile, const char *text)
{
	uint32_t string = strings_find(&profile->strings, text, strlen(text));

	if (find_number(profile, string))
		return string;
	for (size_t i = 0; i < profile->metric_count; i++) {
		uint32_t name = profile->metrics[i].name;

		if (strcmp(profile_text(profile, name), text) == 0 && find_number(profile, name))
			return name;
	}
	return string;
}

static bool is_kernel_name(const struct profile *profile, const char *name,
			   enum kernel_field *field)
{
	bool is_time = strcmp(name, "time (ns)") == 0;

	*field = is_time ? KERNEL_TOTAL_NS : KERNEL_COUNT;
	return profile->kernel_count > 1 && (is_time || strcmp(name, "count") == 0);
}

bool rollup_has(const struct profile *profile, const char *name)
{
	enum kernel_field field;

	return is_kernel_name(profile, name, &field) ||
	       find_number(profile, find_string(profile, name));
}

bool rollup_is_inclusive(const struct profile *profile, const char *name)
{
	enum kernel_field field;

	if (is_kernel_name(profile, name, &field))
		return true;
	const struct row_metric *metric = find_number(profile, find_string(profile, name));
	return metric && !(metric->flags & (METRIC_EXCLUSIVE | METRIC_PROPERTY));
}

bool value_index_init(struct value_index *index, const struct profile *profile)
{
	size_t count = 0;

	index->first = calloc(profile->metric_count + 2, sizeof(*index->first));
	index->nodes = malloc(profile->value_count * sizeof(*index->nodes) + 1);
	index->values = malloc(profile->value_count * sizeof(*index->values) + 1);
	if (!index->first || !index->nodes || !index->values)
		return false;
	size_t *next = index->first +
		       1; /* where entries are stored; finally where the next ones begin */
	for (uint32_t node = 0; node < profile->node_count; node++)
		for (uint32_t v = profile->nodes[node].first_value; v; v = profile->values[v].next)
			next[profile->values[v].metric + 1]++;
	for (size_t i = 0; i <= profile->metric_count; i++)
		next[i] = count += next[i];
	for (uint32_t node = 0; node < profile->node_count; node++) {
		for (uint32_t v = profile->nodes[node].first_value; v;
		     v = profile->values[v].next) {
			size_t at = next[profile->values[v].metric]++;

			index->nodes[at] = node;
			index->values[at] = v;
		}
	}
	return true;
}

void value_index_fini(struct value_index *index)
{
	FREE_ALL(index->first, index->nodes, index->values);
	*index = (struct value_index){0};
}

static void add_value(struct column *column, const struct profile *profile, uint32_t node,
		      const struct profile_value *value)
{
	const struct row_metric *metric = &profile->metrics[value->metric];

	if (metric->type == PROTON_METRIC_INT64)
		add_int64(column, node, value->as.int64);
	else if (metric->type == PROTON_METRIC_DOUBLE)
		add_double(column, node, value->as.float64);
}

/* Adds the values of both number types that the name may have. */
static void add_indexed(struct column *column, const struct profile *profile,
			const struct value_index *index, uint32_t name)
{
	static const uint16_t types[] = {PROTON_METRIC_INT64, PROTON_METRIC_DOUBLE};

	for (size_t i = 0; i < ARRAY_LENGTH(types); i++) {
		const struct row_metric *found = profile_metric_find(profile, name, types[i]);
		size_t metric = found ? (size_t)(found - profile->metrics) : 0;

		for (size_t at = found ? index->first[metric] : 0;
		     found && at < index->first[metric + 1]; at++)
			add_value(column, profile, index->nodes[at],
				  &profile->values[index->values[at]]);
	}
}

static void add_values(struct column *column, const struct profile *profile, uint32_t name)
{
	for (uint32_t node = 0; node < profile->node_count; node++) {
		const struct profile_value *value;

		for (uint32_t v = profile->nodes[node].first_value; v; v = value->next) {
			value = &profile->values[v];
			if (profile->metrics[value->metric].name == name)
				add_value(column, profile, node, value);
		}
	}
}

static void add_kernels(struct column *column, const struct profile *profile,
			enum kernel_field field)
{
	for (uint32_t node = 0; node < profile->node_count; node++) {
		const struct profile_kernel *kernel;

		for (uint32_t k = profile->nodes[node].first_kernel; k; k = kernel->next) {
			kernel = &profile->kernels[k];
			add_u64(column, node,
				field == KERNEL_COUNT ? kernel->count : kernel->total_ns);
		}
	}
}

int rollup_metric(const struct profile *profile, const char *name, bool is_inclusive,
		  struct column *out, struct proton_error *err)
{
	return rollup_metric_indexed(profile, NULL, name, is_inclusive, out, err);
}

int rollup_metric_indexed(const struct profile *profile, const struct value_index *index,
			  const char *name, bool is_inclusive, struct column *out,
			  struct proton_error *err)
{
	uint32_t string = find_string(profile, name);
	const struct row_metric *metric = find_number(profile, string);
	enum kernel_field field;
	bool has_kernels = is_kernel_name(profile, name, &field);
	struct column column;
	double *halves;

	if (metric && strcmp(name, ESTIMATES_INTERVAL) == 0 &&
	    (halves = estimates_halves(profile, is_inclusive))) {
		*out = (struct column){.value = halves, .is_inclusive = is_inclusive};
		return PROTON_OK;
	}
	if (!metric && !has_kernels)
		return err_set(err, PROTON_E_RANGE, "Metric %s is not found.", name);
	int status =
		column_init(&column, profile, !metric || metric->type == PROTON_METRIC_INT64, err);
	if (status != PROTON_OK)
		return status;
	if (has_kernels)
		add_kernels(&column, profile, field);
	if (metric && index)
		add_indexed(&column, profile, index, string);
	else if (metric)
		add_values(&column, profile, string);
	if (is_inclusive)
		roll_up(&column, profile);
	*out = column;
	return PROTON_OK;
}

/* ------------------------------------------------------------------ kernels */

enum extreme {
	EXTREME_NONE,
	EXTREME_KNOWN,
	EXTREME_UNKNOWN, /* for all ancestors too: the minimum of a part is not the minimum */
};

/* Combines an extreme (or that it is unknown) with a node's. */
static void take_extreme(double *value, uint8_t *state, double other, uint8_t other_state,
			 bool is_min)
{
	if (other_state == EXTREME_NONE || *state == EXTREME_UNKNOWN)
		return;
	if (other_state == EXTREME_UNKNOWN)
		*value = NAN;
	else if (*state == EXTREME_NONE || (is_min ? other < *value : other > *value))
		*value = other;
	*state = other_state;
}

int rollup_extreme(const struct profile *profile, bool is_min, struct column *out,
		   struct proton_error *err)
{
	struct column column;

	TRY(column_init(&column, profile, false, err));
	AUTO_FREE uint8_t *states = calloc(profile->node_count, 1);
	if (!states) {
		column_fini(&column);
		return err_nomem(err);
	}
	for (size_t i = profile->node_count; i-- > 0;) {
		const struct profile_node *node = &profile->nodes[i];

		for (uint32_t k = node->first_kernel; k; k = profile->kernels[k].next) {
			uint64_t ns = is_min ? profile->kernels[k].min_ns
					     : profile->kernels[k].max_ns;

			take_extreme(&column.value[i], &states[i], (double)ns,
				     ns == KERNEL_TIME_UNKNOWN ? EXTREME_UNKNOWN : EXTREME_KNOWN,
				     is_min);
		}
		if (i)
			take_extreme(&column.value[node->parent], &states[node->parent],
				     column.value[i], states[i], is_min);
	}
	column.is_inclusive = true;
	*out = column;
	return PROTON_OK;
}

/* ------------------------------------------------------------------ percentiles */

/* A complete subtree is added to its parent and freed: only open ones are in memory. */
struct distribution {
	uint64_t total;
	double min_ns;
	double max_ns;
	bool is_unknown;
	uint64_t bucket[HISTOGRAM_BUCKETS];
};

static void add_kernel(struct distribution *sum, const struct profile *profile,
		       const struct profile_kernel *kernel)
{
	const uint32_t *buckets = profile->histograms[kernel->histogram].bucket;
	uint64_t total = 0;

	if (kernel->count == 0)
		return;
	if (kernel->min_ns == KERNEL_TIME_UNKNOWN || kernel->max_ns == KERNEL_TIME_UNKNOWN ||
	    (kernel->count > 1 && !kernel->histogram)) {
		sum->is_unknown = true;
		return;
	}
	if (sum->total == 0 || (double)kernel->min_ns < sum->min_ns)
		sum->min_ns = (double)kernel->min_ns;
	if (sum->total == 0 || (double)kernel->max_ns > sum->max_ns)
		sum->max_ns = (double)kernel->max_ns;
	if (!kernel->histogram) {
		sum->bucket[histogram_bucket(kernel->min_ns)]++;
		sum->total++;
		return;
	}
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		sum->bucket[i] += buckets[i];
		total += buckets[i];
	}
	sum->total += total;
	sum->is_unknown = sum->is_unknown || total == 0;
}

static void add_distribution(struct distribution *sum, const struct distribution *other)
{
	sum->is_unknown = sum->is_unknown || other->is_unknown;
	if (other->total == 0)
		return;
	if (sum->total == 0 || other->min_ns < sum->min_ns)
		sum->min_ns = other->min_ns;
	if (sum->total == 0 || other->max_ns > sum->max_ns)
		sum->max_ns = other->max_ns;
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		sum->bucket[i] += other->bucket[i];
	sum->total += other->total;
}

static double percentile(const struct distribution *sum, double share)
{
	double rank = share * (double)sum->total; /* at least this many executions are not longer */
	double passed = 0;
	double result = NAN;

	if (sum->is_unknown || sum->total == 0)
		return NAN;
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		double count = (double)sum->bucket[i];
		double start = i ? (double)histogram_bucket_start_ns(i) : sum->min_ns;
		double stop = i + 1 < HISTOGRAM_BUCKETS ? (double)histogram_bucket_start_ns(i + 1)
							: sum->max_ns;

		if (count == 0)
			continue;
		/* The outermost buckets end at the shortest and the longest execution. */
		start = start < sum->min_ns ? sum->min_ns : start;
		stop = stop > sum->max_ns ? sum->max_ns : stop;
		stop = stop < start ? start : stop;
		result = start + (stop - start) * fmin(1, (rank - passed) / count);
		passed += count;
		if (passed >= rank)
			break;
	}
	return fmin(fmax(result, sum->min_ns), sum->max_ns);
}

/* Adds a node's own kernels to its distribution. False if out of memory. */
static bool add_own(const struct profile *profile, struct distribution **nodes, uint32_t node)
{
	for (uint32_t k = profile->nodes[node].first_kernel; k; k = profile->kernels[k].next) {
		if (!nodes[node])
			nodes[node] = calloc(1, sizeof(*nodes[node]));
		if (!nodes[node])
			return false;
		add_kernel(nodes[node], profile, &profile->kernels[k]);
	}
	return true;
}

int rollup_percentile(const struct profile *profile, double share, struct column *out,
		      struct proton_error *err)
{
	size_t count = profile->node_count;
	struct distribution **nodes = calloc(count, sizeof(struct distribution *));
	double *values = malloc(count * sizeof(*values));
	bool has_memory = nodes && values;

	for (uint32_t i = (uint32_t)count; has_memory && i-- > 0;) {
		uint32_t parent = profile->nodes[i].parent;

		has_memory = add_own(profile, nodes, i);
		values[i] = nodes[i] ? percentile(nodes[i], share) : NAN;
		if (i == 0 || !nodes[i] || !has_memory)
			continue;
		if (!nodes[parent]) {
			nodes[parent] = nodes[i];
		} else {
			add_distribution(nodes[parent], nodes[i]);
			free(nodes[i]);
		}
		nodes[i] = NULL;
	}
	for (size_t i = 0; nodes && i < count; i++)
		free(nodes[i]);
	free(nodes);
	if (!has_memory) {
		free(values);
		return err_nomem(err);
	}
	*out = (struct column){.value = values, .is_inclusive = true};
	return PROTON_OK;
}
