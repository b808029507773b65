/*
 * Groups of ranks with equal trees: pipeline stages and experts differ in what they run, so their
 * times are compared only among themselves.
 */
#ifndef VIEWER_RANKS_RANK_GROUPS_H
#define VIEWER_RANKS_RANK_GROUPS_H

#include "base/buf.h"
#include "model/profile.h"
#include "viewer/ranks/rank_numbers.h"

#define RANK_GROUP_NONE UINT32_MAX

struct rank_group {
	uint64_t shape;
	size_t start, count;  /* of `rows` */
	uint32_t lowest;      /* the first of them */
	struct rank_row time; /* total times in ms; `node` is the root */
};

struct rank_groups {
	struct rank_group *items; /* the largest first */
	size_t count;
	uint32_t *rows;   /* in the table of ranks, group by group */
	uint32_t *of_row; /* by row of that table; RANK_GROUP_NONE: not a finished rank */
};

void rank_groups_init(struct rank_groups *groups, const struct profile *profile,
		      const char *metric);
void rank_groups_fini(struct rank_groups *groups);

/* Appends the ranks of a group: "0-3, 8". At most `ranges` of them, then "..."; 0: all. */
void rank_groups_members(const struct rank_groups *groups, const struct profile *profile,
			 uint32_t number, size_t ranges, struct out *out);

#endif
