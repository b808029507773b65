/*
 * CPython extension _reader: the viewer (src/viewer) for Python, without a recorder. Declarations
 * shared by its files.
 *
 * The viewer is a program. It runs here as a function, one at a time and without the GIL, with its
 * messages, output and lack of memory taken over (viewer/viewer_run.h).
 */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "viewer/print/report_table.h"

/* ------------------------------------------------------------------ columns (read_columns.c) */

enum read_type {
	READ_NONE, /* no value yet */
	READ_INTEGER,
	READ_NUMBER,
	READ_TEXT,
};

union read_cell {
	int64_t integer; /* 0 if there is no value */
	double number;   /* NAN if there is no value */
	int64_t end; /* a text ends there; the first cell is 0, so cells are one more than rows */
};

struct read_column {
	char *name;
	enum read_type type;
	union read_cell *cells;
	size_t capacity;
	struct out text;
	uint8_t *valid; /* a bit per row, lowest first; NULL: all rows have values */
	size_t valid_capacity;
	size_t null_count;
};

/* A table in memory, in the layout of Arrow. It is complete when others can see it. */
struct read_table {
	atomic_size_t users;
	size_t row_count;
	struct read_column *columns;
	size_t column_count;
};

/* Tables while the viewer writes them. */
struct read_tables {
	struct read_table **items;
	size_t count, capacity;
};

/* Takes a row of the viewer: a report_take_fn with struct read_tables. */
void read_take(void *context, const struct report *report, const struct report_value *values);
/* After the last row: columns without any value become numbers. */
void read_tables_end(struct read_tables *tables);
void read_table_release(struct read_table *table);
static inline bool read_is_valid(const struct read_column *column, size_t row)
{
	return !column->valid || (column->valid[row / 8] >> row % 8 & 1);
}

/* ------------------------------------------------------------------ Arrow (read_arrow.c) */

/* A capsule "arrow_array_stream" of the table's memory; NULL with an exception. */
PyObject *read_arrow_stream(struct read_table *table);

/* ------------------------------------------------------------------ types (read_table.c) */

struct read_state {
	PyTypeObject *files, *table, *column;
};

int read_table_init(PyObject *module, struct read_state *state);
/* Takes the table. */
PyObject *read_table_object(struct read_state *state, struct read_table *table);
