/* Profile file reader: opens a file and finds its tables. See docs/format.md. */
#include "format/profile_view.h"

#include <stdlib.h>
#include <string.h>

#include "format/load_budget.h"
#include "format/packed_file.h"

bool profile_view_recognize(const void *bytes, size_t length)
{
	return length >= 8 && memcmp(bytes, PROFILE_FILE_MAGIC, 8) == 0;
}

/* Bytes of `table` that are in the file, over its extents; sets is_damaged if some are missing. */
static uint64_t present_bytes(struct profile_view *view, const struct file_header *header,
			      size_t length, uint32_t table)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < header->extent_count; i++) {
		const struct file_extent *extent = &header->extents[i];

		if (extent->table != table)
			continue;
		if (extent->offset > length || extent->bytes > length - extent->offset) {
			/* The rest of a truncated table is no longer contiguous. */
			view->is_damaged = true;
			if (extent->offset < length)
				bytes += length - extent->offset;
			break;
		}
		bytes += extent->bytes; /* at most 2048 pieces, none larger than the file */
	}
	if (bytes > length) { /* overlapping extents occur only in corrupt files */
		view->is_damaged = true;
		bytes = length;
	}
	return bytes;
}

/* Copies a table that is not a single aligned extent with rows of this version's size. */
static bool gather_rows(struct profile_view *view, const struct file_header *header,
			const char *file, size_t length, const struct file_table *table,
			uint64_t rows)
{
	uint32_t stride = table->row_bytes;
	uint64_t raw_bytes = rows * stride;
	uint64_t filled = 0;
	char *raw = malloc(raw_bytes ? raw_bytes : 1);

	if (!raw)
		return false;
	for (uint32_t i = 0; i < header->extent_count && filled < raw_bytes; i++) {
		const struct file_extent *extent = &header->extents[i];
		uint64_t part = extent->bytes;

		if (extent->table != table->id || extent->offset >= length)
			continue;
		if (part > length - extent->offset)
			part = length - extent->offset;
		if (part > raw_bytes - filled)
			part = raw_bytes - filled;
		memcpy(raw + filled, file + extent->offset, part);
		filled += part;
	}
	if (stride > profile_row_bytes[table->id]) { /* a newer minor version appended fields */
		for (uint64_t row = 1; row < rows; row++)
			memmove(raw + row * profile_row_bytes[table->id], raw + row * stride,
				profile_row_bytes[table->id]);
	}
	view->owned[table->id] = raw;
	view->table[table->id] = raw;
	view->rows[table->id] = rows;
	return true;
}

/* The only extent of `table` if it can be used without a copy, else NULL. */
static const struct file_extent *sole_extent(const struct file_header *header, uint32_t table)
{
	const struct file_extent *found = NULL;

	for (uint32_t i = 0; i < header->extent_count; i++) {
		if (header->extents[i].table != table)
			continue;
		if (found)
			return NULL;
		found = &header->extents[i];
	}
	return found;
}

static int open_table(struct profile_view *view, const struct file_header *header, const char *file,
		      size_t length, const struct file_table *table, struct proton_error *err)
{
	const struct file_extent *sole = sole_extent(header, table->id);
	uint64_t available;
	uint64_t rows = table->rows;

	if (view->table[table->id] || table->row_bytes < profile_row_bytes[table->id]) {
		view->is_damaged = true;
		return PROTON_OK;
	}
	available = present_bytes(view, header, length, table->id) / table->row_bytes;
	if (rows > available) {
		view->is_damaged = true;
		rows = available;
	}
	/* Extents may lie over each other. */
	view->cost += rows * load_row_cost(table->id, table->row_bytes);
	if (view->cost > load_budget(length))
		return load_refuse(length, err);
	if (sole && table->row_bytes == profile_row_bytes[table->id] &&
	    ((uintptr_t)file + sole->offset) % 8 == 0 && rows) {
		view->table[table->id] = file + sole->offset;
		view->rows[table->id] = rows;
		return PROTON_OK;
	}
	return gather_rows(view, header, file, length, table, rows) ? PROTON_OK : err_nomem(err);
}

int profile_view_open(struct profile_view *view, const void *bytes, size_t length,
		      struct proton_error *err)
{
	struct file_header *header;
	int status = PROTON_OK;

	*view = (struct profile_view){0};
	if (!profile_view_recognize(bytes, length))
		return err_set(err, PROTON_E_FORMAT, "not a profile file (bad magic)");
	if (packed_file_recognize(bytes, length))
		return packed_file_open(view, bytes, length, err);
	if (length < sizeof(*header))
		return err_set(err, PROTON_E_FORMAT, "truncated profile file header");
	header = malloc(sizeof(*header)); /* a copy, because the bytes need not be aligned */
	if (!header)
		return err_nomem(err);
	memcpy(header, bytes, sizeof(*header));
	if (header->major != PROFILE_FILE_MAJOR) {
		status = err_set(
			err, PROTON_E_FORMAT,
			"unsupported profile format version %u.%u; this program reads %u.x "
			"and %u.x",
			header->major, header->minor, PROFILE_FILE_MAJOR, PACKED_FILE_MAJOR);
		goto out;
	}
	if (header->state == PROFILE_FILE_STARTING) {
		status = err_set(err, PROTON_E_FORMAT,
				 "empty profile file: the process exited during startup");
		goto out;
	}
	if (header->extent_count > PROFILE_FILE_MAX_EXTENTS ||
	    header->table_count > PROFILE_FILE_MAX_TABLES) {
		status = err_set(err, PROTON_E_FORMAT, "corrupt profile file header");
		goto out;
	}
	view->state = header->state;
	view->pid = header->pid;
	view->start_ns = header->start_ns;
	view->end_ns = header->end_ns;
	for (uint32_t i = 0; i < header->table_count; i++) {
		if (header->tables[i].id >= TABLE_COUNT)
			continue; /* table of a later minor version */
		status = open_table(view, header, bytes, length, &header->tables[i], err);
		if (status != PROTON_OK) {
			profile_view_fini(view);
			goto out;
		}
	}
out:
	free(header);
	return status;
}
