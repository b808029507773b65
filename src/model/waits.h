/*
 * Waiting in collectives. All ranks of a communicator leave a collective at about the same time, so
 * the rank with the shortest one came last, and what the others took longer was waiting. Ranks are
 * compared occurrence by occurrence; no clocks are.
 *
 * A series has, for each occurrence of a collective in one context and communicator, the sum of the
 * durations of the ranks so far, the minimum and its rank. So ranks can be added in any grouping.
 * Durations are the integers that their codes stand for.
 */
#pragma once

#include "base/hash.h"
#include "format/profile_view.h"

struct merge_maps;
struct profile;

/* The metric, a string, that has the members of a scope's communicator. */
#define GROUP_METRIC "group"

struct wait_series {
	struct row_wait row; /* `group` is a string of the profile; `rows`: the length of `items` */
	struct row_occurrence *items;
	size_t capacity;
	uint32_t serial; /* when the last rank was added */
	uint64_t end;    /* number after its last occurrence */
};

struct profile_waits {
	/* One rank's; with nodes and groups of the profile. */
	struct row_durations *durations;
	size_t duration_count;
	struct wait_series *series;
	size_t count;
	struct hash_table index; /* by node, kind and communicator; + 1 */
	size_t occurrences;
	uint32_t serial;
};

void waits_free(struct profile_waits *waits); /* NULL ok */

/*
 * The communicator of durations: the one that was recorded, else the members that a scope around
 * the node has; or "".
 */
const char *waits_group(const struct profile *source, const struct row_durations *row);

/* Adds a rank to a merged job; `kernel_ns` is the time of its kernels. */
void waits_add(struct profile *target, const struct profile *source, const struct merge_maps *maps,
	       uint32_t rank, uint64_t kernel_ns);
/* Adds a part of the job. */
void waits_add_part(struct profile *target, const struct profile *source,
		    const struct merge_maps *maps);
/* Sums the series of each context: the occurrences are no longer needed. */
void waits_complete(struct profile *profile);
/* Moves the durations of one of the files of a rank. */
void waits_copy(struct profile *target, const struct profile *source,
		const struct merge_maps *maps);

/* Rows for a file: malloc'd, NULL if out of memory. */
struct row_wait *waits_rows(const struct profile_waits *waits);
struct row_occurrence *waits_occurrences(const struct profile_waits *waits);
/* For the loader. `nodes`: by row of the view, a node + 1, or 0. */
void waits_load(struct profile *profile, const struct profile_view *view, const uint32_t *nodes);
