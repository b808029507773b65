/*
 * Jobs as input of the viewer: a file of proton-merge, or the profiles of ranks, which are merged
 * here.
 */
#ifndef VIEWER_RANKS_RANK_JOB_INPUT_H
#define VIEWER_RANKS_RANK_JOB_INPUT_H

#include "viewer/query/input.h"

/*
 * The merged job. *is_merged_out: the input is a merged file. The error is empty if a message was
 * printed.
 */
int rank_input_load(struct input *input, struct profile **out, bool *is_merged_out,
		    struct proton_error *err);

/*
 * The sum of all files. For a job it has the table of its ranks, names that do not depend on the
 * rank, and with `has_columns` the times of the ranks in the frames in which they differ most.
 * NULL: a message was printed.
 */
struct profile *rank_input_sum(struct input *input, bool has_columns);
/* The same for files that are ranks, whatever their names are. */
struct profile *rank_input_merge(struct input *input, bool has_columns);

/*
 * The profiles of the ranks: those of the input, or for the merged file NAME.ranks.proton those in
 * NAME.ranks. E_INVALID: there are none; `what` needs them. Release with input_fini().
 */
int rank_input_files(const struct input *input, bool is_merged, const char *what,
		     struct input *files_out, struct proton_error *err);

#endif
