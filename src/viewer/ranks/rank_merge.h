/*
 * Merging the profiles of a job's ranks into one, with the same result for any number of processes.
 *
 * Files are grouped into ranks, and ranks into chunks of a fixed number. The chunks are the leaves
 * in a binary tree that depends on their number only. Each process merges a range of chunks, and
 * then siblings in the tree as long as it has both; the rest is merged where the ranges meet. So
 * all sums are made in the same order, even those of floating-point metrics. Parts are packed
 * profile files.
 */
#pragma once

#include <regex.h>

#include "base/err.h"
#include "model/profile.h"
#include "viewer/ranks/rank_columns.h"

#define RANK_CHUNK 64u
#define RANK_NODES_MAX 1000000u

struct rank_job {
	char *const *paths; /* sorted: the files of a rank follow each other */
	size_t path_count;
	size_t *starts; /* by rank: its first path; and one more */
	size_t rank_count;
	size_t max_nodes;
	size_t columns;   /* nodes with a column per rank */
	bool keeps_times; /* for rank_turn(); without it and columns no times are kept */
	const regex_t
		*names; /* parts of names that differ from rank to rank; NULL: only the rules */
	struct rank_times times; /* for the ranks of this process */
	uint64_t bytes;          /* read: of files, and of parts from other processes */
	uint64_t more_bytes;     /* see profile_load_next() */
	bool is_quiet;           /* no progress line */
	bool is_mixed_allowed;   /* ranks of several launches are summed */
};

/* A part of the tree: `index` of its level, as a profile or as a packed file. */
struct rank_part {
	uint32_t level;
	uint64_t index;
	struct profile *profile; /* NULL: `bytes` */
	uint64_t length;
	char *bytes;
};

struct rank_parts {
	struct rank_part *items;
	size_t count;
};

/* `paths` are borrowed. */
void rank_job_init(struct rank_job *job, char *const *paths, size_t count);
void rank_job_fini(struct rank_job *job);
size_t rank_job_chunks(const struct rank_job *job);
/*
 * All files of rank `number` as one profile, with names that do not depend on the rank. The table
 * of ranks of `roster`, if it is not NULL, gets a row.
 */
struct profile *rank_job_load(struct rank_job *job, size_t number, struct profile *roster,
			      uint32_t *rank_out);

/*
 * Replaces in the names of all frames: addresses ("0x7f12ab" by "0x*"), the rank after the word
 * "rank" ("rank 3" by "rank *"), and the process id as a separate word ("*"). Then "*" replaces
 * what `pattern` matches, if it is not NULL (pattern_compile_spans()).
 */
void rank_names_unify(struct profile *profile, uint32_t rank, const regex_t *pattern);
/* The rank in the name of a file that the recorder gave; RANK_NONE: the name is another one. */
uint32_t rank_of_name(const char *path);
/* The number after "rank" anywhere in the name of a file; RANK_NONE: none. */
uint32_t rank_in_name(const char *path);

/*
 * Mixtures: ranks that are not of one launch of one job. Their sum would be the work of no job, so
 * merging refuses them, or marks the result.
 */
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

/* Merges chunks `first` to `end` and adds them to the parts, in ascending order. */
int rank_merge_chunks(struct rank_job *job, size_t first, size_t end, struct rank_parts *parts,
		      struct proton_error *err);
/* Makes the packed file of a part. */
int rank_part_pack(struct rank_part *part, struct proton_error *err);
/* Adds a part after the others, and merges siblings. Takes its content. */
int rank_merge_part(struct rank_job *job, struct rank_parts *parts, struct rank_part part,
		    struct proton_error *err);
/* The whole job, from parts of all chunks. */
int rank_merge_finish(struct rank_job *job, struct rank_parts *parts, struct profile **out,
		      struct proton_error *err);
void rank_parts_fini(struct rank_parts *parts);

/* All of it in one process, without columns. */
int rank_job_merge(struct rank_job *job, struct profile **out, struct proton_error *err);
/* All of it, with columns for the nodes that are worth it, and with the times that are kept. */
int rank_merge_all(struct rank_job *job, struct profile **out, struct proton_error *err);
