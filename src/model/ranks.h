/*
 * Ranks of a merged job: a table of the ranks, for each node how the kernel time below it and its
 * values are spread over them, and for a few nodes the time of each rank. Except for sums of
 * doubles, everything is a sum, a minimum or a maximum of integers, so parts of a job can
 * be merged in any grouping.
 */
#pragma once

#include "base/hash.h"
#include "format/profile_view.h"
#include "model/value_spreads.h"

struct merge_maps;
struct profile;

/* Times of all ranks in the nodes of a job that was merged just now; they are in a file. */
struct rank_kept {
	uint32_t *places; /* by entry: its node now, which folding changes */
	size_t count;
	void (*free)(struct rank_kept *kept);
};

struct profile_ranks {
	struct row_rank *rows; /* strings belong to the profile */
	size_t count;
	struct row_spread *spreads; /* 0 is unused */
	size_t spread_count;
	uint32_t *spread_of_node; /* 0: no kernel time */
	size_t node_capacity;
	struct value_spreads values;
	struct row_column *columns; /* nodes with a column */
	size_t column_count;
	struct hash_table column_index; /* node -> column + 1 */
	uint64_t *cells;             /* column c, row r: cells[c * count + r], kernel time in ns */
	struct rank_values *pending; /* ranks that are not in the statistics yet; or NULL */
	struct rank_kept *kept;      /* the times of all ranks; or NULL */
	uint32_t other;              /* a node that stands for many, and has no spread; 0: none */
};

void ranks_free(struct profile_ranks *ranks); /* NULL ok */

/* The ranks of a profile, made empty if there are none yet. NULL: out of memory, as recorded. */
struct profile_ranks *ranks_of(struct profile *profile);

/* Facts about a rank that are not in its profile. */
struct rank_origin {
	uint32_t rank;
	uint32_t number; /* in the order of the files */
	uint32_t files;
	const char *reason; /* why it is damaged; or "" */
	const char *mixed;  /* how its files differ; or "" */
};

/*
 * Adds one rank with its profile, which has been merged into `target`. Its times and values are
 * pending: they become statistics with the next ranks, at the latest by ranks_settle().
 */
void ranks_add(struct profile *target, const struct profile *source, const struct merge_maps *maps,
	       const struct rank_origin *origin);
/* `use`, if it is not NULL, gets the times of each node first, by pending rank. */
typedef void ranks_use_times(void *context, uint32_t node, const uint64_t *times, size_t count);
void ranks_settle(struct profile *target, ranks_use_times *use, void *context);
/* Adds only the row of a rank, without its time, to a table of who is there. */
void ranks_note(struct profile *target, const struct profile *source,
		const struct rank_origin *origin);
/* Memory of the pending ranks, in bytes. */
uint64_t ranks_pending_bytes(const struct profile *target);
/* Adds the ranks of a merged part of the job, `source`, which may lose them. */
void ranks_add_part(struct profile *target, struct profile *source, const struct merge_maps *maps);
/*
 * Completes a merged job: sorts the ranks, finds duplicates, and adds ranks that are missing
 * according to the number of ranks that the others were told.
 */
void ranks_complete(struct profile *profile);

/* The spread of a node; NULL if no rank has kernel time there. */
const struct row_spread *ranks_spread(const struct profile *profile, uint32_t node);

/* Adds the time of a rank to sum and extremes alone. */
void spread_add(struct row_spread *spread, uint64_t time_ns, uint32_t rank);
/* The largest time divided by the mean, minus 1. */
double spread_imbalance(const struct row_spread *spread);
/* Gives a node without statistics these. */
void ranks_put_spread(struct profile *profile, uint32_t node, const struct row_spread *spread);

/* Makes the index of the columns' nodes. False: out of memory. */
bool ranks_index_columns(struct profile_ranks *ranks);
/* The times of a node by row of the table of ranks, 0 for none; NULL if it has no column. */
const uint64_t *ranks_column(const struct profile *profile, uint32_t node);

/* The first row of a rank in a completed job; NULL: there is none. */
const struct row_rank *ranks_row(const struct profile *profile, uint32_t rank);

/*
 * The kernel time in and below each node in ns, and the sum of launches. malloc'd, NULL if out of
 * memory.
 */
uint64_t *ranks_times(const struct profile *source, uint64_t *kernels_out);

/* Info row of a merged job with ranks of several launches: what differs. */
#define RANKS_MIXED "mixed"

/*
 * For the loader: takes the rows of a view. `nodes` and `metrics`: by row of the view, indexes in
 * the profile + 1, or 0.
 */
void ranks_load(struct profile *profile, const struct profile_view *view, const uint32_t *nodes,
		const uint32_t *metrics);
