/*
 * Ranks of a merged job: a table of the ranks, and for each node how the kernel time below it is
 * spread over them. Everything is a sum, a minimum or a maximum of integers, so parts of a job can
 * be merged in any grouping.
 */
#ifndef MODEL_RANKS_H
#define MODEL_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/profile_view.h"

struct profile;

struct profile_ranks {
	struct row_rank *rows; /* strings are those of the profile */
	size_t count, capacity;
	struct row_spread *spreads; /* 0 is unused */
	size_t spread_count, spread_capacity;
	uint32_t *spread_of_node; /* 0: no kernel time */
	size_t node_capacity;
	/* Nodes with the time of each rank: cells[c * count + r], of row r; 0: none. */
	uint32_t *column_nodes;
	size_t column_count;
	uint64_t *cells;
};

void ranks_free(struct profile_ranks *ranks); /* NULL ok */

/* The ranks of a profile, made empty if there are none yet. NULL: out of memory, as recorded. */
struct profile_ranks *ranks_of(struct profile *profile);

/*
 * Adds one rank with its profile, which has been merged into `target`: `nodes` are the target's
 * nodes by node of `source`. `other` is a node that stands for many, and has no spread; 0: none.
 */
void ranks_add(struct profile *target, const struct profile *source, const uint32_t *nodes,
	       uint32_t other, uint32_t rank);
/* Adds the ranks of a merged part of the job, `source`. */
void ranks_add_part(struct profile *target, const struct profile *source, const uint32_t *nodes,
		    uint32_t other);
/*
 * Completes a merged job: sorts the ranks, and adds those that are missing according to the number
 * of ranks that the others were told.
 */
void ranks_complete(struct profile *profile);

/* The spread of a node; NULL if no rank has kernel time there. */
const struct row_spread *ranks_spread(const struct profile *profile, uint32_t node);

/* The kernel times in and below a node, in ns, by row of the table of ranks; NULL: not stored. */
const uint64_t *ranks_column(const struct profile *profile, uint32_t node);

/* The value of an information row, or "". */
const char *ranks_info(const struct profile *profile, const char *key);

/* For the loader: takes the rows of a view. `nodes`: by row of the view, a node + 1, or 0. */
void ranks_load(struct profile *profile, const struct profile_view *view, const uint32_t *nodes);

#endif
