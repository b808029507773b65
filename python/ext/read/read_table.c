/* Types Table and Column: the rows that the viewer wrote, for Python. */

#include "read.h"

/* Both types begin with this. */
struct user {
	PyObject_HEAD
	struct read_table *table;
};

struct table_object {
	struct user user;
	struct read_state *state; /* the module's, which the type keeps alive */
};

struct column_object {
	struct user user;
	const struct read_column *column;
	Py_ssize_t rows;
};

static void object_free(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	read_table_release(((struct user *)self)->table);
	type->tp_free(self);
	Py_DECREF(type);
}

/* ------------------------------------------------------------------ columns */

static PyObject *value_at(const struct read_column *column, Py_ssize_t row)
{
	const union read_cell *cell = &column->cells[row];

	if (!read_is_valid(column, (size_t)row))
		Py_RETURN_NONE;
	if (column->type == READ_INTEGER)
		return PyLong_FromLongLong(cell->integer);
	if (column->type == READ_NUMBER)
		return PyFloat_FromDouble(cell->number);
	return PyUnicode_DecodeUTF8(column->text.bytes ? column->text.bytes + cell->end : "",
				    (Py_ssize_t)(cell[1].end - cell->end), "replace");
}

static PyObject *column_tolist(PyObject *object, PyObject *unused)
{
	struct column_object *self = (struct column_object *)object;
	PyObject *list = PyList_New(self->rows);

	for (Py_ssize_t i = 0; list && i < self->rows; i++) {
		PyObject *value = value_at(self->column, i);

		if (value)
			PyList_SET_ITEM(list, i, value);
		else
			Py_CLEAR(list);
	}
	return list;
}

static PyObject *column_mask(PyObject *object, PyObject *unused)
{
	struct column_object *self = (struct column_object *)object;
	PyObject *bytes = PyBytes_FromStringAndSize(NULL, self->rows);

	for (Py_ssize_t i = 0; bytes && i < self->rows; i++)
		PyBytes_AS_STRING(bytes)[i] = !read_is_valid(self->column, (size_t)i);
	return bytes;
}

static Py_ssize_t column_length(PyObject *object)
{
	return ((struct column_object *)object)->rows;
}

static PyObject *column_item(PyObject *object, Py_ssize_t row)
{
	struct column_object *self = (struct column_object *)object;

	if (row >= 0 && row < self->rows)
		return value_at(self->column, row);
	PyErr_SetString(PyExc_IndexError, "there is no such row");
	return NULL;
}

static int column_buffer(PyObject *object, Py_buffer *view, int flags)
{
	struct column_object *self = (struct column_object *)object;
	static char formats[][2] = {[READ_INTEGER] = "q", [READ_NUMBER] = "d"};

	if (self->column->type == READ_TEXT) {
		PyErr_SetString(PyExc_BufferError, "a column of text has no buffer; use tolist()");
		return -1;
	}
	if (PyBuffer_FillInfo(view, object, self->column->cells, self->rows * 8, 1, flags) < 0)
		return -1;
	view->itemsize = sizeof(union read_cell);
	view->format = flags & PyBUF_FORMAT ? formats[self->column->type] : NULL;
	/* One dimension: its length is in the object. */
	view->shape = flags & PyBUF_ND ? &self->rows : NULL;
	view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? &view->itemsize : NULL;
	return 0;
}

static PyObject *column_kind(PyObject *object, void *unused)
{
	static const char *const kinds[] = {
		[READ_INTEGER] = "int", [READ_NUMBER] = "float", [READ_TEXT] = "str"};

	return PyUnicode_FromString(kinds[((struct column_object *)object)->column->type]);
}

static PyObject *column_nulls(PyObject *object, void *unused)
{
	return PyLong_FromSize_t(((struct column_object *)object)->column->null_count);
}

static PyMethodDef column_methods[] = {
	{"tolist", column_tolist, METH_NOARGS, "The values as a list; None for none."},
	{"mask", column_mask, METH_NOARGS, "A byte per row: 1 if it has no value."},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef column_members[] = {
	{"kind", column_kind, NULL, "The type of the values: int, float or str.", NULL},
	{"null_count", column_nulls, NULL, "The number of rows without a value.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot column_slots[] = {
	{Py_tp_dealloc, (void *)object_free},
	{Py_tp_methods, column_methods},
	{Py_tp_getset, column_members},
	{Py_sq_length, (void *)column_length},
	{Py_sq_item, (void *)column_item},
	{Py_bf_getbuffer, (void *)column_buffer},
	{0, NULL},
};

static PyType_Spec column_spec = {
	.name = "triton_proton._reader.Column",
	.basicsize = sizeof(struct column_object),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = column_slots,
};

/* ------------------------------------------------------------------ tables */

PyObject *read_table_object(struct read_state *state, struct read_table *table)
{
	struct table_object *self = PyObject_New(struct table_object, state->table);

	if (!self) {
		read_table_release(table);
		return NULL;
	}
	self->user.table = table;
	self->state = state;
	return (PyObject *)self;
}

static PyObject *table_column(PyObject *object, PyObject *number)
{
	struct table_object *self = (struct table_object *)object;
	size_t index = PyLong_AsSize_t(number);

	if (PyErr_Occurred())
		return NULL;
	if (index >= self->user.table->column_count) {
		PyErr_SetString(PyExc_IndexError, "there is no such column");
		return NULL;
	}
	struct column_object *column = PyObject_New(struct column_object, self->state->column);
	if (!column)
		return NULL;
	column->user.table = self->user.table;
	column->column = &self->user.table->columns[index];
	column->rows = (Py_ssize_t)self->user.table->row_count;
	atomic_fetch_add_explicit(&self->user.table->users, 1, memory_order_relaxed);
	return (PyObject *)column;
}

static PyObject *table_stream(PyObject *object, PyObject *const *arguments, Py_ssize_t count,
			      PyObject *names)
{
	/* The requested schema may be ignored. */
	return read_arrow_stream(((struct user *)object)->table);
}

static PyObject *table_names(PyObject *object, void *unused)
{
	const struct read_table *table = ((struct user *)object)->table;
	PyObject *names = PyList_New((Py_ssize_t)table->column_count);

	for (size_t i = 0; names && i < table->column_count; i++) {
		PyObject *name = PyUnicode_FromString(table->columns[i].name);

		if (name)
			PyList_SET_ITEM(names, (Py_ssize_t)i, name);
		else
			Py_CLEAR(names);
	}
	return names;
}

static Py_ssize_t table_length(PyObject *object)
{
	return (Py_ssize_t)((struct user *)object)->table->row_count;
}

static PyMethodDef table_methods[] = {
	{"column", table_column, METH_O, "The column of that number."},
	{"__arrow_c_stream__", (PyCFunction)(void *)table_stream, METH_FASTCALL | METH_KEYWORDS,
	 "The table as a stream of Arrow, without a copy."},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef table_members[] = {
	{"names", table_names, NULL, "The names of the columns.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot table_slots[] = {
	{Py_tp_dealloc, (void *)object_free},
	{Py_tp_methods, table_methods},
	{Py_tp_getset, table_members},
	{Py_sq_length, (void *)table_length},
	{0, NULL},
};

static PyType_Spec table_spec = {
	.name = "triton_proton._reader.Table",
	.basicsize = sizeof(struct table_object),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = table_slots,
};

int read_table_init(PyObject *module, struct read_state *state)
{
	state->table = (PyTypeObject *)PyType_FromModuleAndSpec(module, &table_spec, NULL);
	state->column = (PyTypeObject *)PyType_FromModuleAndSpec(module, &column_spec, NULL);
	if (!state->table || !state->column || PyModule_AddType(module, state->table) < 0)
		return -1;
	return PyModule_AddType(module, state->column);
}
