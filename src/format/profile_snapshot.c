/* Reading a profile file while it is being recorded. */
#include "format/profile_snapshot.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/buf.h"
#include "format/profile_view.h"
#include "format/rows.h"

/* Rows are added while a table is read. Each pass reads the rows that the previous one missed. */
#define PASSES_MAX 8

/* A table comes before the tables that its rows refer to. */
static const enum table_id order[] = {
	TABLE_DURATIONS,   TABLE_EVENTS,        TABLE_SAMPLES, TABLE_PCS,      TABLE_RUNS,
	TABLE_FUNCTIONS,   TABLE_CODE_OBJECTS,  TABLE_SOURCES, TABLE_BLOBS,    TABLE_NODES,
	TABLE_VALUES,      TABLE_CONFIGS,       TABLE_KERNELS, TABLE_LANES,    TABLE_LAUNCHES,
	TABLE_VECTORS,     TABLE_HISTOGRAMS,    TABLE_INFO,    TABLE_COUNTERS, TABLE_DEVICES,
	TABLE_METRICS,     TABLE_EPOCHS,        TABLE_FRAMES,  TABLE_STRINGS,  TABLE_RANKS,
	TABLE_SPREADS,     TABLE_VALUE_SPREADS, TABLE_COLUMNS, TABLE_CELLS,    TABLE_WAITS,
	TABLE_OCCURRENCES,
};
_Static_assert(ARRAY_LENGTH(order) == TABLE_COUNT, "every table is in the order");

struct snapshot {
	int fd;
	struct file_header header; /* header of the result */
	struct file_header now;
	char *bytes;
	size_t length;
	size_t capacity;
};

static bool read_at(int fd, void *bytes, uint64_t length, uint64_t offset)
{
	return file_read_full(fd, bytes, length, (off_t)offset) == (ssize_t)length;
}

static bool read_header(struct snapshot *snapshot)
{
	return read_at(snapshot->fd, &snapshot->now, sizeof(snapshot->now), 0) &&
	       snapshot->now.extent_count <= PROFILE_FILE_MAX_EXTENTS;
}

/* Reads bytes `from` to `to` of a table, across its extents. */
static bool read_range(struct snapshot *snapshot, uint32_t table, uint64_t from, uint64_t to,
		       char *bytes)
{
	uint64_t begin = 0; /* offset of the extent in the table */

	for (uint32_t i = 0; i < snapshot->now.extent_count && from < to; i++) {
		const struct file_extent *extent = &snapshot->now.extents[i];
		uint64_t skip = from - begin;

		if (extent->table != table)
			continue;
		if (skip < extent->bytes) {
			uint64_t part = extent->bytes - skip < to - from ? extent->bytes - skip
									 : to - from;
			if (!read_at(snapshot->fd, bytes, part, extent->offset + skip))
				return false;
			bytes += part;
			from += part;
		}
		begin += extent->bytes;
	}
	return from == to;
}

/*
 * Drops events that are not filled yet. A thread stores `kind` last in an event that it has
 * reserved, so a row is complete only if it is read after its kind. Events are therefore read
 * twice; the first read decides which ones are filled.
 */
static bool drop_half_filled(struct snapshot *snapshot, uint64_t from, uint64_t to,
			     uint32_t row_bytes, char *bytes)
{
	size_t length = (size_t)(to - from); /* at least one row */
	AUTO_FREE char *again = malloc(length + 1);
	bool is_read = again && read_range(snapshot, TABLE_EVENTS, from, to, again);

	for (size_t at = 0; is_read && at < length; at += row_bytes) {
		struct row_event row;

		memcpy(&row, bytes + at, sizeof(row));
		if (row.kind == EVENT_NONE)
			memset(bytes + at, 0, row_bytes);
		else
			memcpy(bytes + at, again + at, row_bytes);
	}
	return is_read;
}

/* Overlapping extents and holes must not make a large result from a small file. */
static uint64_t length_max(const struct snapshot *snapshot)
{
	struct stat st;

	if (fstat(snapshot->fd, &st) != 0)
		return 0;
	uint64_t data = (uint64_t)st.st_blocks * 512 * 2;
	return data < (uint64_t)st.st_size ? data : (uint64_t)st.st_size;
}

/* Reads the rows that the table at `index` of the header has by now. */
static bool read_table(struct snapshot *snapshot, uint32_t index)
{
	struct file_table *table = &snapshot->header.tables[index];
	struct file_extent *extent = &snapshot->header.extents[snapshot->header.extent_count];
	uint64_t done = 0;

	*extent = (struct file_extent){.table = table->id, .offset = snapshot->length};
	for (int pass = 0; pass < PASSES_MAX; pass++) {
		uint64_t bytes;

		if (!read_header(snapshot) ||
		    __builtin_mul_overflow(snapshot->now.tables[index].rows, table->row_bytes,
					   &bytes))
			return false;
		uint64_t max =
			length_max(snapshot); /* at least the counted rows: the file grows first */
		if (bytes > max)
			return false;
		if (bytes <= done)
			break;
		bytes -= done;
		/* Read the header again for the extents of the rows that were just counted. */
		if (snapshot->length + bytes > max || !read_header(snapshot) ||
		    !array_reserve(&snapshot->bytes, &snapshot->capacity, snapshot->length + bytes,
				   1))
			return false;
		char *at = snapshot->bytes + snapshot->length;
		if (!read_range(snapshot, table->id, done, done + bytes, at) ||
		    (table->id == TABLE_EVENTS &&
		     !drop_half_filled(snapshot, done, done + bytes, table->row_bytes, at)))
			return false;
		snapshot->length += bytes;
		done += bytes;
	}
	table->rows = done / table->row_bytes;
	extent->bytes = done;
	snapshot->header.extent_count += done != 0;
	return true;
}

/* The index of a table in the header. table_count: not found; UINT32_MAX: corrupt. */
static uint32_t find_table(const struct file_header *header, enum table_id id)
{
	uint32_t found = header->table_count;

	for (uint32_t i = 0; i < header->table_count; i++) {
		if (header->tables[i].id != id)
			continue;
		if (found < header->table_count ||
		    header->tables[i].row_bytes < profile_row_bytes[id] ||
		    header->tables[i].row_bytes % 8)
			return UINT32_MAX;
		found = i;
	}
	return found;
}

/*
 * Rows that were cleared during the read may be missing in some tables, or already reused. So a
 * phase that is cleared now also counts as cleared in the tables that were read earlier. A phase's
 * flag is set before any of its rows is reused.
 */
static bool take_cleared(struct snapshot *snapshot)
{
	const struct file_extent *extent = snapshot->header.extents;
	const struct file_extent *end = extent + snapshot->header.extent_count;
	const size_t flags = offsetof(struct row_epoch, flags);

	while (extent < end && extent->table != TABLE_EPOCHS)
		extent++;
	if (extent == end)
		return true;
	uint32_t row_bytes =
		snapshot->header.tables[find_table(&snapshot->header, TABLE_EPOCHS)].row_bytes;
	AUTO_FREE char *again = malloc(extent->bytes);
	bool is_read = again && read_range(snapshot, TABLE_EPOCHS, 0, extent->bytes, again);
	for (size_t at = 0; is_read && at < extent->bytes; at += row_bytes)
		memcpy(snapshot->bytes + extent->offset + at + flags, again + at + flags,
		       sizeof(uint32_t));
	return is_read;
}

static bool read_tables(struct snapshot *snapshot)
{
	struct file_header *header = &snapshot->header;

	if (!read_header(snapshot) || memcmp(snapshot->now.magic, PROFILE_FILE_MAGIC, 8) != 0 ||
	    snapshot->now.major != PROFILE_FILE_MAJOR ||
	    snapshot->now.state != PROFILE_FILE_RECORDING ||
	    snapshot->now.table_count > PROFILE_FILE_MAX_TABLES ||
	    !array_reserve(&snapshot->bytes, &snapshot->capacity, PROFILE_FILE_HEADER_BYTES, 1))
		return false;
	*header = snapshot->now;
	header->extent_count = 0;
	memset(header->extents, 0, sizeof(header->extents));
	snapshot->length = PROFILE_FILE_HEADER_BYTES;
	for (size_t i = 0; i < ARRAY_LENGTH(order); i++) {
		uint32_t index = find_table(header, order[i]);

		if (index == UINT32_MAX ||
		    (index < header->table_count && !read_table(snapshot, index)))
			return false;
	}
	if (!take_cleared(snapshot))
		return false;
	memset(snapshot->bytes, 0, PROFILE_FILE_HEADER_BYTES);
	memcpy(snapshot->bytes, header, sizeof(*header));
	return true;
}

bool profile_snapshot_read(const char *path, char **bytes_out, size_t *length_out)
{
	struct stat st;

	/* A pipe can be opened only once. */
	if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
		return false;
	AUTO_FREE struct snapshot *snapshot = calloc(1, sizeof(*snapshot));
	if (!snapshot)
		return false;
	snapshot->fd = open(path, O_RDONLY | O_CLOEXEC);
	bool is_read = snapshot->fd >= 0 && read_tables(snapshot);
	if (is_read) {
		*bytes_out = snapshot->bytes;
		*length_out = snapshot->length;
	} else {
		free(snapshot->bytes);
	}
	if (snapshot->fd >= 0)
		close(snapshot->fd);
	return is_read;
}
