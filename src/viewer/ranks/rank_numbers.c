/* Numbers of a metric over the ranks of a job: mean, extremes, imbalance; groups of ranks. */
#include "viewer/ranks/rank_numbers.h"

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

const struct report_field rank_number_fields[RANK_NUMBERS] = {
	{.name = "ranks", .title = "ranks", .columns = 6, .place = 1},
	{.name = "mean", .title = "mean", .columns = 10, .unit = REPORT_VALUE},
	{.name = "min", .title = "min", .columns = 10, .unit = REPORT_VALUE},
	{.name = "min_rank", .title = "rank", .columns = 6},
	{.name = "max", .title = "max", .columns = 10, .unit = REPORT_VALUE},
	{.name = "max_rank", .title = "rank", .columns = 6},
	{.name = "imbalance", .title = "imbalance", .columns = 9, .unit = REPORT_SHARE},
	{.name = "could_go", .title = "could go", .columns = 10, .unit = REPORT_VALUE},
};

void rank_numbers(const struct rank_row *row, struct report_value values_out[RANK_NUMBERS])
{
	const struct report_value values[] = {
		VALUE_COUNT(row->ranks),
		VALUE_NUMBER(rank_row_mean(row)),
		VALUE_NUMBER(row->min),
		VALUE_COUNT(row->min_rank),
		VALUE_NUMBER(row->max),
		VALUE_COUNT(row->max_rank),
		VALUE_NUMBER(rank_row_imbalance(row)),
		VALUE_NUMBER(rank_row_saving(row)),
	};

	memcpy(values_out, values, sizeof(values));
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

ARRAY_ORDER(compare_rows, struct rank_row,
	    ORDER_OF(rank_row_saving(b), rank_row_saving(a)) ?: ORDER_OF(a->node, b->node))

void rank_rows_sort(struct rank_rows *rows)
{
	ARRAY_SORT(rows->items, rows->count, compare_rows);
}

void rank_rows_fini(struct rank_rows *rows)
{
	free(rows->items);
	*rows = (struct rank_rows){0};
}

void rank_rows_of_time(struct rank_rows *rows, const struct profile *profile, const char *metric)
{
	const struct profile_ranks *ranks = profile->ranks;
	double divisor = rank_time_divisor(metric);

	*rows = (struct rank_rows){.profile = profile, .metric = metric, .is_inclusive = true};
	for (size_t i = 1; ranks && i < ranks->spread_count; i++) {
		const struct row_spread *spread = &ranks->spreads[i];

		XADD(rows->items, rows->count,
		     (struct rank_row){
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

void rank_rows_of_group(struct rank_rows *rows, const struct profile *profile,
			const uint32_t *group, uint32_t number)
{
	const struct profile_ranks *ranks = profile->ranks;

	*rows = (struct rank_rows){.profile = profile, .metric = "time/ms", .is_inclusive = true};
	for (size_t c = 0; ranks && c < ranks->column_count; c++) {
		const uint64_t *cells = ranks->cells + c * ranks->count;
		struct rank_row row = {.node = ranks->columns[c].node};

		for (size_t i = 0; i < ranks->count; i++)
			if (group[i] == number && cells[i])
				rank_row_add(&row, ranks->rows[i].rank, (double)cells[i] / 1e6);
		if (row.ranks)
			XADD(rows->items, rows->count, row);
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
	size_t depth = 0, bytes = 0;
	AT_END(out_fini) struct out name;

	out_init(&name, -1);
	do {
		XADD(chain, depth, node);
		name.length = 0;
		name_write_styled(&name, profile, profile->nodes[node].frame, NAME_FULL, names);
		bytes += name.length + 3;
		node = profile->nodes[node].parent;
	} while (node && bytes <= max);
	*chain_out = chain;
	return depth;
}

static char *path_of(const struct profile *profile, uint32_t node, enum name_style names,
		     size_t max)
{
	AUTO_FREE uint32_t *chain = NULL;
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
	return path.bytes;
}

char *rank_path(const struct profile *profile, uint32_t node, enum name_style names)
{
	return path_of(profile, node, names, PATH_BYTES_MAX);
}

char *rank_path_short(const struct profile *profile, uint32_t node)
{
	return path_of(profile, node, NAMES_RAW, SHORT_PATH_BYTES);
}

uint32_t *rank_hosts(const struct profile_ranks *ranks, uint32_t *count_out)
{
	uint32_t *numbers = xcalloc(ranks->count + 1, sizeof(*numbers));
	AT_END(hash_table_fini) struct hash_table known = {0}; /* by name: number + 1 */

	*count_out = 0;
	for (size_t i = 0; i < ranks->count; i++) {
		uint64_t hash = hash_u64(ranks->rows[i].host);

		numbers[i] = hash_table_find(&known, hash);
		if (!numbers[i]) {
			numbers[i] = ++*count_out;
			if (!hash_table_add(&known, hash, numbers[i]))
				xgive_up();
		}
		numbers[i]--;
	}
	return numbers;
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

/* ------------------------------------------------------------------ groups */

/* A rank and the hash of its tree. */
struct shaped {
	uint64_t shape;
	uint32_t row; /* in the table of ranks */
};

ARRAY_ORDER(compare_shapes, struct shaped, ORDER_OF(a->shape, b->shape) ?: ORDER_OF(a->row, b->row))

/* Of groups of equal size, the one with the lowest rank comes first. */
ARRAY_ORDER(compare_groups, struct rank_group,
	    ORDER_OF(b->count, a->count) ?: ORDER_OF(a->lowest, b->lowest))

void rank_groups_init(struct rank_groups *groups, const struct profile *profile)
{
	const struct profile_ranks *ranks = profile->ranks;
	size_t count = 0;

	*groups = (struct rank_groups){0};
	if (!ranks)
		return;
	groups->items = xcalloc(ranks->count + 1, sizeof(*groups->items));
	groups->rows = xcalloc(ranks->count + 1, sizeof(*groups->rows));
	groups->of_row = xcalloc(ranks->count + 1, sizeof(*groups->of_row));
	AUTO_FREE struct shaped *list = xcalloc(ranks->count + 1, sizeof(*list));
	for (uint32_t i = 0; i < ranks->count; i++) {
		groups->of_row[i] = RANK_GROUP_NONE;
		if (ranks->rows[i].state == RANK_FINISHED)
			list[count++] = (struct shaped){ranks->rows[i].shape, i};
	}
	ARRAY_SORT(list, count, compare_shapes);
	for (size_t i = 0; i < count; i++) {
		const struct row_rank *row = &ranks->rows[list[i].row];

		if (!i || list[i].shape != list[i - 1].shape)
			groups->items[groups->count++] = (struct rank_group){
				.shape = list[i].shape, .start = i, .lowest = list[i].row};
		struct rank_group *group = &groups->items[groups->count - 1];
		group->count++;
		rank_row_add(&group->time, row->rank, (double)row->time_ns / 1e6);
		groups->rows[i] = list[i].row;
	}
	ARRAY_SORT(groups->items, groups->count, compare_groups);
	for (uint32_t g = 0; g < groups->count; g++)
		for (size_t i = 0; i < groups->items[g].count; i++)
			groups->of_row[groups->rows[groups->items[g].start + i]] = g;
}

void rank_groups_fini(struct rank_groups *groups)
{
	FREE_ALL(groups->items, groups->rows, groups->of_row);
	*groups = (struct rank_groups){0};
}

void rank_groups_members(const struct rank_groups *groups, const struct profile *profile,
			 uint32_t number, size_t ranges, struct out *out)
{
	const struct row_rank *rows = profile->ranks->rows;
	const struct rank_group *group = &groups->items[number];
	const uint32_t *members = groups->rows + group->start;
	size_t written = 0;

	for (size_t i = 0; i < group->count; i++) {
		uint32_t first = rows[members[i]].rank;
		uint32_t last = first;

		while (i + 1 < group->count && rows[members[i + 1]].rank <= last + 1)
			last = rows[members[++i]].rank;
		if (ranges && written == ranges) {
			out_text(out, ", ...");
			return;
		}
		out_printf(out, "%s%u", written++ ? ", " : "", first);
		if (last != first)
			out_printf(out, "-%u", last);
	}
}
