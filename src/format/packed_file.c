/* Packed profile files: writing and reading. See docs/format.md. */
#include "format/packed_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "format/load_budget.h"
#include "format/pack.h"

/* The columns of rows; NULL: stored raw. */
static const char *const layouts[TABLE_COUNT] = {
#define TABLE(name, id, row, mib, has_row_0, columns) [id] = columns,
#include "format/tables.def"
#undef TABLE
};

static uint64_t columns_of(const char *layout)
{
	uint64_t columns = 0;

	for (uint32_t i = 0; layout[i]; i++)
		columns |= (uint64_t)(layout[i] == '8' ? PACK_COLUMN_U64 : PACK_COLUMN_U32)
			   << (4 * i);
	return columns;
}

/* ------------------------------------------------------------------ writing */

/* Traces refer to rows of these tables in the file's bytes: events are many, and mostly unlike. */
static bool is_raw(const struct profile_view *view, enum table_id id)
{
	return !layouts[id] || (view->rows[TABLE_EVENTS] && id == TABLE_VECTORS);
}

static void pack_table(const struct profile_view *view, enum table_id id,
		       struct packed_table *table, struct out *data)
{
	static const char zeros[8];
	size_t start = data->length;
	uint64_t bytes = view->rows[id] * profile_row_bytes[id];
	uint64_t columns;

	*table = (struct packed_table){
		.id = (uint32_t)id,
		.row_bytes = profile_row_bytes[id],
		.rows = view->rows[id],
		.columns = PACKED_RAW,
	};
	if (id == TABLE_STRINGS && pack_strings(data, view->table[id], bytes)) {
		table->columns = PACKED_STRINGS;
	} else if (!is_raw(view, id)) {
		columns = columns_of(layouts[id]);
		table->columns = columns;
		pack_rows(data, view->table[id], bytes / pack_columns_bytes(columns), columns);
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

int packed_file_write(const struct profile_view *view, struct out *out, struct proton_error *err)
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
	struct out data;
	int status;

	out_init(&data, -1);
	for (int id = 0; id < TABLE_COUNT; id++)
		if (view->rows[id])
			pack_table(view, (enum table_id)id, &tables[header.table_count++], &data);
	header.header_bytes =
		(uint32_t)(sizeof(header) + header.table_count * sizeof(struct packed_table));
	for (uint32_t i = 0; i < header.table_count; i++)
		tables[i].offset += header.header_bytes;
	status = out_finish(&data, err);
	if (status == PROTON_OK) {
		out_bytes(out, &header, sizeof(header));
		out_bytes(out, tables, header.table_count * sizeof(struct packed_table));
		out_bytes(out, data.bytes, data.length);
	}
	out_fini(&data);
	return status;
}

/* ------------------------------------------------------------------ reading */

bool packed_file_recognize(const void *bytes, size_t length)
{
	struct packed_header header;

	if (length < sizeof(header))
		return false;
	memcpy(&header, bytes, sizeof(header));
	return memcmp(header.magic, PROFILE_FILE_MAGIC, sizeof(header.magic)) == 0 &&
	       header.major == PACKED_FILE_MAJOR;
}

static bool read_table(const void *bytes, size_t length, uint32_t index, struct packed_table *out)
{
	size_t at = sizeof(struct packed_header) + index * sizeof(*out);

	if (at + sizeof(*out) > length)
		return false;
	memcpy(out, (const char *)bytes + at, sizeof(*out));
	return true;
}

uint64_t packed_file_rows(const void *bytes, size_t length, enum table_id id)
{
	struct packed_header header;
	struct packed_table table;

	if (!packed_file_recognize(bytes, length))
		return 0;
	memcpy(&header, bytes, sizeof(header));
	for (uint32_t i = 0; i < header.table_count && i < PROFILE_FILE_MAX_TABLES; i++)
		if (read_table(bytes, length, i, &table) && table.id == (uint32_t)id)
			return table.rows;
	return 0;
}

/* Keeps the part of each row that this version knows. */
static void shorten_rows(char *rows, uint64_t count, uint32_t from_bytes, uint32_t to_bytes)
{
	for (uint64_t row = 1; row < count && from_bytes > to_bytes; row++)
		memmove(rows + row * to_bytes, rows + row * from_bytes, to_bytes);
}

/* Decodes `rows` rows of a table into new memory. */
static int decode_table(struct profile_view *view, const struct packed_table *table, uint64_t rows,
			const char *from, struct proton_error *err)
{
	uint32_t known = profile_row_bytes[table->id];
	/* Without rows, their size may be any number. */
	char *decoded = calloc(rows ? rows : 1, rows ? table->row_bytes : known);

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
	shorten_rows(decoded, rows, table->row_bytes, known);
	view->owned[table->id] = decoded;
	view->table[table->id] = decoded;
	view->rows[table->id] = rows;
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

static int open_table(struct profile_view *view, const char *bytes, size_t length,
		      struct packed_table *table, struct proton_error *err)
{
	uint64_t row_cost, max;
	const char *from;
	int status = PROTON_OK;

	if (table->id >= TABLE_COUNT)
		return PROTON_OK; /* table of a later minor version */
	if (!check_table(table, view, length, &view->is_damaged)) {
		view->is_damaged = true;
		return PROTON_OK;
	}
	row_cost = load_row_cost(table->id, table->row_bytes);
	max = (load_budget(length) - view->cost) / row_cost;
	from = bytes + table->offset;
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

int packed_file_open(struct profile_view *view, const void *bytes, size_t length,
		     struct proton_error *err)
{
	struct packed_header header;
	struct packed_table table;
	int status;

	*view = (struct profile_view){0};
	if (!packed_file_recognize(bytes, length))
		return err_set(err, PROTON_E_FORMAT, "truncated profile file header");
	memcpy(&header, bytes, sizeof(header));
	if (header.table_count > PROFILE_FILE_MAX_TABLES || header.state != PROFILE_FILE_FINISHED)
		return err_set(err, PROTON_E_FORMAT, "corrupt profile file header");
	view->state = header.state;
	view->pid = header.pid;
	view->start_ns = header.start_ns;
	view->end_ns = header.end_ns;
	for (uint32_t i = 0; i < header.table_count; i++) {
		if (!read_table(bytes, length, i, &table)) {
			view->is_damaged = true;
			break;
		}
		status = open_table(view, bytes, length, &table, err);
		if (status != PROTON_OK) {
			profile_view_fini(view);
			return status;
		}
	}
	return PROTON_OK;
}
