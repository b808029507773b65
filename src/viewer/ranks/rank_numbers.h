/*
 * Numbers of a metric over the ranks of a job, by frame, for the tables, gates and comparisons of
 * --ranks, and groups of ranks.
 */
#pragma once

#include "base/buf.h"
#include "model/profile.h"
#include "viewer/print/report_table.h"
#include "viewer/query/frame_names.h"

/* One frame. Values are in the unit of the metric. */
struct rank_row {
	uint32_t node;
	uint32_t ranks; /* with a value; the others do not count */
	uint32_t min_rank, max_rank;
	double sum, min, max;
	const struct row_spread *spread; /* NULL: not the kernel time of all ranks */
};

struct rank_rows {
	const struct profile *profile; /* that has the nodes */
	const char *metric;            /* "time/ms" */
	bool is_inclusive;
	struct rank_row *items;
	size_t count;
};

double rank_row_mean(const struct rank_row *row);
/* The maximum divided by the mean, minus 1; 0 if all are 0. */
double rank_row_imbalance(const struct rank_row *row);
/* The sum that goes away if the maximum becomes the mean. */
double rank_row_saving(const struct rank_row *row);

/* The numbers of a row: the fields of all tables, JSON objects and gates about it. */
enum rank_number {
	RANK_RANKS,
	RANK_MEAN,
	RANK_MIN,
	RANK_MIN_RANK,
	RANK_MAX,
	RANK_MAX_RANK,
	RANK_IMBALANCE,
	RANK_COULD_GO,
	RANK_NUMBERS,
};
extern const struct report_field rank_number_fields[RANK_NUMBERS];
void rank_numbers(const struct rank_row *row, struct report_value values_out[RANK_NUMBERS]);

/* Adds the value of a rank. Of equal values, the lower rank is the extreme. */
void rank_row_add(struct rank_row *row, uint32_t rank, double value);

/* Units of kernel time: "time/ms" has 1e6 ns; 0: not a name of the kernel time. */
double rank_time_divisor(const char *metric);

/* The kernel times of a merged job, sorted. Release with rank_rows_fini(). */
void rank_rows_of_time(struct rank_rows *rows, const struct profile *profile, const char *metric);
/* In ms for some ranks: those with `number` in `group`, by row of the table of ranks. */
void rank_rows_of_group(struct rank_rows *rows, const struct profile *profile,
			const uint32_t *group, uint32_t number);
/* The largest savings first. */
void rank_rows_sort(struct rank_rows *rows);
void rank_rows_fini(struct rank_rows *rows);

/* The names of the frames above a node and of the node, joined by " > "; malloc'd. */
char *rank_path(const struct profile *profile, uint32_t node, enum name_style names);
/* With names as stored, and at most about 2 KB: its end. */
char *rank_path_short(const struct profile *profile, uint32_t node);

/* Numbers of the hosts, in the order of their first ranks, by row of the ranks; malloc'd. */
uint32_t *rank_hosts(const struct profile_ranks *ranks, uint32_t *count_out);

/* "finished", "killed", ... */
const char *rank_state_name(uint32_t state);

/*
 * Groups of ranks with equal trees: pipeline stages and experts differ in what they run, so their
 * times are compared only among themselves.
 */
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

void rank_groups_init(struct rank_groups *groups, const struct profile *profile);
void rank_groups_fini(struct rank_groups *groups);

/* Appends the ranks of a group: "0-3, 8". At most `ranges` of them, then "..."; 0: all. */
void rank_groups_members(const struct rank_groups *groups, const struct profile *profile,
			 uint32_t number, size_t ranges, struct out *out);
