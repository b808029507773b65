/*
 * Jobs as input of the viewer. A job is one unit, however it is given: as its directory, as some of
 * its files, as a file of proton-merge, or as several of them. It is read once, and the refusals
 * are the same everywhere: ranks that are missing, killed or damaged, or of several launches.
 */
#pragma once

#include "viewer/query/input.h"

/*
 * As input_init(). Files in a directory NAME.ranks, files with names of ranks, and files that say
 * that they are of different ranks are a job. A merged file next to its ranks is left out.
 */
void rank_input_init(struct input *input, char *const *paths, size_t count);

/*
 * The profile of the next unit, with the table of its ranks if it is a job: then its names do not
 * depend on the rank, and with `has_columns` it has the times of the ranks in the frames in which
 * they differ most. NULL after the last; messages are printed for those that are left out.
 */
struct profile *rank_input_next(struct input *input, bool has_columns);
/* The sum of all units, with a message if they are several. NULL: a message was printed. */
struct profile *rank_input_sum(struct input *input, bool has_columns);
/*
 * The one job of the input, which is then its only unit. Files without a rank are numbered.
 * The error is empty if a message was printed. `what`: the option that needs a job.
 */
int rank_input_job(struct input *input, bool has_columns, const char *what, struct profile **out,
		   struct proton_error *err);
/* Then, or of one file that is known to be of a job: true for a merged file. */
bool rank_input_is_merged(const struct input *input);

/*
 * The profiles of the ranks: those of the input, or for the merged file NAME.ranks.proton, which is
 * `job`, those in NAME.ranks. E_INVALID: there are none; `what` needs them. Release with
 * input_fini().
 */
int rank_input_files(const struct input *input, const struct profile *job, const char *what,
		     struct input *files_out, struct proton_error *err);

/*
 * Replaces an input that is a merged file by the profiles of the ranks. E_INVALID: there are none;
 * `what` needs them.
 */
int rank_input_expand(struct input *input, const char *what, struct proton_error *err);

/*
 * If the input is one job, makes each rank a unit, for statistics over the ranks. E_INVALID: it is
 * a merged file without the profiles of the ranks.
 */
int rank_input_split(struct input *input, struct proton_error *err);
/* After the last unit: refuses ranks as above. The error is empty if a message was printed. */
int rank_input_judge(struct input *input, struct proton_error *err);
