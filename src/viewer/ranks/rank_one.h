/* --rank: one rank of a job, from its own profile or from the columns of a merged file. */
#ifndef VIEWER_RANKS_RANK_ONE_H
#define VIEWER_RANKS_RANK_ONE_H

#include "viewer/query/input.h"
#include "viewer/viewer_options.h"

/*
 * Replaces the input by the files of the rank. *has_files_out false: the input is a merged file
 * without the profiles of its ranks. E_INVALID: there is no such rank.
 */
int rank_one_select(struct input *input, uint32_t rank, bool *has_files_out,
		    struct proton_error *err);

/* The frames of a merged file with a time of that rank. Returns the exit status. */
int rank_one_run(const struct options *options, struct input *input);

#endif
