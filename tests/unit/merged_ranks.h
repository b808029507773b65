/* Support for tests of merged jobs: building profiles of ranks, adding them, saving and loading. */
#pragma once

#include "unit/tap.h"

#include "base/buf.h"
#include "model/load.h"
#include "model/merge.h"
#include "model/ranks.h"
#include "model/save_profile.h"

static inline uint32_t ranks_node(struct profile *profile, uint32_t parent, const char *name,
				  uint32_t kind)
{
	struct row_frame frame = {.kind = kind};

	frame.name = profile_string(profile, name, strlen(name));
	return profile_node(profile, parent, profile_frame(profile, frame));
}

static inline void ranks_kernel(struct profile *profile, uint32_t node, struct profile_kernel ran)
{
	uint32_t device = profile_device(profile, profile_string(profile, "CUDA", 4), 0);
	uint32_t kernel = (uint32_t)(profile_kernel(profile, node, device) - profile->kernels);

	profile_kernel_add(profile, kernel, &ran, NULL);
}

/* Merges the profile of a rank, and frees it. */
static inline void ranks_merge(struct merge *merge, struct profile *target, struct profile *source,
			       uint32_t rank)
{
	struct rank_origin origin = {
		.rank = rank, .number = rank, .files = 1, .reason = "", .mixed = ""};

	ranks_add(target, source, merge_tree(merge, source), &origin);
	CHECK(!target->out_of_memory);
	profile_free(source);
}

/* The same with a part of the job. */
static inline void ranks_merge_part(struct merge *merge, struct profile *target,
				    struct profile *source)
{
	ranks_add_part(target, source, merge_tree(merge, source));
	CHECK(!target->out_of_memory);
	profile_free(source);
}

/* The profile after it was saved and loaded. */
static inline struct profile *ranks_reload(struct profile *profile)
{
	struct profile *back;
	struct out out;

	out_init(&out, -1);
	CHECK_DONE(profile_save(profile, &out, &err));
	CHECK_DONE(profile_load_bytes("saved", out.bytes, out.length, &back, &err));
	CHECK(!back->is_damaged);
	out_fini(&out);
	profile_free(profile);
	return back;
}
