/* Numbers of a metric over the ranks of a job: mean, extremes, imbalance. */
#include "viewer/ranks/rank_numbers.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buf.h"
#include "model/ranks.h"
#include "viewer/print/xalloc.h"

double rank_row_mean(const struct rank_row *row)
{
	return row->sum / row->ranks;
}

double rank_row_min(const struct rank_row *row)
{
	return row->min;
}

double rank_row_max(const struct rank_row *row)
{
	return row->max;
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

static void add_rank_row(struct rank_rows *rows, struct rank_row row)
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

		add_rank_row(rows, (struct rank_row){
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
			add_rank_row(rows, row);
	}
	rank_rows_sort(rows);
}

/* Longer paths, as those of crafted files, have "..." in place of their beginning. */
#define PATH_BYTES_MAX ((size_t)64 << 10)
#define SHORT_PATH_BYTES ((size_t)2 << 10)

/* The nodes from `node` up to below the root, or until the path is too long; their number. */
static size_t chain_of(const struct profile *profile, uint32_t node, enum name_style names,
		       size_t max, uint32_t **chain_out)
{
	uint32_t *chain = NULL;
	size_t capacity = 0;
	size_t depth = 0;
	size_t bytes = 0;
	struct out name;

	out_init(&name, -1);
	do {
		xreserve(&chain, &capacity, depth + 1, sizeof(*chain));
		chain[depth++] = node;
		name.length = 0;
		name_write_styled(&name, profile, profile->nodes[node].frame, NAME_FULL, names);
		bytes += name.length + 3;
		node = profile->nodes[node].parent;
	} while (node && bytes <= max);
	out_fini(&name);
	*chain_out = chain;
	return depth;
}

static char *path_of(const struct profile *profile, uint32_t node, enum name_style names,
		     size_t max)
{
	uint32_t *chain;
	size_t depth = chain_of(profile, node, names, max, &chain);
	struct out path;

	out_init(&path, -1);
	if (profile->nodes[chain[depth - 1]].parent)
		out_text(&path, "... > ");
	while (depth--) {
		name_write_styled(&path, profile, profile->nodes[chain[depth]].frame, NAME_FULL,
				  names);
		out_text(&path, depth ? " > " : "");
	}
	out_byte(&path, '\0');
	if (path.errnum)
		xgive_up();
	for (size_t i = 0; i + 1 < path.length; i++) /* names may contain any byte */
		if (!path.bytes[i])
			path.bytes[i] = ' ';
	free(chain);
	return path.bytes;
}

char *rank_path_named(const struct profile *profile, uint32_t node, enum name_style names)
{
	return path_of(profile, node, names, PATH_BYTES_MAX);
}

char *rank_path_short(const struct profile *profile, uint32_t node)
{
	return path_of(profile, node, NAMES_RAW, SHORT_PATH_BYTES);
}

char *rank_path(const struct profile *profile, uint32_t node)
{
	return rank_path_named(profile, node, NAMES_RAW);
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
