/* Making a profile, freeing it with all of its parts, and its cost. profile.c builds the parts. */
#include "base/array.h"
#include "model/profile.h"

#include "model/ranks.h"
#include "model/samples.h"
#include "model/trace_events.h"
#include "model/waits.h"
/* Ids are entry offsets / 8, which allows 32 GiB; the names of a run need far less. */
#define STRING_POOL_BYTES ((size_t)4 << 30)

struct profile *profile_new(void)
{
	struct profile *profile = calloc(1, sizeof(*profile));

	if (!profile)
		return NULL;
	if (strings_init(&profile->strings, STRING_POOL_BYTES, NULL) != PROTON_OK) {
		free(profile);
		return NULL;
	}
	profile_frame_append(profile,
			     (struct row_frame){.kind = FRAME_ROOT,
						.name = profile_add_text(profile, "ROOT")});
	/* The elements at index 0. */
	profile_node(profile, 0, 0);
	profile_first_rows(profile);
	profile_vector(profile, NULL, 0);
	if (profile->out_of_memory) {
		profile_free(profile);
		return NULL;
	}
	return profile;
}

void profile_free(struct profile *profile)
{
	if (!profile)
		return;
	trace_free(profile->trace);
	samples_free(profile->samples);
	ranks_free(profile->ranks);
	waits_free(profile->waits);
	strings_fini(&profile->strings);
	FREE_ALL(profile->frames, profile->nodes, profile->metrics, profile->values,
		 profile->kernels, profile->configs, profile->histograms, profile->words,
		 profile->devices, profile->info, profile->counters);
	hash_table_fini(&profile->frame_index);
	hash_table_fini(&profile->metric_index);
	free(profile);
}

/*
 * Bytes per row: for the row itself, a copy in a merged or regrouped tree, hash tables, columns of
 * metrics, and texts of reports. They were measured with files of one kind of rows each, as the
 * maximum of all commands (tests/python/test_reader_memory.py).
 */
uint64_t profile_cost(const struct profile *profile)
{
	const struct profile_trace *trace = profile->trace;
	const struct profile_samples *samples = profile->samples;
	const struct profile_ranks *ranks = profile->ranks;
	const struct profile_waits *waits = profile->waits;
	const struct {
		size_t count;
		uint64_t bytes;
	} parts[] = {
		{profile->strings.used, 4},
		{profile->frame_count, 120},
		{profile->node_count, 75},
		{profile->metric_count, 400},
		{profile->value_count, 150},
		{profile->kernel_count, 300},
		{profile->config_count, 210},
		{profile->histogram_count, 600},
		{profile->word_count, 24},
		{profile->info_count, 100},
		{profile->counter_count, 100},
		{trace ? trace->event_count : 0, 200},
		{trace ? trace->sample_count : 0, 60},
		{trace ? trace->lane_count : 0, 300},
		{samples ? samples->pc_count : 0, 200},
		{samples ? samples->function_count : 0, 400},
		{ranks ? ranks->count : 0, 120},
		{ranks ? ranks->spread_count : 0, 400},
		{ranks ? ranks->values.count : 0, 450},
		{ranks ? ranks->column_count : 0, 200},
		{ranks ? ranks->column_count * ranks->count : 0, 24},
		{waits ? waits->duration_count : 0, 300},
		{waits ? waits->count : 0, 600},
		{waits ? waits->occurrences : 0, 60},
	};
	uint64_t cost = 0;

	for (size_t i = 0; i < ARRAY_LENGTH(parts); i++)
		cost += parts[i].count * parts[i].bytes;
	return cost;
}
