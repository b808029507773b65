/*
 * Inductor's generated files: kernels that are called, and what they compute.
 *
 * torch.compile calls the kernels of a graph from a Python file, with a comment above each call:
 *
 *     # Topologically Sorted Source Nodes: [h{@...}, out], Original ATen: [aten.mul, aten.gelu]
 *
 * Source nodes have the names of the program's variables or functions. The part in braces is ours
 * (_compiled.py): {@MODULES|LINE|FUNCTION|FILE|SHAPES|WORK}, where bytes that would end a part are
 * %XX. Older ones end with the file. A file from a cache that was filled without this package has
 * none.
 *
 * A file is read again for each of its lines that launches for the first time.
 */
#include "generated.h"

#include "ext.h"

#include "base/buf.h"
#include "base/hash.h"
#include "base/slice.h"

#define FILE_MAX_BYTES (32 << 20)
#define LINES_ABOVE 64  /* between a comment and the call: allocations and checks of tensors */
#define NAMES_BYTES 120 /* shown of each list */
#define STEM_BYTES 20   /* minimum; it is a hash */
#define TEXT_BYTES 4096 /* names and paths */

static atomic_bool lacks_names;
static atomic_bool shows_shapes;

/* Named c, then a hash in base 32, in a folder that is named after the start of the hash. */
static bool is_generated(const char *file)
{
	const char *name = strrchr(file, '/');
	if (!name || name - file < 3 || name[-3] != '/' || name[1] != 'c')
		return false;
	size_t stem = strspn(name + 1, "abcdefghijklmnopqrstuvwxyz234567");
	return stem >= STEM_BYTES && strcmp(name + 1 + stem, ".py") == 0 &&
	       strncmp(name - 2, name + 2, 2) == 0;
}

/* ------------------------------------------------------------------ lines */

/* True if the statement may call a kernel, or does not occur between the calls. */
static bool ends_search(struct slice line)
{
	static const char *const passed[] = {"#", "del ", "assert_", "with ",
					     "torch.cuda.set_device("};
	static const char *const calls[] = {"extern_kernels.", "torch.ops.", "aten."};
	if (line.length == 0)
		return false;
	for (size_t i = 0; i < sizeof(passed) / sizeof(*passed); i++)
		if (slice_starts(line, passed[i]))
			return false;
	const char *sign = memmem(line.at, line.length, " = ", 3);
	if (!sign || memchr(line.at, '(', (size_t)(sign - line.at)))
		return true;
	struct slice value = slice_between(sign + 3, slice_end(line));
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (slice_starts(value, calls[i]))
			return true;
	return false;
}

/* The comment that belongs to a line; empty: none. `end` is where the line begins. */
static struct slice find_comment(const char *text, const char *end)
{
	for (int i = 0; i < LINES_ABOVE && end > text; i++) {
		const char *newline = memrchr(text, '\n', (size_t)(end - 1 - text));
		const char *start = newline ? newline + 1 : text;
		struct slice line = slice_trim(slice_between(start, end - 1));
		if (slice_starts(line, "#") && memmem(line.at, line.length, "Source Nodes: [", 15))
			return line;
		if (ends_search(line))
			break;
		end = start;
	}
	return (struct slice){0};
}

/* The list after `label` in a comment, without its brackets. */
static struct slice list_after(struct slice comment, const char *label)
{
	struct slice list = {0};
	const char *found = comment.at ? memmem(comment.at, comment.length, label, strlen(label))
				       : NULL;
	if (!found)
		return list;
	list.at = found + strlen(label);
	const char *end = memchr(list.at, ']', (size_t)(comment.at + comment.length - list.at));
	list.length = end ? (size_t)(end - list.at) : 0;
	return list;
}

/* ------------------------------------------------------------------ nodes */

/* A text of limited size; the rest is left out. */
struct text {
	size_t length;
	bool is_full; /* as a list of names */
	char at[TEXT_BYTES];
};

static bool text_add(struct text *text, struct slice more)
{
	if (more.length > sizeof(text->at) - text->length)
		return false;
	memcpy(text->at + text->length, more.at, more.length);
	text->length += more.length;
	return true;
}

/* Adds an item to a list of names, not above the limit. */
static void list_add(struct text *list, struct slice item, bool is_once)
{
	struct slice rest = {list->at, list->length};
	while (is_once && rest.length > 0) {
		struct slice known = slice_take_until(&rest, ',');
		if (slices_equal(slice_trim(known), item))
			return;
	}
	if (list->is_full || item.length == 0)
		return;
	list->is_full = list->length + item.length + 2 > NAMES_BYTES && list->length > 0;
	if (item.length > NAMES_BYTES)
		item.length = NAMES_BYTES;
	if (list->length > 0)
		text_add(list, slice_of(", "));
	text_add(list, list->is_full ? slice_of("...") : item);
}

/* Without the coding of _compiled.py. */
static void decode(struct slice coded, struct text *out)
{
	out->length = 0;
	for (size_t i = 0; i < coded.length; i++) {
		int byte = coded.at[i] == '%' ? slice_hex_byte(coded, i + 1) : -1;
		char c = byte < 0 ? coded.at[i] : (char)byte;
		if (byte >= 0)
			i += 2;
		if (!text_add(out, (struct slice){&c, 1}))
			return;
	}
}

/* A node of the list; the slices are empty if the file does not tell. */
struct source {
	struct slice name, modules, line, function, file, shapes, work;
};

static struct source take_source(struct slice *list)
{
	struct source source = {0};
	struct slice item = slice_trim(slice_take_until(list, ','));
	source.name = slice_take_until(&item, '{');
	if (slice_take(&item, "@")) {
		item = slice_take_until(&item, '}');
		source.modules = slice_take_until(&item, '|');
		source.line = slice_take_until(&item, '|');
		source.function = slice_take_until(&item, '|');
		source.file = slice_take_until(&item, '|');
		source.shapes = slice_take_until(&item, '|');
		source.work = slice_take_until(&item, '|');
	}
	return source;
}

/* The modules that two have in common, as in "./layers.0/mlp": see modules_of() in Python. */
static struct slice common_modules(struct slice a, struct slice b)
{
	size_t end = 0;
	for (size_t i = 0; i <= a.length && i <= b.length; i++) {
		bool ends_a = i == a.length || a.at[i] == '/';
		bool ends_b = i == b.length || b.at[i] == '/';
		if (ends_a && ends_b)
			end = i;
		if (i == a.length || i == b.length || a.at[i] != b.at[i])
			break;
	}
	return (struct slice){a.at, end};
}

/* The name of the innermost of `modules`, after the first `skip` bytes. */
static void name_modules(struct slice modules, size_t skip, struct text *out)
{
	struct slice rest = modules;
	struct text part;
	out->length = 0;
	slice_skip(&rest, skip);
	while (rest.length > 0) {
		struct slice item = slice_take_until(&rest, '/');
		if (slice_is(item, "."))
			continue;
		if (slice_take(&item, "="))
			out->length = 0;
		else if (out->length > 0)
			text_add(out, slice_of("."));
		decode(item, &part);
		text_add(out, (struct slice){part.at, part.length});
	}
}

static void add_modules(struct slice modules, struct generated *out)
{
	size_t length = 0;
	for (size_t start = 0, end = 1; end <= modules.length; end++) {
		if (end < modules.length && modules.at[end] != '/')
			continue;
		struct slice path = {modules.at, end};
		const char *last = memrchr(path.at, '/', path.length);
		size_t at = last ? (size_t)(last + 1 - path.at) : 0;
		bool is_class = at < end && path.at[at] == '=';
		struct text name;
		name_modules(path, is_class ? at : start, &name);
		if (is_class)
			start = end + 1; /* names continue after it */
		size_t bytes = name.length + is_class + 1;
		if (name.length == 0 || bytes > sizeof(out->names) - length)
			continue;
		if (is_class)
			out->names[length] = '=';
		memcpy(out->names + length + is_class, name.at, name.length);
		length += bytes; /* the zero is there */
		out->module_count++;
	}
}

static void add_line(const struct source *source, struct generated *out)
{
	struct text file, function;
	struct slice digits = source->line;
	uint32_t line;
	if (!slice_take_number(&digits, INT32_MAX, &line) || source->file.length == 0)
		return;
	decode(source->file, &file);
	decode(source->function, &function);
	out->line = proton_frame_source(file.at, file.length, function.at, function.length, line);
}

static void add_shapes(struct slice shapes, bool is_once, struct text *list)
{
	while (shapes.length > 0) {
		struct text shape;
		decode(slice_take_until(&shapes, ';'), &shape);
		list_add(list, (struct slice){shape.at, shape.length}, is_once);
	}
}

/* Texts of which frames are made. */
struct lists {
	struct text names, inside, operators, shapes;
};

/*
 * The modules that the nodes have in common, and the names of others. An operator that is called as
 * it is, such as a product of matrices, is the last node; the others are views of its inputs.
 */
static void read_sources(struct slice list, bool is_operator, struct generated *out,
			 struct lists *lists)
{
	struct slice common = {0}, rest = list;
	while (rest.length > 0) {
		struct source source = take_source(&rest);
		list_add(&lists->names, source.name, true);
		if (is_operator)
			lists->shapes = (struct text){0};
		add_shapes(source.shapes, !is_operator, &lists->shapes);
		add_line(&source, out); /* that of the last one remains */
		if (source.modules.length > 0)
			common = common.at && !is_operator ? common_modules(common, source.modules)
							   : source.modules;
	}
	add_modules(common, out);
	for (rest = list; rest.length > 0 && !is_operator;) {
		struct source source = take_source(&rest);
		struct text name;
		if (source.modules.length <= common.length)
			continue;
		name_modules(source.modules, common.length + (common.length > 0), &name);
		list_add(&lists->inside, (struct slice){name.at, name.length}, true);
	}
}

/* ------------------------------------------------------------------ work */

/* True if the call has that argument or result. */
static bool has_word(struct slice call, struct slice word)
{
	const char *at = call.at, *end = slice_end(call);
	while (word.length > 0 && (at = memmem(at, (size_t)(end - at), word.at, word.length))) {
		const char *after = at + word.length;
		bool begins = at == call.at || !slice_is_name_char(at[-1]);
		if (begins && (after == end || !slice_is_name_char(*after)))
			return true;
		at = after;
	}
	return false;
}

/* A count of at most 15 digits, which a double has exactly; -1: it is not known. */
static double take_count(struct slice *item)
{
	struct slice digits = slice_take_until(item, ':');
	double count = digits.length > 0 && digits.length < 16 ? 0 : -1;
	for (size_t i = 0; i < digits.length && count >= 0; i++)
		count = digits.at[i] >= '0' && digits.at[i] <= '9' ? count * 10 + digits.at[i] - '0'
								   : -1;
	return count;
}

static void add_metric(struct proton_metric metric, struct generated *out)
{
	metric.name_id = proton_metric_name(metric.name);
	out->work[out->work_count++] = metric;
}

/* From "BUFFER:BYTES:BITS:FLOPS": see _compiled_work.py. */
static void set_work(struct slice item, struct generated *out)
{
	static const char *const names[] = {"flops8", "flops16", "flops32", "flops64"};
	double bytes = take_count(&item), bits = take_count(&item), flops = take_count(&item);
	out->work_count = 0;
	if (bytes >= 0)
		add_metric((struct proton_metric){.name = "bytes",
						  .type = PROTON_METRIC_INT64,
						  .value.int64 = (int64_t)bytes},
			   out);
	for (int i = 0; i < 4 && flops >= 0; i++)
		if (bits == 8 << i)
			add_metric((struct proton_metric){.name = names[i],
							  .type = PROTON_METRIC_DOUBLE,
							  .value.float64 = flops},
				   out);
}

/* Several kernels may compute a node; the newest buffer in the call is that of the called one. */
static void read_work(struct slice list, struct slice call, struct generated *out)
{
	uint32_t newest = 0;
	while (list.length > 0) {
		struct slice items = take_source(&list).work;
		while (items.length > 0) {
			struct slice item = slice_take_until(&items, ';');
			struct slice buffer = slice_take_until(&item, ':'), number = buffer;
			uint32_t index;
			if (!has_word(call, buffer) || !slice_take(&number, "buf") ||
			    !slice_take_number(&number, INT32_MAX, &index) || index < newest)
				continue;
			newest = index;
			set_work(item, out);
		}
	}
}

/* ------------------------------------------------------------------ a call */

/* The frame "<first: second (third)>", with `before` for "<"; 0: the first two are empty. */
static uint32_t list_frame(const char *before, const struct text *first, const struct text *second,
			   const struct text *third)
{
	struct text text = {0};
	if (first->length + second->length == 0)
		return 0;
	text_add(&text, slice_of(before));
	text_add(&text, (struct slice){first->at, first->length});
	text_add(&text, slice_of(first->length && second->length ? ": " : ""));
	text_add(&text, (struct slice){second->at, second->length});
	if (third->length > 0) {
		text_add(&text, slice_of(" ("));
		text_add(&text, (struct slice){third->at, third->length});
		text_add(&text, slice_of(")"));
	}
	text_add(&text, slice_of(">"));
	return proton_frame(text.at, text.length);
}

bool generated_read(const char *file, uint32_t line, struct generated *out)
{
	static const struct file_limits limits = {.max_bytes = FILE_MAX_BYTES};
	struct proton_error err;
	size_t size;
	char *text;
	if (line <= 1 || !is_generated(file) ||
	    file_read_all(file, &limits, &text, &size, &err) != PROTON_OK)
		return false;
	const char *start = text;
	for (uint32_t i = 1; i < line && start; i++) {
		start = memchr(start, '\n', (size_t)(text + size - start));
		start = start ? start + 1 : NULL;
	}
	struct slice comment = start ? find_comment(text, start) : (struct slice){0};
	struct slice rest = list_after(comment, "Original ATen: [");
	const struct text none = {0};
	struct lists lists = {0};
	*out = (struct generated){0};
	if (comment.at) {
		struct slice call = slice_between(start, text + size);
		call = slice_take_until(&call, '\n');
		bool is_operator = !memmem(call.at, call.length, ".run(", 5);
		read_sources(list_after(comment, "Source Nodes: ["), is_operator, out, &lists);
		read_work(list_after(comment, "Source Nodes: ["), call, out);
		while (rest.length > 0)
			list_add(&lists.operators, slice_trim(slice_take_until(&rest, ',')), true);
		out->operators = list_frame("<", &lists.names, &lists.operators, &none);
		out->shaped = list_frame("<", &lists.names, &lists.operators, &lists.shapes);
		out->inside = list_frame("<in ", &lists.inside, &none, &none);
		if (!memmem(text, size, "{@", 2))
			atomic_store_explicit(&lacks_names, true, memory_order_relaxed);
	}
	free(text);
	return out->line || out->operators || out->module_count;
}

/* ------------------------------------------------------------------ modules as frames */

enum scope_kind {
	SCOPE_MODULE = 1,
	SCOPE_MODEL
};

static struct {
	struct ext_mutex lock;
	struct hash_table kinds; /* hash of the name of a module's scope -> enum scope_kind */
} scopes;

/*
 * A scope called `name` is a module: its names of modules inside continue those of compiled code
 * that it runs. `is_model`: it is the whole model, and is not part of their names.
 */
static PyObject *name_module(PyObject *module, PyObject *args)
{
	const char *name;
	Py_ssize_t length;
	int is_model;
	if (!PyArg_ParseTuple(args, "s#p:name_module", &name, &length, &is_model))
		return NULL;
	uint64_t hash = hash_bytes(name, (size_t)length);
	ext_lock(&scopes.lock);
	if (!hash_table_find(&scopes.kinds, hash) && hash_table_reserve(&scopes.kinds, 1))
		hash_table_add(&scopes.kinds, hash, is_model ? SCOPE_MODEL : SCOPE_MODULE);
	ext_unlock(&scopes.lock);
	Py_RETURN_NONE;
}

/* The module in which compiled code runs, if its call is a scope; that of a model has no name. */
static struct slice module_around(uint32_t context)
{
	uint32_t length, kind = 0;
	const char *name;
	while (!kind && (name = proton_context_name(&context, &length)) != NULL) {
		ext_lock(&scopes.lock);
		kind = hash_table_find(&scopes.kinds, hash_bytes(name, length));
		ext_unlock(&scopes.lock);
	}
	return kind == SCOPE_MODULE ? (struct slice){name, length} : (struct slice){0};
}

static bool has_name(uint32_t context, struct slice wanted)
{
	uint32_t length;
	const char *name;
	while ((name = proton_context_name(&context, &length)) != NULL)
		if (slices_equal((struct slice){name, length}, wanted))
			return true;
	return false;
}

uint32_t generated_modules_below(const struct generated *generated, uint32_t context)
{
	struct slice around = module_around(context);
	const char *at = generated->names;
	for (uint32_t i = 0; i < generated->module_count; i++, at += strlen(at) + 1) {
		struct slice name = slice_of(at);
		struct text full = {0};
		bool is_class = slice_take(&name, "=");
		if (is_class && has_name(context, name))
			continue; /* the call of the whole model is a scope */
		if (is_class)
			around.length = 0;
		if (around.length > 0 && text_add(&full, around))
			text_add(&full, slice_of("."));
		text_add(&full, name);
		context = proton_context_child(context, proton_frame(full.at, full.length));
	}
	return generated->inside ? proton_context_child(context, generated->inside) : context;
}

bool generated_shows_shapes(void)
{
	return atomic_load_explicit(&shows_shapes, memory_order_relaxed);
}

static PyObject *show_shapes(PyObject *module, PyObject *wanted)
{
	atomic_store_explicit(&shows_shapes, wanted == Py_True, memory_order_relaxed);
	Py_RETURN_NONE;
}

static PyObject *compiled_without_names(PyObject *module, PyObject *unused)
{
	return PyBool_FromLong(atomic_load_explicit(&lacks_names, memory_order_relaxed));
}

PyMethodDef ext_generated_methods[] = {
	{"name_module", name_module, METH_VARARGS,
	 "name_module(name, is_model): scopes of that name are calls of a module."},
	{"compiled_without_names", compiled_without_names, METH_NOARGS,
	 "Whether generated files were seen that do not tell modules and lines."},
	{"show_shapes", show_shapes, METH_O,
	 "show_shapes(wanted): whether operators of compiled code have their input shapes."},
	{NULL, NULL, 0, NULL},
};
