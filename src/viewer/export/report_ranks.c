/*
 * Page of ranks in the HTML report: a heat map of ranks and frames. Frames are those with a column
 * in the merged file. Of 100,000 ranks, several share a row: then a cell has the maximum of its
 * ranks, with the rank, and their mean.
 */
#include "viewer/export/report_pages.h"

#include "base/array.h"
#include "format/json_write.h"
#include "model/ranks.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/frame_names.h"
#include "viewer/ranks/rank_numbers.h"

#define ROWS_MAX 400u     /* in the heat map */
#define COLUMNS_MAX 500u  /* in the heat map: more cannot be told apart */
#define PROBLEMS_MAX 100u /* ranks that are named because they are not finished */

struct page {
	const struct profile *profile;
	const struct options *options;
	const struct profile_ranks *ranks;
	struct rank_rows columns; /* frames with a column, the largest savings first */
	struct json_writer json;
};

/* Ranks that share rows of the heat map. */
struct grid {
	uint32_t *row_of; /* by row of the table of ranks */
	uint32_t row_count;
};

/* ------------------------------------------------------------------ frames */

static void choose_columns(struct page *page)
{
	struct rank_rows *rows = &page->columns;
	size_t count = 0;

	rank_rows_of_time(rows, page->profile, "time/ns");
	for (size_t i = 0; i < rows->count && count < COLUMNS_MAX; i++)
		if (ranks_column(page->profile, rows->items[i].node))
			rows->items[count++] = rows->items[i];
	rows->count = count;
}

static void write_columns(struct page *page)
{
	struct json_writer *json = &page->json;
	AT_END(out_fini) struct out name = OUT_IN_MEMORY;

	out_byte(&name, ' '); /* ensures that the buffer exists */
	json_key_array(json, "columns");
	for (size_t i = 0; i < page->columns.count; i++) {
		const struct rank_row *row = &page->columns.items[i];
		AUTO_FREE char *path = rank_path_short(page->profile, row->node);

		name.length = 0;
		name_write_styled(&name, page->profile, page->profile->nodes[row->node].frame,
				  page->options->style.format, page->options->style.names);
		json_line_break(json);
		json_begin_object(json);
		json_key_string(json, "name", name.bytes, name.length);
		json_key_text(json, "path", path);
		json_key_uint64(json, "ranks", row->ranks);
		json_key_double(json, "mean", rank_row_mean(row));
		json_key_double(json, "max", row->max);
		json_key_uint64(json, "rank", row->max_rank);
		json_key_double(json, "saving", rank_row_saving(row));
		json_end_object(json);
	}
	json_end_array(json);
}

/* ------------------------------------------------------------------ rows */

static uint32_t grid_row_of(size_t index, size_t count)
{
	return count > ROWS_MAX ? (uint32_t)(index * ROWS_MAX / count) : (uint32_t)index;
}

/* [first rank, last rank, number of ranks, first host, last host] */
static void write_rows(struct page *page, const struct grid *grid)
{
	struct json_writer *json = &page->json;
	const struct profile_ranks *ranks = page->ranks;
	AUTO_FREE size_t *first = xcalloc(grid->row_count + 1, sizeof(*first));
	AUTO_FREE size_t *last = xcalloc(grid->row_count + 1, sizeof(*last));
	AUTO_FREE size_t *count = xcalloc(grid->row_count + 1, sizeof(*count));

	for (size_t i = 0; i < ranks->count; i++) {
		uint32_t row = grid->row_of[i];

		first[row] = count[row]++ ? first[row] : i;
		last[row] = i;
	}
	json_key_array(json, "rows");
	for (uint32_t row = 0; row < grid->row_count; row++) {
		json_begin_array(json);
		json_uint64(json, ranks->rows[first[row]].rank);
		json_uint64(json, ranks->rows[last[row]].rank);
		json_uint64(json, count[row]);
		json_text(json, profile_text(page->profile, ranks->rows[first[row]].host));
		json_text(json, profile_text(page->profile, ranks->rows[last[row]].host));
		json_end_array(json);
	}
	json_end_array(json);
}

/* A column of the heat map: by row the maximum, its rank, and the mean; 0: no time. */
static void write_cells(struct page *page, const struct grid *grid, const uint64_t *cells)
{
	struct json_writer *json = &page->json;
	AUTO_FREE struct rank_row *rows = xcalloc(grid->row_count + 1, sizeof(*rows));

	for (size_t i = 0; i < page->ranks->count; i++)
		if (cells[i])
			rank_row_add(&rows[grid->row_of[i]], page->ranks->rows[i].rank,
				     (double)cells[i]);
	json_line_break(json);
	json_begin_array(json);
	for (int part = 0; part < 3; part++) {
		json_begin_array(json);
		for (uint32_t row = 0; row < grid->row_count; row++)
			json_uint64(json, !rows[row].ranks ? 0
					  : part == 0      ? (uint64_t)rows[row].max
					  : part == 1
						  ? rows[row].max_rank
						  : (uint64_t)(rank_row_mean(&rows[row]) + 0.5));
		json_end_array(json);
	}
	json_end_array(json);
}

static void write_grid(struct page *page, const char *key, bool is_by_host)
{
	const struct profile_ranks *ranks = page->ranks;
	struct json_writer *json = &page->json;
	uint32_t count = (uint32_t)ranks->count;
	struct grid grid;

	grid.row_of = is_by_host ? rank_hosts(ranks, &count)
				 : xcalloc(ranks->count + 1, sizeof(*grid.row_of));
	for (size_t i = 0; i < ranks->count; i++)
		grid.row_of[i] = grid_row_of(is_by_host ? grid.row_of[i] : i, count);
	grid.row_count = count ? grid_row_of(count - 1, count) + 1 : 0;
	json_key_object(json, key);
	write_rows(page, &grid);
	json_key_array(json, "cells");
	for (size_t c = 0; c < page->columns.count; c++)
		write_cells(page, &grid, ranks_column(page->profile, page->columns.items[c].node));
	json_end_array(json);
	json_end_object(json);
	free(grid.row_of);
}

/* ------------------------------------------------------------------ ranks */

/* [rank, state, host] of ranks that are not finished, and the number of all of these. */
static void write_problems(struct page *page)
{
	struct json_writer *json = &page->json;
	size_t count = 0;

	json_key_array(json, "problems");
	for (size_t i = 0; i < page->ranks->count; i++) {
		const struct row_rank *row = &page->ranks->rows[i];

		if (row->state == RANK_FINISHED || count++ >= PROBLEMS_MAX)
			continue;
		json_begin_array(json);
		json_uint64(json, row->rank);
		json_text(json, rank_state_name(row->state));
		json_text(json, profile_text(page->profile, row->host));
		json_end_array(json);
	}
	json_end_array(json);
	json_key_uint64(json, "problemCount", count);
}

void report_ranks_write(const struct profile *profile, const struct options *options,
			struct out *out)
{
	struct page page = {.profile = profile, .options = options, .ranks = profile->ranks};

	if (!profile->ranks || !profile->ranks->column_count)
		return;
	choose_columns(&page);
	json_writer_init(&page.json, out, false);
	json_begin_object(&page.json);
	json_key_uint64(&page.json, "count", profile->ranks->count);
	write_problems(&page);
	write_columns(&page);
	write_grid(&page, "byRank", false);
	write_grid(&page, "byHost", true);
	json_end_object(&page.json);
	rank_rows_fini(&page.columns);
}
