/* Making a profile, and freeing it with all of its parts. They are built with profile.c. */
#include "base/array.h"
#include "model/profile.h"

#include <stdlib.h>

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
	profile_append_first(profile);
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
