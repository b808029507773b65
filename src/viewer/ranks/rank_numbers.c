/* Numbers of a metric over the ranks of a job: mean, extremes, imbalance. */
#include "viewer/ranks/rank_numbers.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/ranks.h"
#include "viewer/print/xalloc.h"

double rank_row_mean(const struct rank_row *row)
{
	return row->sum / row->ranks;
}

double rank_row_imbalance(const struct rank_row *row)
{
	double mean = rank_row_mean(row);

	return mean == 0 ? 0 : row->max / mean - 1;
}

double rank_row_saving(const struct rank_row *row)
{
	return (row->max - rank_row_mean(row)) * row->ranks;
}

void rank_row_add(struct rank_row *row, uint32_t rank, double value)
{
	bool is_first = !row->ranks;

	if (is_first || value < row->min || (value == row->min && rank < row->min_rank)) {
		row->min = value;
		row->min_rank = rank;
	}
	if (is_first || value > row->max || (value == row->max && rank < row->max_rank)) {
		row->max = value;
		row->max_rank = rank;
	}
	row->ranks++;
	row->sum += value;
}

double rank_time_divisor(const char *metric)
{
	static const struct {
		const char *name;
		double divisor;
	} units[] = {{"time/s", 1e9}, {"time/ms", 1e6}, {"time/us", 1e3}, {"time/ns", 1}};

	for (size_t i = 0; i < ARRAY_LENGTH(units); i++)
		if (strcmp(metric, units[i].name) == 0)
			return units[i].divisor;
	return 0;
}

static int compare_rows(const void *left, const void *right)
{
	const struct rank_row *a = left;
	const struct rank_row *b = right;
	double x = rank_row_saving(a);
	double y = rank_row_saving(b);

	if (x != y)
		return x > y ? -1 : 1;
	return (a->node > b->node) - (a->node < b->node);
}

void rank_rows_sort(struct rank_rows *rows)
{
	if (rows->count)
		qsort(rows->items, rows->count, sizeof(*rows->items), compare_rows);
}

void rank_rows_fini(struct rank_rows *rows)
{
	free(rows->items);
	*rows = (struct rank_rows){0};
}

static void add(struct rank_rows *rows, struct rank_row row)
{
	xreserve(&rows->items, &rows->capacity, rows->count + 1, sizeof(*rows->items));
	rows->items[rows->count++] = row;
}

void rank_rows_of_time(struct rank_rows *rows, const struct profile *profile, const char *metric)
{
	const struct profile_ranks *ranks = profile->ranks;
	double divisor = rank_time_divisor(metric);

	*rows = (struct rank_rows){.profile = profile, .metric = metric, .is_inclusive = true};
	for (size_t i = 1; ranks && i < ranks->spread_count; i++) {
		const struct row_spread *spread = &ranks->spreads[i];

		add(rows, (struct rank_row){
				  .node = spread->node,
				  .ranks = spread->ranks,
				  .min_rank = spread->min_rank,
				  .max_rank = spread->max_rank,
				  .sum = (double)spread->sum_ns / divisor,
				  .min = (double)spread->min_ns / divisor,
				  .max = (double)spread->max_ns / divisor,
				  .spread = spread,
			  });
	}
	rank_rows_sort(rows);
}

void rank_rows_of_group(struct rank_rows *rows, const struct profile *profile, const char *metric,
			const uint32_t *group, uint32_t number)
{
	const struct profile_ranks *ranks = profile->ranks;
	double divisor = rank_time_divisor(metric);

	*rows = (struct rank_rows){.profile = profile, .metric = metric, .is_inclusive = true};
	for (size_t c = 0; ranks && c < ranks->column_count; c++) {
		const uint64_t *cells = ranks->cells + c * ranks->count;
		struct rank_row row = {.node = ranks->column_nodes[c]};

		for (size_t i = 0; i < ranks->count; i++)
			if (group[i] == number && cells[i])
				rank_row_add(&row, ranks->rows[i].rank, (double)cells[i] / divisor);
		if (row.ranks)
			add(rows, row);
	}
	rank_rows_sort(rows);
}

/* Longer paths, as those of crafted files, have "..." in place of their beginning. */
#define PATH_BYTES_MAX ((size_t)64 << 10)

char *rank_path(const struct profile *profile, uint32_t node)
{
	size_t space = 1;
	uint32_t top = node;
	char *path;
	char *at;

	for (;; top = profile->nodes[top].parent) {
		space += profile_frame_text(profile, profile->nodes[top].frame, NULL, 0) + 3;
		if (!profile->nodes[top].parent || space > PATH_BYTES_MAX)
			break;
	}
	space += sizeof("... > ");
	path = xcalloc(space, 1);
	at = path + space - 1;
	for (uint32_t here = node;; here = profile->nodes[here].parent) {
		uint32_t frame = profile->nodes[here].frame;
		size_t length = profile_frame_text(profile, frame, NULL, 0);
		char next = *at;

		at -= length;
		profile_frame_text(profile, frame, at, length + 1);
		at[length] = next; /* where the NUL was written */
		if (here == top)
			break;
		at -= 3;
		memcpy(at, " > ", 3);
	}
	if (profile->nodes[top].parent) {
		at -= 6;
		memcpy(at, "... > ", 6);
	}
	memmove(path, at, strlen(at) + 1);
	return path;
}

const char *rank_state_name(uint32_t state)
{
	static const char *const names[] = {
		[RANK_FINISHED] = "finished",   [RANK_KILLED] = "killed",
		[RANK_DAMAGED] = "damaged",     [RANK_MISSING] = "missing",
		[RANK_DUPLICATE] = "duplicate",
	};

	return state >= RANK_FINISHED && state <= RANK_DUPLICATE ? names[state] : "unknown";
}
