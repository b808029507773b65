/*
 * Numbers of a metric over the ranks of a job, by frame, for the tables, gates and comparisons of
 * --ranks.
 */
#ifndef VIEWER_RANKS_RANK_NUMBERS_H
#define VIEWER_RANKS_RANK_NUMBERS_H

#include "model/profile.h"
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
	size_t count, capacity;
};

double rank_row_mean(const struct rank_row *row);
double rank_row_min(const struct rank_row *row);
double rank_row_max(const struct rank_row *row);
/* The maximum divided by the mean, minus 1; 0 if all are 0. */
double rank_row_imbalance(const struct rank_row *row);
/* The sum that goes away if the maximum becomes the mean. */
double rank_row_saving(const struct rank_row *row);
/* Adds the value of a rank. Of equal values, the lower rank is the extreme. */
void rank_row_add(struct rank_row *row, uint32_t rank, double value);

/* Units of kernel time: "time/ms" has 1e6 ns; 0: not a name of the kernel time. */
double rank_time_divisor(const char *metric);

/* The kernel times of a merged job, sorted. Release with rank_rows_fini(). */
void rank_rows_of_time(struct rank_rows *rows, const struct profile *profile, const char *metric);
/* The same for some ranks: those with `number` in `group`, by row of the table of ranks. */
void rank_rows_of_group(struct rank_rows *rows, const struct profile *profile, const char *metric,
			const uint32_t *group, uint32_t number);
/* The largest savings first. */
void rank_rows_sort(struct rank_rows *rows);
void rank_rows_fini(struct rank_rows *rows);

/* The names of the frames above a node and of the node, joined by " > "; malloc'd. */
char *rank_path(const struct profile *profile, uint32_t node);
/* At most about 2 KB: its end. */
char *rank_path_short(const struct profile *profile, uint32_t node);
/* The same with C++ names in a style. */
char *rank_path_named(const struct profile *profile, uint32_t node, enum name_style names);

/* "finished", "killed", ... */
const char *rank_state_name(uint32_t state);

#endif
