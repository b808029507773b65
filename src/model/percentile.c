/*
 * Percentiles of kernel times: roll-up of histograms over subtrees.
 *
 * Nodes are visited from last to first, so a subtree is complete when its root is visited. Its
 * counts are then added to its parent's and freed: only open subtrees are in memory.
 */
#include "model/percentile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

static struct distribution *of_node(struct distribution **nodes, uint32_t node)
{
	if (!nodes[node])
		nodes[node] = calloc(1, sizeof(*nodes[node]));
	return nodes[node];
}

/* Adds a node's own kernels to its distribution. False if out of memory. */
static bool add_own(const struct profile *profile, struct distribution **nodes, uint32_t node)
{
	for (uint32_t k = profile->nodes[node].first_kernel; k; k = profile->kernels[k].next) {
		struct distribution *sum = of_node(nodes, node);

		if (!sum)
			return false;
		add_kernel(sum, profile, &profile->kernels[k]);
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
