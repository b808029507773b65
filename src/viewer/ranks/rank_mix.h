/*
 * Mixtures: ranks that are not of one launch of one job. Their sum would be the work of no job, so
 * merging refuses them, or marks the result.
 */
#ifndef VIEWER_RANKS_RANK_MIX_H
#define VIEWER_RANKS_RANK_MIX_H

#include "base/err.h"
#include "model/profile.h"

struct rank_job;

/* Why a file is not the profile of the rank in its name, malloc'd; NULL: it is. */
char *rank_mix_of_file(const struct profile *profile, const char *path);
/* How two files of one rank differ, malloc'd; NULL: they are of one launch. */
char *rank_mix_of_two(const struct profile *first, const char *first_path,
		      const struct profile *second, const char *second_path);

/*
 * Prints how the ranks of a merged job differ. E_FORMAT if they do and the job does not allow it;
 * else they are marked.
 */
int rank_mix_check(const struct rank_job *job, struct profile *merged, struct proton_error *err);

#endif
