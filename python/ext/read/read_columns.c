/* Columns in memory, made of the rows that the viewer writes. */
#include <math.h>

#include "base/buf.h"
#include "read.h"
#include "viewer/print/xalloc.h"

static void reserve_cells(struct read_column *column, size_t rows)
{
	xreserve(&column->cells, &column->capacity, rows + 1, sizeof(*column->cells));
}

static union read_cell missing_cell(const struct read_column *column)
{
	if (column->type == READ_NUMBER)
		return (union read_cell){.number = NAN};
	return (union read_cell){.integer = column->type == READ_TEXT ? column->text.length : 0};
}

/* The cell of a row: texts are in front of their ends. */
static union read_cell *cell_at(const struct read_column *column, size_t row)
{
	return &column->cells[row + (column->type == READ_TEXT)];
}

static void append_number_as_text(struct read_column *column, enum read_type type,
				  union read_cell cell)
{
	if (type == READ_INTEGER)
		out_i64(&column->text, cell.integer);
	else
		out_printf(&column->text, "%.17g", cell.number);
}

/* Gives the column the type of its first value, or a wider one for a later value. */
static void widen(struct read_column *column, enum read_type type, size_t rows)
{
	enum read_type before = column->type;
	union read_cell *old = column->cells;

	column->type = type;
	if (before == READ_INTEGER && type == READ_NUMBER) {
		for (size_t i = 0; i < rows; i++)
			old[i].number = read_is_valid(column, i) ? (double)old[i].integer : NAN;
		return;
	}
	column->cells = NULL;
	column->capacity = 0;
	reserve_cells(column, rows + 1);
	column->cells[0].end = 0;
	for (size_t i = 0; i < rows; i++) {
		if (before != READ_NONE && read_is_valid(column, i))
			append_number_as_text(column, before, old[i]);
		*cell_at(column, i) = missing_cell(column);
	}
	free(old);
}

static void note_valid(struct read_column *column, size_t row, bool is_valid)
{
	if (is_valid && !column->valid)
		return;
	if (row / 8 >= column->valid_capacity) {
		size_t before = column->valid_capacity;

		xreserve(&column->valid, &column->valid_capacity, row / 8 + 1, 1);
		memset(column->valid + before, 0xff, column->valid_capacity - before);
	}
	if (is_valid)
		return;
	column->valid[row / 8] &= (uint8_t) ~(1u << row % 8);
	column->null_count++;
}

static enum read_type type_of(const struct report_value *value)
{
	switch (value->type) {
	case REPORT_NONE:
		return READ_NONE;
	case REPORT_STRING:
		return READ_TEXT;
	case REPORT_COUNT:
		return value->as.count <= INT64_MAX ? READ_INTEGER : READ_NUMBER;
	case REPORT_INTEGER:
		return READ_INTEGER;
	case REPORT_NUMBER:
		break;
	}
	return isfinite(value->as.number) ? READ_NUMBER : READ_NONE;
}

static union read_cell cell_of(struct read_column *column, enum read_type type,
			       const struct report_value *value)
{
	union read_cell cell = {.integer = value->as.integer};

	if (type == READ_NONE)
		return missing_cell(column);
	if (type == READ_NUMBER)
		cell.number = value->type == REPORT_COUNT ? (double)value->as.count
							  : value->as.number;
	if (column->type == READ_NUMBER && type == READ_INTEGER)
		return (union read_cell){.number = (double)cell.integer};
	if (column->type != READ_TEXT)
		return cell;
	if (type == READ_TEXT)
		text_write_utf8(&column->text, value->as.string.bytes, value->as.string.length);
	else
		append_number_as_text(column, type, cell);
	return missing_cell(column);
}

static void append(struct read_column *column, size_t row, const struct report_value *value)
{
	enum read_type type = type_of(value);

	if (type > column->type)
		widen(column, type, row);
	note_valid(column, row, type != READ_NONE);
	if (column->type == READ_NONE)
		return;
	reserve_cells(column, row + 1);
	*cell_at(column, row) = cell_of(column, type, value);
	if (column->text.errnum)
		xgive_up();
}

static bool is_taken(const struct report_field *field)
{
	return field->name && !field->is_json_only;
}

/* Metrics are named by programs. */
static char *clean_name(const char *name)
{
	struct out text;
	size_t length;

	out_init(&text, -1);
	text_write_utf8(&text, name, strlen(name));
	char *clean = out_take(&text, &length);
	if (!clean)
		xgive_up();
	return clean;
}

static void begin_table(struct read_tables *tables, const struct report *report)
{
	struct read_table *table = xcalloc(1, sizeof(*table));

	table->users = 1;
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
	xreserve(&tables->items, &tables->capacity, tables->count + 1, sizeof(*tables->items));
	tables->items[tables->count++] = table;
	table->columns = xcalloc(report->field_count, sizeof(*table->columns));
	for (size_t i = 0; i < report->field_count; i++) {
		struct read_column *column = &table->columns[table->column_count];

		if (!is_taken(&report->fields[i]))
			continue;
		column->name = clean_name(report->fields[i].name);
		out_init(&column->text, -1);
		table->column_count++;
	}
}

void read_take(void *context, const struct report *report, const struct report_value *values)
{
	struct read_tables *tables = context;
	size_t at = 0;

	if (!values) {
		begin_table(tables, report);
		return;
	}
	struct read_table *table = tables->items[tables->count - 1];
	for (size_t i = 0; i < report->field_count; i++)
		if (is_taken(&report->fields[i]))
			append(&table->columns[at++], table->row_count, &values[i]);
	table->row_count++;
}

void read_tables_end(struct read_tables *tables)
{
	for (size_t t = 0; t < tables->count; t++) {
		struct read_table *table = tables->items[t];

		for (size_t i = 0; i < table->column_count; i++)
			if (table->columns[i].type == READ_NONE)
				widen(&table->columns[i], READ_NUMBER, table->row_count);
	}
}

void read_table_release(struct read_table *table)
{
	if (atomic_fetch_sub_explicit(&table->users, 1, memory_order_acq_rel) > 1)
		return;
	for (size_t i = 0; i < table->column_count; i++) {
		free(table->columns[i].name);
		free(table->columns[i].cells);
		free(table->columns[i].valid);
		out_fini(&table->columns[i].text);
	}
	free(table->columns);
	free(table);
}
