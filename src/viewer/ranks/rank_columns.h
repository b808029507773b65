/*
 * Columns of a merged job: the time of each rank in a few nodes. While ranks are merged, their
 * times in all nodes are kept in a temporary file without a name. When the job is merged, the nodes
 * are known that are worth a column, and their times are read from that file. No profile is read
 * twice, and memory is needed for the columns only.
 *
 * The file has a piece for each chunk of ranks. In it each node is identified by a hash of its
 * path, because nodes have other numbers in the merged job.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "model/profile.h"

#define RANK_COLUMNS_DEFAULT 256u

struct rank_piece {
	size_t first; /* number of the first rank */
	size_t ranks;
	uint64_t offset, bytes;
};

struct rank_times {
	int fd; /* -1: not open */
	uint64_t bytes;
	struct rank_piece *pieces;
	size_t count;
};

#define RANK_TIMES_NONE ((struct rank_times){.fd = -1})

void rank_times_fini(struct rank_times *times);
/* ranks_settle(), and keeps the times of these ranks, which begin with number `first`. */
int rank_times_settle(struct rank_times *times, size_t first, struct profile *merged,
		      struct proton_error *err);

/* A node in all processes. */
struct rank_path {
	uint64_t hash[2];
};

/* The paths of these nodes, malloc'd. */
struct rank_path *rank_paths_of(const struct profile *profile, const uint32_t *nodes, size_t count);

/*
 * Reads the times of `count` nodes, piece by piece: `use` gets cells[c * ranks + r], for the ranks
 * from number `first`; 0: no time.
 */
typedef void rank_times_use(void *context, size_t first, size_t ranks, const uint64_t *cells);
int rank_times_read(const struct rank_times *times, const struct rank_path *paths, size_t count,
		    rank_times_use *use, void *context, struct proton_error *err);

/* Filling the columns of a merged job. */
struct rank_cells {
	struct profile *merged;
	uint32_t *rows; /* by number of a rank: its row + 1; malloc'd */
	size_t count;
};

/* Makes empty columns for these nodes. */
void rank_cells_init(struct rank_cells *cells, struct profile *merged, const uint32_t *nodes,
		     size_t count);
/* A rank_times_use: puts the times into the columns. */
void rank_cells_put(void *cells, size_t first, size_t ranks, const uint64_t *times);

/*
 * Makes columns of a merged job from the times of these paths, if this process has merged all
 * ranks. `nodes`: the numbers that the columns get.
 */
int rank_times_columns(const struct rank_times *times, struct profile *merged,
		       const struct rank_path *paths, const uint32_t *nodes, size_t count,
		       struct proton_error *err);

/*
 * The nodes with the largest time that could go if all ranks took the mean: at most `count`, fewer
 * if nearly all ranks are missing, the largest first, malloc'd.
 */
uint32_t *rank_nodes_worth(const struct profile *profile, size_t count, size_t *count_out);

/*
 * The ranks of a job in a tree or table that was made from its tree: per row the slowest rank and
 * the spread of kernel time. The extremes of a sum do not follow from the extremes of its parts, so
 * the times of all ranks are added up. Merging a job keeps them; a merged file has its columns.
 */
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
