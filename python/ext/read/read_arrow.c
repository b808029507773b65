/* Tables for Arrow's C data interface: consumers use the table's memory until they release it. */
#include <errno.h>

#include "read.h"

/* The ABI, as published: https://arrow.apache.org/docs/format/CDataInterface.html */

#define ARROW_FLAG_NULLABLE 2

struct ArrowSchema {
	const char *format;
	const char *name;
	const char *metadata;
	int64_t flags;
	int64_t n_children;
	struct ArrowSchema **children;
	struct ArrowSchema *dictionary;
	void (*release)(struct ArrowSchema *);
	void *private_data;
};

struct ArrowArray {
	int64_t length;
	int64_t null_count;
	int64_t offset;
	int64_t n_buffers;
	int64_t n_children;
	const void **buffers;
	struct ArrowArray **children;
	struct ArrowArray *dictionary;
	void (*release)(struct ArrowArray *);
	void *private_data;
};

struct ArrowArrayStream {
	int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
	int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
	const char *(*get_last_error)(struct ArrowArrayStream *);
	void (*release)(struct ArrowArrayStream *);
	void *private_data;
};

/* Owned by a schema or an array: its children, and a use of the table that it points into. */
struct shared {
	struct read_table *table;
	const void *buffers[3];
	union {
		struct ArrowSchema *schemas;
		struct ArrowArray *arrays;
	} items;
	void *pointers[]; /* to them */
};

static struct shared *hold(struct read_table *table, size_t children, size_t item_bytes)
{
	struct shared *shared = calloc(1, sizeof(*shared) + children * sizeof(void *));
	void *items = calloc(children ? children : 1, item_bytes);

	if (!shared || !items) {
		free(shared);
		free(items);
		return NULL;
	}
	shared->items.schemas = items;
	for (size_t i = 0; i < children; i++)
		shared->pointers[i] = (char *)items + i * item_bytes;
	shared->table = table;
	atomic_fetch_add_explicit(&table->users, 1, memory_order_relaxed);
	return shared;
}

static void let_go(struct shared *shared)
{
	read_table_release(shared->table);
	free(shared->items.schemas);
	free(shared);
}

static void release_schema(struct ArrowSchema *schema)
{
	for (int64_t i = 0; i < schema->n_children; i++)
		if (schema->children[i]->release)
			schema->children[i]->release(schema->children[i]);
	let_go(schema->private_data);
	schema->release = NULL;
}

/* Consumers may have moved children: those have no release function any more. */
static void release_array(struct ArrowArray *array)
{
	for (int64_t i = 0; i < array->n_children; i++)
		if (array->children[i]->release)
			array->children[i]->release(array->children[i]);
	let_go(array->private_data);
	array->release = NULL;
}

static bool make_schema(struct read_table *table, const struct read_column *column,
			struct ArrowSchema *out)
{
	static const char *const formats[] = {
		[READ_INTEGER] = "l", [READ_NUMBER] = "g", [READ_TEXT] = "U"};
	size_t count = column ? 0 : table->column_count;
	struct shared *shared = hold(table, count, sizeof(struct ArrowSchema));

	if (!shared)
		return false;
	*out = (struct ArrowSchema){
		.format = column ? formats[column->type] : "+s",
		.name = column ? column->name : "",
		.flags = column ? ARROW_FLAG_NULLABLE : 0,
		.n_children = (int64_t)count,
		.children = count ? (struct ArrowSchema **)shared->pointers : NULL,
		.release = release_schema,
		.private_data = shared,
	};
	for (size_t i = 0; i < count; i++) {
		if (!make_schema(table, &table->columns[i], out->children[i])) {
			release_schema(out);
			return false;
		}
	}
	return true;
}

static bool make_array(struct read_table *table, const struct read_column *column,
		       struct ArrowArray *out)
{
	size_t count = column ? 0 : table->column_count;
	struct shared *shared = hold(table, count, sizeof(struct ArrowArray));

	if (!shared)
		return false;
	*out = (struct ArrowArray){
		.length = (int64_t)table->row_count,
		.null_count = column ? (int64_t)column->null_count : 0,
		.n_buffers = !column                     ? 1
			     : column->type == READ_TEXT ? 3
							 : 2,
		.n_children = (int64_t)count,
		.buffers = shared->buffers,
		.children = count ? (struct ArrowArray **)shared->pointers : NULL,
		.release = release_array,
		.private_data = shared,
	};
	if (column) {
		shared->buffers[0] = column->valid;
		shared->buffers[1] = column->cells;
		shared->buffers[2] = column->text.bytes ? column->text.bytes : "";
	}
	for (size_t i = 0; i < count; i++) {
		if (!make_array(table, &table->columns[i], out->children[i])) {
			release_array(out);
			return false;
		}
	}
	return true;
}

/* ------------------------------------------------------------------ the stream */

/* The rest of a stream. Its only error is a lack of memory. */
struct source {
	struct read_table *table;
	bool is_read;
};

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
	return make_schema(((struct source *)stream->private_data)->table, NULL, out) ? 0 : ENOMEM;
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
	struct source *source = stream->private_data;

	*out = (struct ArrowArray){0}; /* without a release function: the end */
	if (!source->is_read && !make_array(source->table, NULL, out))
		return ENOMEM;
	source->is_read = true;
	return 0;
}

static const char *get_last_error(struct ArrowArrayStream *stream)
{
	return "out of memory";
}

static void release_stream(struct ArrowArrayStream *stream)
{
	struct source *source = stream->private_data;

	read_table_release(source->table);
	free(source);
	stream->release = NULL;
}

#define STREAM_NAME "arrow_array_stream"

static void free_stream(PyObject *capsule)
{
	struct ArrowArrayStream *stream = PyCapsule_GetPointer(capsule, STREAM_NAME);

	if (stream && stream->release)
		stream->release(stream);
	free(stream);
}

PyObject *read_arrow_stream(struct read_table *table)
{
	struct ArrowArrayStream *stream = malloc(sizeof(*stream));
	struct source *source = malloc(sizeof(*source));
	PyObject *capsule = NULL;

	if (stream && source)
		capsule = PyCapsule_New(stream, STREAM_NAME, free_stream);
	else
		PyErr_NoMemory();
	if (!stream || !source || !capsule) {
		free(stream);
		free(source);
		return NULL;
	}
	atomic_fetch_add_explicit(&table->users, 1, memory_order_relaxed);
	*source = (struct source){.table = table};
	*stream = (struct ArrowArrayStream){
		.get_schema = get_schema,
		.get_next = get_next,
		.get_last_error = get_last_error,
		.release = release_stream,
		.private_data = source,
	};
	return capsule;
}
