/*
 * Profile files: opens one in either form, a working file with its extents or a packed file, finds
 * its tables, and writes packed ones. See docs/format.md.
 */
#include "format/profile_view.h"

#include "base/array.h"
#include "format/pack.h"

const uint32_t profile_row_bytes[TABLE_COUNT] = {
#define TABLE(name, id, row, ...) [id] = sizeof(row),
#include "format/tables.def"
#undef TABLE
};

void profile_view_fini(struct profile_view *view)
{
	for (int id = 0; id < TABLE_COUNT; id++)
		free(view->owned[id]);
	*view = (struct profile_view){0};
}

const char *profile_view_string(const struct profile_view *view, uint32_t id, uint32_t *length_out)
{
	uint64_t table_bytes = view->rows[TABLE_STRINGS] * 8;
	uint64_t at = (uint64_t)id * 8;
	const char *strings = view->table[TABLE_STRINGS];
	uint32_t length;

	*length_out = 0;
	if (at + 8 > table_bytes)
		return "";
	memcpy(&length, strings + at, sizeof(length));
	if (at + 4 + (uint64_t)length + 1 > table_bytes || strings[at + 4 + length] != '\0')
		return "";
	*length_out = length;
	return strings + at + 4;
}

bool profile_view_recognize(const void *bytes, size_t length)
{
	return length >= 8 && memcmp(bytes, PROFILE_FILE_MAGIC, 8) == 0;
}

bool profile_view_is_packed(const void *bytes, size_t length)
{
	struct packed_header header;

	if (length < sizeof(header) || !profile_view_recognize(bytes, length))
		return false;
	memcpy(&header, bytes, sizeof(header));
	return header.major == PACKED_FILE_MAJOR;
}

/* The columns of rows; NULL: stored raw. */
static const char *const layouts[TABLE_COUNT] = {
#define TABLE(name, id, row, bytes, mib, has_row_0, columns) [id] = columns,
#include "format/tables.def"
#undef TABLE
};

/* ------------------------------------------------------------------ writing */

/* Traces refer to rows of vectors in the file's bytes: those are raw, many, and mostly unlike. */
static void pack_table(const struct profile_view *view, enum table_id id,
		       struct packed_table *table, struct out *data)
{
	static const char zeros[8];
	size_t start = data->length;
	uint64_t bytes = view->rows[id] * profile_row_bytes[id];

	*table = (struct packed_table){
		.id = (uint32_t)id,
		.row_bytes = profile_row_bytes[id],
		.rows = view->rows[id],
		.columns = PACKED_RAW,
	};
	if (id == TABLE_STRINGS && pack_strings(data, view->table[id], bytes)) {
		table->columns = PACKED_STRINGS;
	} else if (layouts[id] && !(view->rows[TABLE_EVENTS] && id == TABLE_VECTORS)) {
		for (uint32_t i = 0; layouts[id][i]; i++)
			table->columns |= (uint64_t)(layouts[id][i] == '8' ? PACK_COLUMN_U64
									   : PACK_COLUMN_U32)
					  << (4 * i);
		pack_rows(data, view->table[id], bytes / pack_columns_bytes(table->columns),
			  table->columns);
	} else {
		data->length = start; /* strings that were not packed after all */
		if (start % 8)
			out_bytes(data, zeros, 8 - start % 8);
		start = data->length;
		out_bytes(data, view->table[id], bytes);
	}
	table->offset = start;
	table->bytes = data->length - start;
}

int profile_view_write(const struct profile_view *view, struct out *out, struct proton_error *err)
{
	struct packed_header header = {
		.magic = PROFILE_FILE_MAGIC,
		.major = PACKED_FILE_MAJOR,
		.minor = PACKED_FILE_MINOR,
		.state = PROFILE_FILE_FINISHED,
		.pid = view->pid,
		.start_ns = view->start_ns,
		.end_ns = view->end_ns,
	};
	struct packed_table tables[TABLE_COUNT];
	AT_END(out_fini) struct out data;

	out_init(&data, -1);
	for (int id = 0; id < TABLE_COUNT; id++)
		if (view->rows[id])
			pack_table(view, (enum table_id)id, &tables[header.table_count++], &data);
	header.header_bytes =
		(uint32_t)(sizeof(header) + header.table_count * sizeof(struct packed_table));
	for (uint32_t i = 0; i < header.table_count; i++)
		tables[i].offset += header.header_bytes;
	int status = out_finish(&data, err);
	if (status == PROTON_OK) {
		out_bytes(out, &header, sizeof(header));
		out_bytes(out, tables, header.table_count * sizeof(struct packed_table));
		out_bytes(out, data.bytes, data.length);
	}
	return status;
}

/* ------------------------------------------------------------------ working files */

/* Bytes of `table` that are in the file, over its extents; sets is_damaged if some are missing. */
static uint64_t present_bytes(struct profile_view *view, const struct file_header *header,
			      size_t length, uint32_t table)
{
	uint64_t bytes = 0;

	ARRAY_EACH(extent, header->extents, header->extent_count) {
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

/* Takes the rows of a table, of which it keeps the part that this version knows. */
static void keep_rows(struct profile_view *view, uint32_t id, char *raw, uint64_t rows,
		      uint32_t row_bytes)
{
	uint32_t known = profile_row_bytes[id];

	for (uint64_t row = 1; row < rows && row_bytes > known; row++)
		memmove(raw + row * known, raw + row * row_bytes, known);
	view->owned[id] = raw;
	view->table[id] = raw;
	view->rows[id] = rows;
}

/* Copies a table that is not a single aligned extent with rows of this version's size. */
static bool gather_rows(struct profile_view *view, const struct file_header *header,
			const char *file, size_t length, const struct file_table *table,
			uint64_t rows)
{
	uint64_t raw_bytes = rows * table->row_bytes;
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
	keep_rows(view, table->id, raw, rows, table->row_bytes);
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

static int open_extents(struct profile_view *view, const struct file_header *header,
			const char *file, size_t length, const struct file_table *table,
			struct proton_error *err)
{
	const struct file_extent *sole = sole_extent(header, table->id);
	uint64_t rows = table->rows;

	if (view->table[table->id] || table->row_bytes < profile_row_bytes[table->id]) {
		view->is_damaged = true;
		return PROTON_OK;
	}
	uint64_t available = present_bytes(view, header, length, table->id) / table->row_bytes;
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

/* ------------------------------------------------------------------ packed files */

static bool read_table(const void *bytes, size_t length, uint32_t index, struct packed_table *out)
{
	size_t at = sizeof(struct packed_header) + index * sizeof(*out);

	if (at + sizeof(*out) > length)
		return false;
	memcpy(out, (const char *)bytes + at, sizeof(*out));
	return true;
}

uint64_t profile_view_rows(const struct file_header *header, size_t length, enum table_id id)
{
	struct packed_table table;

	if (!profile_view_is_packed(header, length))
		return header->tables[id].rows;
	for (uint32_t i = 0; i < header->table_count && i < PROFILE_FILE_MAX_TABLES; i++)
		if (read_table(header, length, i, &table) && table.id == (uint32_t)id)
			return table.rows;
	return 0;
}

/* Decodes `rows` rows of a table into new memory. */
static int decode_table(struct profile_view *view, const struct packed_table *table, uint64_t rows,
			const char *from, struct proton_error *err)
{
	/* Without rows, their size may be any number. */
	char *decoded =
		calloc(rows ? rows : 1, rows ? table->row_bytes : profile_row_bytes[table->id]);

	if (!decoded)
		return err_nomem(err);
	if (table->columns == PACKED_RAW) {
		memcpy(decoded, from, rows * table->row_bytes);
	} else if (table->columns == PACKED_STRINGS) {
		rows = unpack_strings(decoded, rows * 8, from, table->bytes) / 8;
	} else {
		uint32_t bytes = pack_columns_bytes(table->columns);

		rows = unpack_rows(decoded, rows * table->row_bytes / bytes, table->columns, from,
				   table->bytes) *
		       bytes / table->row_bytes;
	}
	keep_rows(view, table->id, decoded, rows, table->row_bytes);
	return PROTON_OK;
}

/* True if the table can be decoded; cuts what is not in the file. */
static bool check_table(struct packed_table *table, const struct profile_view *view, size_t length,
			bool *is_damaged)
{
	uint32_t bytes = pack_columns_bytes(table->columns);
	uint64_t all;

	if (view->table[table->id] || table->row_bytes < profile_row_bytes[table->id] ||
	    table->row_bytes % 4 || table->offset > length ||
	    __builtin_mul_overflow(table->rows, table->row_bytes, &all))
		return false;
	if (table->bytes > length - table->offset) {
		*is_damaged = true;
		table->bytes = length - table->offset;
	}
	if (table->columns == PACKED_RAW) {
		if (all > table->bytes) {
			*is_damaged = true;
			table->rows = table->bytes / table->row_bytes;
		}
		return true;
	}
	if (table->columns == PACKED_STRINGS) {
		if (table->row_bytes != 8 || table->id != TABLE_STRINGS)
			return false;
		if (!unpack_strings_is_possible(all, table->bytes)) {
			*is_damaged = true;
			table->rows = (table->bytes + 1) * PACK_RUN_MAX / 8;
		}
		return true;
	}
	if (!bytes || table->row_bytes % bytes)
		return false;
	if (!unpack_is_possible(all / bytes, table->columns, table->bytes)) {
		/* No more rows than there may be bytes for. */
		*is_damaged = true;
		table->rows = table->bytes * PACK_RUN_MAX / table->row_bytes;
	}
	return true;
}

static int open_packed(struct profile_view *view, const char *bytes, size_t length,
		       struct packed_table *table, struct proton_error *err)
{
	int status = PROTON_OK;

	if (table->id >= TABLE_COUNT)
		return PROTON_OK; /* table of a later minor version */
	if (!check_table(table, view, length, &view->is_damaged)) {
		view->is_damaged = true;
		return PROTON_OK;
	}
	uint64_t row_cost = load_row_cost(table->id, table->row_bytes);
	uint64_t max = (load_budget(length) - view->cost) / row_cost;
	const char *from = bytes + table->offset;
	if (table->columns == PACKED_RAW && (uintptr_t)from % 8 == 0 && table->rows &&
	    table->row_bytes == profile_row_bytes[table->id]) {
		view->table[table->id] = from;
		view->rows[table->id] = table->rows;
	} else {
		/* A wrong number of rows does no harm; one group more than allowed is decoded. */
		uint64_t end = (max / PACK_GROUP + 1) * PACK_GROUP;

		status =
			decode_table(view, table, table->rows < end ? table->rows : end, from, err);
	}
	if (status != PROTON_OK)
		return status;
	if (view->rows[table->id] > max)
		return load_refuse(length, err);
	view->is_damaged = view->is_damaged || view->rows[table->id] < table->rows;
	view->cost += view->rows[table->id] * row_cost;
	return PROTON_OK;
}

/* ------------------------------------------------------------------ the whole */

/* Opens the table at `index` of the header. */
static int open_table(struct profile_view *view, const struct file_header *header,
		      const char *bytes, size_t length, uint32_t index, struct proton_error *err)
{
	struct packed_table table;

	if (header->major == PACKED_FILE_MAJOR) {
		if (read_table(bytes, length, index, &table))
			return open_packed(view, bytes, length, &table, err);
		view->is_damaged = true;
		return PROTON_OK;
	}
	if (header->tables[index].id >= TABLE_COUNT)
		return PROTON_OK; /* table of a later minor version */
	return open_extents(view, header, bytes, length, &header->tables[index], err);
}

static int check_header(const struct file_header *header, struct proton_error *err)
{
	bool is_packed = header->major == PACKED_FILE_MAJOR;

	if (!is_packed && header->major != PROFILE_FILE_MAJOR)
		return err_set(err, PROTON_E_FORMAT,
			       "unsupported profile format version %u.%u; this program reads %u.x "
			       "and %u.x",
			       header->major, header->minor, PROFILE_FILE_MAJOR, PACKED_FILE_MAJOR);
	if (!is_packed && header->state == PROFILE_FILE_STARTING)
		return err_set(err, PROTON_E_FORMAT,
			       "empty profile file: the process exited during startup");
	if (header->table_count > PROFILE_FILE_MAX_TABLES ||
	    (is_packed ? header->state != PROFILE_FILE_FINISHED
		       : header->extent_count > PROFILE_FILE_MAX_EXTENTS))
		return err_set(err, PROTON_E_FORMAT, "corrupt profile file header");
	return PROTON_OK;
}

int profile_view_open(struct profile_view *view, const void *bytes, size_t length,
		      struct proton_error *err)
{
	bool is_packed = profile_view_is_packed(bytes, length);

	*view = (struct profile_view){0};
	if (!profile_view_recognize(bytes, length))
		return err_set(err, PROTON_E_FORMAT, "not a profile file (bad magic)");
	if (!is_packed && length < sizeof(struct file_header))
		return err_set(err, PROTON_E_FORMAT, "truncated profile file header");
	/* A copy, because the bytes need not be aligned. */
	AUTO_FREE struct file_header *header = malloc(sizeof(*header));
	if (!header)
		return err_nomem(err);
	memcpy(header, bytes, is_packed ? sizeof(struct packed_header) : sizeof(*header));
	int status = check_header(header, err);
	if (status == PROTON_OK) {
		view->state = header->state;
		view->pid = header->pid;
		view->start_ns = header->start_ns;
		view->end_ns = header->end_ns;
	}
	for (uint32_t i = 0; status == PROTON_OK && i < header->table_count; i++)
		status = open_table(view, header, bytes, length, i, err);
	if (status != PROTON_OK)
		profile_view_fini(view);
	return status;
}
