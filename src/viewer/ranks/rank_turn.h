/*
 * The ranks of a job in a tree or table that was made from its tree: per row the slowest rank and
 * the spread of kernel time. The extremes of a sum do not follow from the extremes of its parts, so
 * the times of all ranks are added up. Merging a job keeps them; a merged file has its columns.
 */
#ifndef VIEWER_RANKS_RANK_TURN_H
#define VIEWER_RANKS_RANK_TURN_H

#include "model/profile.h"
#include "viewer/ranks/rank_columns.h"

/* Keeps the times of a job that has just been merged with its profile. Takes `times`. */
void rank_turn_keep(struct profile *merged, struct rank_times *times);
/* Sets what is known of the ranks aside, before the tree of the job is changed. */
void rank_turn_begin(struct profile *job);

/*
 * After rank_turn_begin(): gives `turned` the spreads of its nodes. `places`: by node of `job`, as
 * of profile_regroup(). False: some are not known, because the merged file has no times of each
 * rank.
 */
bool rank_turn(struct profile *turned, const struct profile *job, const uint32_t *places);

/* rank_times_columns() of a job that has just been merged. */
int rank_turn_columns(struct profile *job, const struct rank_path *paths, const uint32_t *nodes,
		      size_t count, struct proton_error *err);

#endif
