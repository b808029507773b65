/* Limits on the size of an output. */
#include "export/bounds.h"

#include <inttypes.h>

#include "format/profile_view.h"

#define MIB ((uint64_t)1 << 20)
/* The cost of a profile includes columns of this many metrics. */
#define METRICS_MIN 4u

uint64_t bounds_profile_bytes(const struct profile *profile)
{
	uint64_t bytes = profile->strings.used;

	bytes += profile->frame_count * sizeof(*profile->frames);
	bytes += profile->node_count * sizeof(*profile->nodes);
	bytes += profile->metric_count * sizeof(*profile->metrics);
	bytes += profile->value_count * sizeof(*profile->values);
	bytes += profile->kernel_count * sizeof(*profile->kernels);
	bytes += profile->config_count * sizeof(*profile->configs);
	bytes += profile->histogram_count * sizeof(*profile->histograms);
	bytes += profile->word_count * sizeof(*profile->words);
	bytes += profile->info_count * sizeof(*profile->info);
	bytes += profile->counter_count * sizeof(*profile->counters);
	if (profile->trace) {
		bytes += profile->trace->event_count * sizeof(*profile->trace->events);
		bytes += profile->trace->sample_count * sizeof(*profile->trace->samples);
		bytes += profile->trace->lane_count * sizeof(*profile->trace->lanes);
	}
	return bytes;
}

uint64_t bounds_output(const struct profile *profile)
{
	uint64_t bytes = bounds_profile_bytes(profile);
	uint64_t of_small = 64 * MIB + 1000 * bytes;
	uint64_t of_large = 256 * MIB + 32 * bytes;

	return of_small < of_large ? of_small : of_large;
}

int bounds_refuse(const struct profile *profile, struct proton_error *err)
{
	return err_set(err, PROTON_E_RANGE,
		       "the output would be more than %" PRIu64
		       " MB, the most for a profile of this size; show less of it (--depth, "
		       "--include, --threshold, -m), or choose another format",
		       bounds_output(profile) / MIB);
}

uint64_t bounds_memory_left(const struct profile *profile)
{
	uint64_t bytes = profile->file_bytes ? profile->file_bytes : bounds_profile_bytes(profile);
	uint64_t budget = load_budget(bytes);
	uint64_t cost = profile_cost(profile);

	return cost < budget ? budget - cost : 0;
}

int bounds_columns(const struct profile *profile, uint64_t metrics, uint64_t bytes,
		   struct proton_error *err)
{
	uint64_t max = metrics ? bounds_memory_left(profile) / bytes / metrics : 0;

	if (metrics <= METRICS_MIN || profile->node_count <= max)
		return PROTON_OK;
	return err_set(err, PROTON_E_RANGE,
		       "%" PRIu64 " metrics of %zu frames would take more memory than the limit of "
		       "a profile of this size; select fewer metrics (-m)",
		       metrics, profile->node_count);
}
