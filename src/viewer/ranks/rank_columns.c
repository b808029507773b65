/* Columns of a merged job: keeping the times of all ranks, and reading those of a few nodes. */
#include "viewer/ranks/rank_columns.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/array.h"
#include "base/environment.h"
#include "model/ranks.h"
#include "viewer/print/xalloc.h"

/* The table of columns has a cell for each rank, including missing ones. */
#define CELLS_PER_CELL 4u
#define CELLS_OF_FEW ((size_t)1 << 19)

void rank_times_fini(struct rank_times *times)
{
	if (times->fd >= 0)
		close(times->fd);
	free(times->pieces);
	*times = RANK_TIMES_NONE;
}

/* ------------------------------------------------------------------ paths */

typedef unsigned __int128 wide;

/* FNV-1a, 128 bits: the same in all processes. */
static wide hash_wide(wide hash, const void *bytes, size_t length)
{
	const wide prime = (wide)1 << 88 | 0x13b;
	const unsigned char *at = bytes;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ at[i]) * prime;
	return hash;
}

static wide hash_frame(const struct profile *profile, const struct row_frame *frame)
{
	wide hash = (wide)0x6c62272e07bb0142 << 64 | 0x62b821756295c58d;

	hash = hash_wide(hash, profile_text(profile, frame->name),
			 string_length(&profile->strings, frame->name) + 1);
	if (frame->kind == FRAME_SOURCE) {
		hash = hash_wide(hash, profile_text(profile, frame->file),
				 string_length(&profile->strings, frame->file) + 1);
		hash = hash_wide(hash, &frame->line, sizeof(frame->line));
	}
	return hash;
}

/* By node, malloc'd. */
static struct rank_path *all_paths(const struct profile *profile)
{
	AUTO_FREE wide *frames = xcalloc(profile->frame_count, sizeof(*frames));
	struct rank_path *paths = xcalloc(profile->node_count, sizeof(*paths));

	for (size_t i = 0; i < profile->frame_count; i++)
		frames[i] = hash_frame(profile, &profile->frames[i]);
	for (size_t i = 1; i < profile->node_count; i++) {
		const struct profile_node *node = &profile->nodes[i];
		wide hash = hash_wide(frames[node->frame], &paths[node->parent], sizeof(*paths));

		paths[i] = (struct rank_path){{(uint64_t)hash, (uint64_t)(hash >> 64)}};
	}
	return paths;
}

struct rank_path *rank_paths_of(const struct profile *profile, const uint32_t *nodes, size_t count)
{
	AUTO_FREE struct rank_path *all = all_paths(profile);
	struct rank_path *paths = xcalloc(count + 1, sizeof(*paths));

	for (size_t i = 0; i < count; i++)
		paths[i] = all[nodes[i]];
	return paths;
}

/* ------------------------------------------------------------------ keeping */

/* A node of a piece; then `width` bytes for each rank, which are added to the minimum. */
struct piece_node {
	struct rank_path path;
	uint64_t min_ns;
	uint64_t width;
};

static uint32_t bytes_of(uint64_t value)
{
	return value ? (uint32_t)(63 - __builtin_clzll(value)) / 8 + 1 : 0;
}

struct piece_writer {
	struct out out;
	struct rank_path *paths; /* by node */
};

/* A ranks_use_times. */
static void write_node(void *context, uint32_t number, const uint64_t *times, size_t count)
{
	struct piece_writer *writer = context;
	struct piece_node node = {.path = writer->paths[number], .min_ns = UINT64_MAX};
	uint64_t max_ns = 0;

	for (size_t r = 0; r < count; r++) {
		node.min_ns = times[r] < node.min_ns ? times[r] : node.min_ns;
		max_ns = times[r] > max_ns ? times[r] : max_ns;
	}
	if (!max_ns)
		return;
	node.width = bytes_of(max_ns - node.min_ns);
	char *at = out_reserve(&writer->out, sizeof(node) + count * sizeof(*times));
	if (!at)
		return;
	memcpy(at, &node, sizeof(node));
	at += sizeof(node);
	/* Little-endian: the next one overwrites the bytes after the width. */
	for (size_t r = 0; r < count; r++, at += node.width)
		memcpy(at, &(uint64_t){times[r] - node.min_ns}, sizeof(*times));
	out_commit(&writer->out, at);
}

/* A file without a name in TMPDIR. */
static int open_file(struct rank_times *times, struct proton_error *err)
{
	const char *directory = environment_get("TMPDIR");
	char path[4096];

	if (times->fd >= 0)
		return PROTON_OK;
	if (!directory || !*directory)
		directory = "/tmp";
	snprintf(path, sizeof(path), "%s/proton-merge.XXXXXX", directory);
	times->fd = mkostemp(path, O_CLOEXEC);
	if (times->fd < 0)
		return err_errno(err, errno, "cannot create a temporary file in %s; set TMPDIR",
				 directory);
	unlink(path);
	return PROTON_OK;
}

int rank_times_settle(struct rank_times *times, size_t first, struct profile *merged,
		      struct proton_error *err)
{
	struct rank_piece piece = {
		.first = first,
		.ranks = merged->ranks->pending->count,
		.offset = times->bytes,
	};
	struct piece_writer writer;
	int status = open_file(times, err);

	out_init(&writer.out, times->fd);
	writer.paths = all_paths(merged);
	ranks_settle(merged, status == PROTON_OK ? write_node : NULL, &writer);
	if (status == PROTON_OK && out_finish(&writer.out, NULL) != PROTON_OK)
		status = err_errno(err, writer.out.errnum,
				   "cannot write the temporary file of ranks; set TMPDIR to a "
				   "directory with space, or use proton-merge --columns 0");
	times->bytes += piece.bytes = writer.out.total;
	if (status == PROTON_OK)
		XADD(times->pieces, times->count, piece);
	out_fini(&writer.out);
	free(writer.paths);
	return status;
}

/* ------------------------------------------------------------------ reading */

/* With bytes after the end, because all times are read as eight bytes. */
static char *read_piece(const struct rank_times *times, const struct rank_piece *piece,
			struct proton_error *err)
{
	char *bytes = xcalloc(piece->bytes + sizeof(uint64_t), 1);
	ssize_t got = file_read_full(times->fd, bytes, piece->bytes, (off_t)piece->offset);

	if (got == (ssize_t)piece->bytes)
		return bytes;
	err_errno(err, got < 0 ? errno : EIO, "cannot read the temporary file of ranks");
	free(bytes);
	return NULL;
}

static uint32_t find_path(const struct hash_table *table, const struct rank_path *paths,
			  const struct rank_path *path)
{
	uint64_t at = path->hash[0];
	uint32_t found;

	while ((found = hash_table_next(table, path->hash[0], &at)) != 0)
		if (paths[found - 1].hash[1] == path->hash[1])
			break;
	return found;
}

static void read_cells(const struct rank_piece *piece, const char *bytes,
		       const struct hash_table *table, const struct rank_path *paths,
		       uint64_t *cells)
{
	size_t at = 0;

	while (at < piece->bytes) {
		struct piece_node node;
		uint64_t rest;

		memcpy(&node, bytes + at, sizeof(node));
		at += sizeof(node);
		uint32_t column = find_path(table, paths, &node.path);
		uint64_t mask = node.width < sizeof(rest) ? (1ull << 8 * node.width) - 1
							  : UINT64_MAX;
		for (size_t r = 0; r < piece->ranks && column; r++) {
			memcpy(&rest, bytes + at + r * node.width, sizeof(rest));
			cells[(column - 1) * piece->ranks + r] = node.min_ns + (rest & mask);
		}
		at += piece->ranks * node.width;
	}
}

int rank_times_read(const struct rank_times *times, const struct rank_path *paths, size_t count,
		    rank_times_use *use, void *context, struct proton_error *err)
{
	AT_END(hash_table_fini) struct hash_table table = {0}; /* by hash: number of the path + 1 */
	int status = PROTON_OK;

	for (size_t c = 0; c < count; c++)
		if (!hash_table_add(&table, paths[c].hash[0], (uint32_t)c + 1))
			xgive_up();
	for (size_t p = 0; p < times->count && status == PROTON_OK; p++) {
		const struct rank_piece *piece = &times->pieces[p];
		AUTO_FREE uint64_t *cells = xcalloc(count * piece->ranks + 1, sizeof(*cells));
		char *bytes = read_piece(times, piece, err);

		if (bytes) {
			read_cells(piece, bytes, &table, paths, cells);
			use(context, piece->first, piece->ranks, cells);
		} else {
			status = PROTON_E_IO;
		}
		free(bytes);
	}
	return status;
}

/* ------------------------------------------------------------------ filling columns */

void rank_cells_init(struct rank_cells *cells, struct profile *merged, const uint32_t *nodes,
		     size_t count)
{
	struct profile_ranks *ranks = merged->ranks;

	*cells = (struct rank_cells){.merged = merged};
	for (size_t r = 0; r < ranks->count; r++)
		if (ranks->rows[r].state != RANK_MISSING && ranks->rows[r].number >= cells->count)
			cells->count = (size_t)ranks->rows[r].number + 1;
	cells->rows = xcalloc(cells->count + 1, sizeof(*cells->rows));
	for (size_t r = 0; r < ranks->count; r++)
		if (ranks->rows[r].state != RANK_MISSING)
			cells->rows[ranks->rows[r].number] = (uint32_t)r + 1;
	free(ranks->columns);
	free(ranks->cells);
	ranks->columns = xcalloc(count + 1, sizeof(*ranks->columns));
	ranks->cells = xcalloc(count + 1, (ranks->count + 1) * sizeof(*ranks->cells));
	ranks->column_count = count;
	for (size_t i = 0; i < count; i++)
		ranks->columns[i].node = nodes[i];
	if (!ranks_index_columns(ranks))
		xgive_up();
}

void rank_cells_put(void *cells, size_t first, size_t ranks, const uint64_t *times)
{
	const struct rank_cells *into = cells;
	struct profile_ranks *to = into->merged->ranks;

	for (size_t c = 0; c < to->column_count; c++) {
		for (size_t r = 0; r < ranks && first + r < into->count; r++) {
			uint32_t row = into->rows[first + r];

			if (row)
				to->cells[c * to->count + row - 1] = times[c * ranks + r];
		}
	}
}

int rank_times_columns(const struct rank_times *times, struct profile *merged,
		       const struct rank_path *paths, const uint32_t *nodes, size_t count,
		       struct proton_error *err)
{
	struct rank_cells cells;
	int status = PROTON_OK;

	rank_cells_init(&cells, merged, nodes, count);
	if (count)
		status = rank_times_read(times, paths, count, rank_cells_put, &cells, err);
	free(cells.rows);
	return status;
}

/* ------------------------------------------------------------------ choosing */

static double time_that_could_go(const struct row_spread *spread)
{
	return (double)spread->max_ns * spread->ranks - (double)spread->sum_ns;
}

ARRAY_ORDER(compare_spreads, struct row_spread *const,
	    ORDER_OF(time_that_could_go(*b), time_that_could_go(*a))
		    ?: ORDER_OF((*a)->node, (*b)->node))

/* The number of columns: fewer if they would mostly be cells of missing ranks. */
static size_t columns_of(const struct profile *profile, size_t wanted)
{
	const struct profile_ranks *ranks = profile->ranks;
	size_t present = 0;

	for (size_t i = 0; ranks && i < ranks->count; i++)
		present += ranks->rows[i].state != RANK_MISSING;
	size_t cells = present * wanted * CELLS_PER_CELL;
	cells = cells > CELLS_OF_FEW ? cells : CELLS_OF_FEW;
	return present && cells / ranks->count < wanted ? cells / ranks->count : wanted;
}

uint32_t *rank_nodes_worth(const struct profile *profile, size_t count, size_t *count_out)
{
	const struct profile_ranks *ranks = profile->ranks;
	size_t rows = ranks ? ranks->spread_count - 1 : 0;
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
	const struct row_spread **list = xcalloc(rows + 1, sizeof(*list));
	uint32_t *nodes = xcalloc(count + 1, sizeof(*nodes));
	size_t worth = 0;

	count = columns_of(profile, count);
	for (size_t i = 0; i < rows; i++)
		if (ranks->spreads[i + 1].max_ns > ranks->spreads[i + 1].min_ns)
			list[worth++] = &ranks->spreads[i + 1];
	ARRAY_SORT(list, worth, compare_spreads);
	for (*count_out = 0; *count_out < worth && *count_out < count; ++*count_out)
		nodes[*count_out] = list[*count_out]->node;
	free(list);
	return nodes;
}
