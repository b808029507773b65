/* Definition of module `triton_proton._reader`, and type Files: profiles in memory. */
#include <getopt.h>
#include <setjmp.h>

#include "base/message.h"
#include "base/mutex.h"
#include "read.h"
#include "viewer/print/progress.h"
#include "viewer/print/xalloc.h"
#include "viewer/viewer_run.h"

struct files_object {
	PyObject_HEAD
	struct input_store store; /* guarded by the lock of the viewer */
};

/* One use of the viewer. */
struct call {
	char **words; /* borrowed from a list of bytes */
	int count;
	struct input_store *store;
	struct input_store *base;
	bool is_load;
	bool has_rows; /* tables are wanted, not CSV */
	struct out out;
	struct out messages;
	struct read_tables tables;
	int status;
	bool is_out_of_memory;
	jmp_buf give_up;
};

/* The viewer has state of its process, as have getopt() and messages. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct call *running;

static void lock_all(void)
{
	pthread_mutex_lock(&lock);
}

static void unlock_all(void)
{
	pthread_mutex_unlock(&lock);
}

static void take_message(void *context, const char *line)
{
	struct out *messages = context;

	out_text(messages, line);
	out_byte(messages, '\n');
}

static void give_up(void)
{
	longjmp(running->give_up, 1);
}

static void run_options(struct call *call)
{
	const struct report_target target = {
		.out = &call->out,
		.take = call->has_rows ? read_take : NULL,
		.context = &call->tables,
	};
	struct options options;

	call->status = EXIT_BAD;
	optind = 0; /* getopt() begins again */
	if (options_parse(&options, call->count, call->words) == OPTIONS_RUN) {
		options.output.target = &target;
		call->status = !call->is_load ? viewer_run(&options, call->store, call->base)
			       : viewer_load(&options, call->store) ? 0
								    : EXIT_BAD;
	}
	query_options_fini(&options.query);
	read_tables_end(&call->tables);
}

/* If memory runs out, the memory that the viewer has in use is lost; the stores stay intact. */
static void run_call(struct call *call)
{
	MUTEX_HOLD(&lock);
	running = call;
	message_set_sink(take_message, &call->messages);
	if (setjmp(call->give_up) == 0)
		run_options(call);
	else
		call->is_out_of_memory = true;
	message_set_sink(NULL, NULL);
}

/* ------------------------------------------------------------------ the result */

static PyObject *bytes_of(const struct out *out)
{
	return PyBytes_FromStringAndSize(out->bytes, (Py_ssize_t)out->length);
}

static PyObject *tables_of(struct read_state *state, struct call *call)
{
	PyObject *list = PyList_New((Py_ssize_t)call->tables.count);

	for (size_t i = 0; i < call->tables.count; i++) {
		PyObject *table = read_table_object(state, call->tables.items[i]);

		if (list && table) {
			PyList_SET_ITEM(list, (Py_ssize_t)i, table);
		} else {
			Py_XDECREF(table);
			Py_CLEAR(list);
		}
	}
	call->tables.count = 0;
	return list;
}

/* (status, output, messages); the output is bytes or a list of tables. */
static PyObject *result_of(struct read_state *state, struct call *call)
{
	PyObject *output = call->is_out_of_memory ? PyErr_NoMemory()
			   : call->has_rows       ? tables_of(state, call)
						  : bytes_of(&call->out);
	PyObject *result =
		output ? Py_BuildValue("iNN", call->status, output, bytes_of(&call->messages))
		       : NULL;

	if (!call->is_out_of_memory)
		out_fini(&call->out);
	out_fini(&call->messages);
	free(call->tables.items);
	return result;
}

/* Runs the viewer with a list of bytes as its words. */
static PyObject *run_words(struct read_state *state, struct call *call, PyObject *list)
{
	Py_ssize_t count = PyList_Size(list);
	static char name[] = "proton-viewer";

	if (count < 0)
		return NULL;
	call->words = calloc((size_t)count + 2, sizeof(*call->words));
	if (!call->words)
		return PyErr_NoMemory();
	call->words[0] = name;
	call->count = (int)count + 1;
	for (Py_ssize_t i = 0; i < count; i++) {
		call->words[i + 1] = PyBytes_AsString(PyList_GET_ITEM(list, i));
		if (!call->words[i + 1]) {
			free(call->words);
			return NULL;
		}
	}
	out_init(&call->out, -1);
	out_init(&call->messages, -1);
	Py_BEGIN_ALLOW_THREADS
	run_call(call);
	Py_END_ALLOW_THREADS
	free(call->words);
	return result_of(state, call);
}

/* ------------------------------------------------------------------ files */

static PyObject *files_run(PyObject *object, PyTypeObject *type, PyObject *const *arguments,
			   Py_ssize_t count, PyObject *names)
{
	struct read_state *state = PyType_GetModuleState(type);
	struct call call = {.store = &((struct files_object *)object)->store};

	if (count != 3 || !PyList_Check(arguments[0])) {
		PyErr_SetString(PyExc_TypeError, "run() takes words, files or None, and a bool");
		return NULL;
	}
	if (PyObject_TypeCheck(arguments[1], state->files))
		call.base = &((struct files_object *)arguments[1])->store;
	call.has_rows = PyObject_IsTrue(arguments[2]) == 1;
	return run_words(state, &call, arguments[0]);
}

static PyObject *files_load(PyObject *object, PyTypeObject *type, PyObject *const *arguments,
			    Py_ssize_t count, PyObject *names)
{
	struct call call = {.store = &((struct files_object *)object)->store, .is_load = true};

	if (count != 1 || !PyList_Check(arguments[0])) {
		PyErr_SetString(PyExc_TypeError, "load() takes words");
		return NULL;
	}
	return run_words(PyType_GetModuleState(type), &call, arguments[0]);
}

/* Before the file is loaded by anyone. */
static PyObject *files_add(PyObject *object, PyObject *arguments)
{
	struct files_object *self = (struct files_object *)object;
	struct profile_bytes bytes = {0};
	const char *path;
	Py_buffer content;

	if (!PyArg_ParseTuple(arguments, "yy*", &path, &content))
		return NULL;
	bytes.length = (size_t)content.len;
	bytes.bytes = malloc(bytes.length + 1);
	if (bytes.bytes)
		memcpy(bytes.bytes, content.buf, bytes.length);
	PyBuffer_Release(&content);
	if (!bytes.bytes)
		return PyErr_NoMemory();
	bytes.bytes[bytes.length] = '\0'; /* for parsers of text */
	pthread_mutex_lock(&lock);
	bool is_added = input_store_add(&self->store, path, &bytes);
	pthread_mutex_unlock(&lock);
	free(bytes.bytes);
	if (!is_added)
		return PyErr_NoMemory();
	Py_RETURN_NONE;
}

static void files_free(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);

	input_store_fini(&((struct files_object *)object)->store);
	type->tp_free(object);
	Py_DECREF(type);
}

#define CALL_FLAGS (METH_METHOD | METH_FASTCALL | METH_KEYWORDS)

static PyMethodDef files_methods[] = {
	{"add", files_add, METH_VARARGS, "Keep the bytes of a path instead of reading it."},
	{"load", (PyCFunction)(void *)files_load, CALL_FLAGS, "Read the paths of the words."},
	{"run", (PyCFunction)(void *)files_run, CALL_FLAGS,
	 "Run the viewer: (status, bytes or tables, messages)."},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot files_slots[] = {
	{Py_tp_dealloc, (void *)files_free},
	{Py_tp_new, (void *)PyType_GenericNew},
	{Py_tp_methods, files_methods},
	{0, NULL},
};

static PyType_Spec files_spec = {
	.name = "triton_proton._reader.Files",
	.basicsize = sizeof(struct files_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = files_slots,
};

/* ------------------------------------------------------------------ the module */

static int module_exec(PyObject *module)
{
	struct read_state *state = PyModule_GetState(module);

	message_set_name("proton");
	progress_disable();
	xalloc_set_give_up(give_up);
	if (read_table_init(module, state) < 0)
		return -1;
	state->files = (PyTypeObject *)PyType_FromModuleAndSpec(module, &files_spec, NULL);
	return state->files ? PyModule_AddType(module, state->files) : -1;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
	struct read_state *state = PyModule_GetState(module);

	Py_VISIT(state->files);
	Py_VISIT(state->table);
	Py_VISIT(state->column);
	return 0;
}

static int module_clear(PyObject *module)
{
	struct read_state *state = PyModule_GetState(module);

	Py_CLEAR(state->files);
	Py_CLEAR(state->table);
	Py_CLEAR(state->column);
	return 0;
}

static void module_free(void *module)
{
	if (PyModule_GetState(module))
		module_clear(module);
}

static PyModuleDef_Slot module_slots[] = {
	{Py_mod_exec, (void *)module_exec},
#ifdef Py_mod_multiple_interpreters
	{Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#ifdef Py_mod_gil
	{Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
	{0, NULL},
};

static struct PyModuleDef module_def = {
	PyModuleDef_HEAD_INIT,
	.m_name = "triton_proton._reader",
	.m_doc = "The viewer for Python. Internal to the package triton_proton.",
	.m_size = sizeof(struct read_state),
	.m_methods = NULL,
	.m_slots = module_slots,
	.m_traverse = module_traverse,
	.m_clear = module_clear,
	.m_free = module_free,
};

PyMODINIT_FUNC PyInit__reader(void);
PyMODINIT_FUNC PyInit__reader(void)
{
	static bool has_handlers;

	if (!has_handlers)
		pthread_atfork(lock_all, unlock_all, unlock_all);
	has_handlers = true;
	return PyModuleDef_Init(&module_def);
}
