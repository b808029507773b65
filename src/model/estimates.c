/* Estimates from windows. */
#include "model/estimates.h"

#include <math.h>

#include "base/array.h"

#define NONE UINT32_MAX
#define GROUPS ESTIMATES_GROUPS

/* The windows of a run. */
struct run {
	double active;
	double recorded;
	double first; /* length of the first window */
	double rest;  /* sum of the following: the time that the others stand for */
	double groups[GROUPS];
	uint32_t used; /* groups that have a window */
	double spread; /* from differences to half of an interval */
};

static uint32_t vector_metric(const struct profile *profile)
{
	uint32_t name = strings_find(&profile->strings, ESTIMATES_METRIC, strlen(ESTIMATES_METRIC));
	const struct row_metric *found =
		name == STRING_NONE
			? NULL
			: profile_metric_find(profile, name, PROTON_METRIC_DOUBLE_VECTOR);

	return found ? (uint32_t)(found - profile->metrics) : NONE;
}

/* The words of a node's vector if it has `count`; NULL: it has none. */
static double *vector_of(const struct profile *profile, uint32_t metric, uint32_t node,
			 uint64_t count)
{
	const struct profile_value *values = profile->values;

	for (uint32_t v = profile->nodes[node].first_value; v; v = values[v].next) {
		uint64_t *words = profile->words + values[v].as.vector;

		if (values[v].metric == metric)
			return words[0] == count ? (double *)(void *)(words + 1) : NULL;
	}
	return NULL;
}

/* Removes the root's vector: the profile is settled. */
static void remove_vector(struct profile *profile, uint32_t metric, uint32_t node)
{
	uint32_t *link = &profile->nodes[node].first_value;

	while (*link && profile->values[*link].metric != metric)
		link = &profile->values[*link].next;
	if (*link)
		*link = profile->values[*link].next;
	profile->value_tail.node = NONE;
}

/* 97.5 % of Student's distribution are below. */
static double quantile(uint32_t degrees)
{
	static const double table[GROUPS - 1] = {12.706, 4.303, 3.182, 2.776, 2.571,
						 2.447,  2.365, 2.306, 2.262, 2.228,
						 2.201,  2.179, 2.160, 2.145, 2.131};

	return table[degrees - 1];
}

static struct run read_run(const double *words)
{
	struct run run = {.active = words[ESTIMATES_ACTIVE],
			  .recorded = words[ESTIMATES_RECORDED],
			  .first = words[ESTIMATES_FIRST]};

	for (uint32_t i = 0; i < GROUPS; i++) {
		run.groups[i] = words[ESTIMATES_FIRST + 1 + i];
		run.rest += run.groups[i];
		run.used += run.groups[i] > 0;
	}
	if (run.active < run.recorded)
		run.active = run.recorded;
	/*
	 * Without a correction for the part of the run that was recorded: the interval also holds
	 * for the next run of the program.
	 */
	if (run.used > 1)
		run.spread = quantile(run.used - 1) * sqrt((double)(run.used - 1) / run.used);
	return run;
}

/* The whole of something of which the first window had `first`, and the others stand for `rest`. */
static double whole_of(const struct run *run, double first, double rest)
{
	if (run->rest > 0)
		return first + rest / run->rest * fmax(run->active - run->first, 0);
	return run->first > 0 ? first / run->first * run->active : first;
}

/*
 * The jackknife: by how much the estimate falls without a group. In the words' own places, which
 * become fewer.
 */
static void make_differences(const struct run *run, double *words, double rest)
{
	uint64_t *length = (uint64_t *)(void *)words - 1;
	double time = fmax(run->active - run->first, 0);
	double rate = rest / run->rest;

	for (uint32_t i = 0; i < GROUPS; i++) {
		double others = run->rest - run->groups[i];
		double own = words[ESTIMATES_FIRST + 1 + i];

		words[i] = others > 0 ? round((own - rate * run->groups[i]) / others * time *
					      run->spread)
				      : 0;
	}
	*length = GROUPS;
}

static uint64_t rounded(double value)
{
	return value >= 9e18 ? UINT64_MAX / 2 : value > 0 ? (uint64_t)(value + 0.5) : 0;
}

static void scale_kernels(struct profile *profile, uint32_t node, double time, double count)
{
	for (uint32_t k = profile->nodes[node].first_kernel; k; k = profile->kernels[k].next) {
		struct profile_kernel *kernel = &profile->kernels[k];

		kernel->total_ns = rounded((double)kernel->total_ns * time);
		kernel->count = rounded((double)kernel->count * count);
		if (!kernel->count)
			kernel->count = 1;
		for (uint32_t c = kernel->first_config; c; c = profile->configs[c].next) {
			struct row_config *config = &profile->configs[c];

			config->count = rounded((double)config->count * count);
			config->total_ns = rounded((double)config->total_ns * time);
		}
	}
}

static void settle_node(struct profile *profile, const struct run *run, uint32_t metric,
			uint32_t samples, uint32_t node)
{
	double *words = vector_of(profile, metric, node, ESTIMATES_WORDS);
	double time = run->recorded > 0 ? run->active / run->recorded : 1;
	double total_ns = 0;
	double count = time;
	uint64_t recorded = 0;

	for (uint32_t k = profile->nodes[node].first_kernel; k; k = profile->kernels[k].next) {
		total_ns += (double)profile->kernels[k].total_ns;
		recorded += profile->kernels[k].count;
	}
	/* Without a vector it is in a window that was not closed: its process was killed. */
	if (words) {
		double rest = 0;

		for (uint32_t i = 0; i < GROUPS; i++)
			rest += words[ESTIMATES_FIRST + 1 + i];
		time = total_ns > 0 ? whole_of(run, words[ESTIMATES_FIRST], rest) / total_ns : 1;
		count = recorded ? whole_of(run, words[ESTIMATES_COUNT_FIRST],
					    words[ESTIMATES_COUNT]) /
					   (double)recorded
				 : 1;
		if (run->used > 1)
			make_differences(run, words, rest);
		else
			remove_vector(profile, metric, node);
	}
	scale_kernels(profile, node, time, count);
	profile_value(profile, node, samples)->as.int64 = (int64_t)recorded;
}

double *estimates_halves(const struct profile *profile, bool is_inclusive)
{
	uint32_t metric = vector_metric(profile);
	size_t count = profile->node_count;
	AUTO_FREE double *sums = metric == NONE ? NULL : calloc(count * GROUPS, sizeof(*sums));
	double *halves = sums ? malloc(count * sizeof(*halves)) : NULL;

	for (uint32_t i = 0; halves && i < count; i++) {
		const double *words = vector_of(profile, metric, i, GROUPS);

		if (words)
			memcpy(sums + (size_t)i * GROUPS, words, GROUPS * sizeof(*words));
		else
			sums[(size_t)i * GROUPS] = NAN; /* it has none */
	}
	for (size_t i = count - 1; halves && is_inclusive && i > 0; i--) {
		const double *own = sums + i * GROUPS;
		double *above = sums + (size_t)profile->nodes[i].parent * GROUPS;

		if (!isnan(*own) && isnan(*above))
			*above = 0;
		for (uint32_t group = 0; !isnan(*own) && group < GROUPS; group++)
			above[group] += own[group];
	}
	for (size_t i = 0; halves && i < count; i++) {
		halves[i] = 0;
		for (uint32_t group = 0; group < GROUPS; group++)
			halves[i] += sums[i * GROUPS + group] * sums[i * GROUPS + group];
		halves[i] = round(sqrt(halves[i]));
	}
	return halves;
}

static void add_intervals(struct profile *profile)
{
	uint32_t name = profile_add_text(profile, ESTIMATES_INTERVAL);
	uint32_t metric = profile_metric(profile, name, PROTON_METRIC_DOUBLE, METRIC_EXCLUSIVE);
	AUTO_FREE double *halves = profile->out_of_memory ? NULL : estimates_halves(profile, false);

	for (uint32_t i = 1; halves && i < profile->node_count; i++)
		if (!isnan(halves[i]))
			profile_value(profile, i, metric)->as.float64 = halves[i];
	profile->out_of_memory |= !halves;
}

void estimates_settle(struct profile *profile)
{
	uint32_t metric = vector_metric(profile);
	double *root = metric == NONE ? NULL : vector_of(profile, metric, 0, ESTIMATES_WORDS);

	if (!root)
		return;
	struct run run = read_run(root);
	remove_vector(profile, metric, 0);
	uint32_t samples = profile_metric(profile, profile_add_text(profile, ESTIMATES_SAMPLES),
					  PROTON_METRIC_INT64, 0);
	for (uint32_t i = 1; i < profile->node_count && !profile->out_of_memory; i++)
		if (profile->nodes[i].first_kernel)
			settle_node(profile, &run, metric, samples, i);
	if (run.used > 1)
		add_intervals(profile);
}
