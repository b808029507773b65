/*
 * The context "python": where in the Python program a kernel was launched.
 *
 * A path is a chain of (code object, instruction offset) pairs, root first. Each code object gets
 * a number when it is first met, kept in its co_extra slot: the slot dies with the code object and
 * numbers are never used again, so a code object that later lies at the same address cannot be
 * mistaken for it, and none is kept alive. (parent context, code number, offset) -> context is
 * one hash table for the process. Lines and names are looked at only when that table has no entry.
 *
 * A thread remembers its last path: a launch in a loop compares numbers and never hashes.
 *
 * The tables hold no Python objects and are guarded by the GIL. They are a cache: when they grow
 * beyond a bound they are emptied and fill again.
 */
#include "ext.h"

#include <frameobject.h>
#include <pthread.h>
#include <stdlib.h>

#define TABLE_MIN_CAPACITY 1024u      /* powers of two */
#define TABLE_MAX_CAPACITY (1u << 22) /* 64 MiB */

/* Kept in the co_extra slot of a code object. */
struct code_note {
	uint32_t number; /* from 1; 0 in a table means an empty entry */
	bool is_hidden;
};

struct step {
	uint32_t code;
	int32_t offset;   /* in bytes; -1 before the first instruction */
	uint32_t context; /* of the path up to and with this step */
};

/* A frame as it is met; the frame keeps the code object alive as long as we are on top of it. */
struct visit {
	PyCodeObject *object; /* borrowed */
	uint32_t code;
	int32_t offset;
};

/* Of one thread: `steps` is the path last walked, leaf last. `walk` is scratch, leaf first. */
struct thread_path {
	struct step *steps;
	uint32_t step_cnt;
	struct visit *walk;
	uint32_t walk_cnt;
	uint32_t capacity; /* of both */
	bool is_busy;      /* making a frame object may collect garbage, and that run Python code */
};

struct table_entry {
	uint32_t parent;
	uint32_t code;
	int32_t offset;
	uint32_t context;
};

static struct {
	struct table_entry *entries;
	uint32_t capacity;
	uint32_t cnt;
} table;

static uint32_t last_code_number;
static Py_ssize_t extra_index = -1;

/* File names, or their beginnings where they end in '/', whose frames are not shown. */
static struct {
	char **names;
	size_t cnt;
} hidden;

static pthread_key_t path_key;
static bool has_path_key;
static _Thread_local struct thread_path *thread_path;

/* ------------------------------------------------------------------ version differences */

#if PY_VERSION_HEX >= 0x030c0000
#define code_extra_request PyUnstable_Eval_RequestCodeExtraIndex
#define code_extra_get PyUnstable_Code_GetExtra
#define code_extra_set PyUnstable_Code_SetExtra
#else
#define code_extra_request _PyEval_RequestCodeExtraIndex
#define code_extra_get _PyCode_GetExtra
#define code_extra_set _PyCode_SetExtra
#endif

static bool is_finalizing(void)
{
#if PY_VERSION_HEX >= 0x030d0000
	return Py_IsFinalizing();
#else
	return _Py_IsFinalizing();
#endif
}

#if PY_VERSION_HEX >= 0x030b0000
static int32_t frame_offset(PyFrameObject *frame)
{
	return (int32_t)PyFrame_GetLasti(frame);
}
#else
static int32_t frame_offset(PyFrameObject *frame)
{
	return frame->f_lasti < 0 ? -1 : frame->f_lasti * (int32_t)sizeof(_Py_CODEUNIT);
}
#endif

/* ------------------------------------------------------------------ code objects */

static void code_note_free(void *note)
{
	free(note);
}

static bool name_is_hidden(const char *file)
{
	for (size_t i = 0; i < hidden.cnt; i++) {
		const char *name = hidden.names[i];
		size_t length = strlen(name);
		if (length > 0 && name[length - 1] == '/' ? strncmp(file, name, length) == 0
							  : strcmp(file, name) == 0)
			return true;
	}
	return false;
}

/* First sight of a code object. NULL when out of memory. */
static struct code_note *code_note_make(PyCodeObject *code)
{
	PyObject *type, *value, *traceback;
	PyObject *owner;
	Py_ssize_t length;
	struct code_note *note = malloc(sizeof(*note));
	if (!note)
		return NULL;
	PyErr_Fetch(&type, &value, &traceback);
	const char *file = ext_utf8(code->co_filename, &length, &owner);
	note->is_hidden = file && name_is_hidden(file);
	note->number = ++last_code_number;
	if (file)
		Py_DECREF(owner);
	if (code_extra_set((PyObject *)code, extra_index, note) < 0) {
		free(note);
		note = NULL;
	}
	PyErr_Restore(type, value, traceback);
	return note;
}

static struct code_note *code_note_of(PyCodeObject *code)
{
	void *note = NULL;
	if (code_extra_get((PyObject *)code, extra_index, &note) == 0 && note)
		return note;
	return code_note_make(code);
}

/* ------------------------------------------------------------------ the table */

static uint32_t table_slot(uint32_t parent, uint32_t code, int32_t offset)
{
	uint64_t hash = ((uint64_t)parent << 32 | code) * 0x9e3779b97f4a7c15u;
	hash ^= (uint32_t)offset * 0xc2b2ae3d27d4eb4fu;
	hash ^= hash >> 29;
	hash *= 0xbf58476d1ce4e5b9u;
	return (uint32_t)(hash >> 32) & (table.capacity - 1);
}

static struct table_entry *table_find(uint32_t parent, uint32_t code, int32_t offset)
{
	uint32_t slot = table_slot(parent, code, offset);
	for (;; slot = (slot + 1) & (table.capacity - 1)) {
		struct table_entry *entry = &table.entries[slot];
		if (entry->code == 0 ||
		    (entry->code == code && entry->offset == offset && entry->parent == parent))
			return entry;
	}
}

/* Room for one more entry. False: out of memory, and the table is as it was. */
static bool table_reserve(void)
{
	if (table.capacity > 0 && table.cnt < table.capacity / 2)
		return true;
	if (table.capacity == TABLE_MAX_CAPACITY) {
		memset(table.entries, 0, table.capacity * sizeof(*table.entries));
		table.cnt = 0;
		return true;
	}
	struct table_entry *old = table.entries;
	uint32_t old_capacity = table.capacity;
	uint32_t capacity = old_capacity ? old_capacity * 2 : TABLE_MIN_CAPACITY;
	struct table_entry *entries = calloc(capacity, sizeof(*entries));
	if (!entries)
		return false;
	table.entries = entries;
	table.capacity = capacity;
	for (uint32_t i = 0; i < old_capacity; i++)
		if (old[i].code != 0)
			*table_find(old[i].parent, old[i].code, old[i].offset) = old[i];
	free(old);
	return true;
}

/* ------------------------------------------------------------------ walking */

static void thread_path_free(void *memory)
{
	struct thread_path *path = memory;
	free(path->steps);
	free(path->walk);
	free(path);
}

static struct thread_path *thread_path_get(void)
{
	if (thread_path)
		return thread_path;
	struct thread_path *path = calloc(1, sizeof(*path));
	if (!path)
		return NULL;
	if (has_path_key)
		pthread_setspecific(path_key, path);
	thread_path = path;
	return path;
}

static bool thread_path_grow(struct thread_path *path)
{
	uint32_t capacity = path->capacity ? path->capacity * 2 : 64;
	struct visit *walk = realloc(path->walk, capacity * sizeof(*walk));
	if (!walk)
		return false;
	path->walk = walk;
	struct step *steps = realloc(path->steps, capacity * sizeof(*steps));
	if (!steps)
		return false;
	path->steps = steps;
	path->capacity = capacity;
	return true;
}

/* Fill path->walk with the visible frames of the calling thread, leaf first. */
static bool walk_frames(struct thread_path *path)
{
	PyFrameObject *frame = (PyFrameObject *)Py_XNewRef((PyObject *)PyEval_GetFrame());
	path->walk_cnt = 0;
	while (frame) {
		PyCodeObject *code = PyFrame_GetCode(frame);
		struct code_note *note = code_note_of(code);
		bool is_full = path->walk_cnt == path->capacity && !thread_path_grow(path);
		Py_DECREF(code);
		if (!note || is_full) {
			Py_DECREF(frame);
			return false;
		}
		if (!note->is_hidden)
			path->walk[path->walk_cnt++] =
				(struct visit){code, note->number, frame_offset(frame)};
		PyFrameObject *back = PyFrame_GetBack(frame);
		Py_DECREF(frame);
		frame = back;
	}
	return true;
}

/* "file:line@function" of a place in a code object, as a frame of libproton. */
static uint32_t source_frame(PyCodeObject *code, int32_t offset)
{
	PyObject *type, *value, *traceback;
	PyObject *file_owner = NULL, *name_owner = NULL;
	Py_ssize_t file_length = 0, name_length = 0;
	PyErr_Fetch(&type, &value, &traceback);
	const char *file = ext_utf8(code->co_filename, &file_length, &file_owner);
	const char *name = ext_utf8(code->co_name, &name_length, &name_owner);
	int line = PyCode_Addr2Line(code, offset);
	uint32_t frame = proton_frame_source(file ? file : "?", file ? (size_t)file_length : 1,
					     name ? name : "?", name ? (size_t)name_length : 1,
					     line > 0 ? (uint32_t)line : 0);
	Py_XDECREF(file_owner);
	Py_XDECREF(name_owner);
	PyErr_Restore(type, value, traceback);
	return frame;
}

/* The context of `visit` below `parent`. */
static uint32_t visit_context(uint32_t parent, const struct visit *visit)
{
	if (!table_reserve())
		return parent;
	struct table_entry *entry = table_find(parent, visit->code, visit->offset);
	if (entry->code != 0)
		return entry->context;
	uint32_t frame = source_frame(visit->object, visit->offset);
	uint32_t context = proton_context_child(parent, frame);
	*entry = (struct table_entry){parent, visit->code, visit->offset, context};
	table.cnt++;
	return context;
}

static uint32_t context_of_walk(struct thread_path *path)
{
	uint32_t cnt = path->walk_cnt;
	uint32_t context = PROTON_CONTEXT_ROOT;
	uint32_t depth = 0;
	/* As far as it is the path of the last time, nothing needs looking up. */
	for (; depth < cnt && depth < path->step_cnt; depth++) {
		const struct visit *now = &path->walk[cnt - 1 - depth];
		const struct step *before = &path->steps[depth];
		if (now->code != before->code || now->offset != before->offset)
			break;
		context = before->context;
	}
	for (; depth < cnt; depth++) {
		const struct visit *now = &path->walk[cnt - 1 - depth];
		context = visit_context(context, now);
		path->steps[depth] = (struct step){now->code, now->offset, context};
	}
	path->step_cnt = cnt;
	return context;
}

/* ------------------------------------------------------------------ the provider */

static uint32_t context_with_gil(void)
{
	struct thread_path *path = thread_path_get();
	if (!path || path->is_busy)
		return PROTON_CONTEXT_ROOT;
	path->is_busy = true;
	uint32_t context = walk_frames(path) ? context_of_walk(path) : PROTON_CONTEXT_ROOT;
	path->is_busy = false;
	return context;
}

static uint32_t depth_with_gil(void)
{
	struct thread_path *path = thread_path_get();
	if (!path || path->is_busy)
		return 0;
	path->is_busy = true;
	uint32_t depth = walk_frames(path) ? path->walk_cnt : 0;
	path->is_busy = false;
	return depth;
}

/*
 * libproton calls this on any thread, for instance from a driver's callback below a launcher that
 * has released the GIL. A thread that Python has never seen has no frames.
 */
static uint32_t provide(uint32_t (*answer)(void))
{
	if (is_finalizing() || !Py_IsInitialized() || !PyGILState_GetThisThreadState())
		return PROTON_CONTEXT_ROOT;
	if (PyGILState_Check())
		return answer();
	PyGILState_STATE gil = PyGILState_Ensure();
	uint32_t result = answer();
	PyGILState_Release(gil);
	return result;
}

static uint32_t provide_context(void)
{
	return provide(context_with_gil);
}

static uint32_t provide_depth(void)
{
	return provide(depth_with_gil);
}

/* ------------------------------------------------------------------ for the package */

PyDoc_STRVAR(
	hide_frames_doc,
	"hide_frames(names)\n--\n\n"
	"Frames of these files are not shown; a name ending in '/' stands for all files below.\n"
	"Holds for code that is met for the first time from now on.");

static PyObject *hide_frames(PyObject *module, PyObject *names)
{
	(void)module;
	PyObject *sequence = PySequence_Fast(names, "hide_frames takes a list of str");
	if (!sequence)
		return NULL;
	for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); i++) {
		const char *name = PyUnicode_AsUTF8(PySequence_Fast_GET_ITEM(sequence, i));
		char *copy = name ? strdup(name) : NULL;
		char **block = copy ? realloc(hidden.names, (hidden.cnt + 1) * sizeof(*block))
				    : NULL;
		if (!block) {
			free(copy);
			Py_DECREF(sequence);
			return name ? PyErr_NoMemory() : NULL;
		}
		hidden.names = block;
		hidden.names[hidden.cnt++] = copy;
	}
	Py_DECREF(sequence);
	Py_RETURN_NONE;
}

static PyObject *source_context(PyObject *module, PyObject *unused)
{
	(void)module;
	(void)unused;
	return PyLong_FromUnsignedLong(context_with_gil());
}

static PyMethodDef context_methods[] = {
	{"hide_frames", hide_frames, METH_O, hide_frames_doc},
	{"source_context", source_context, METH_NOARGS,
	 "The number of the caller's Python path, as sessions with context 'python' see it."},
	{NULL, NULL, 0, NULL},
};

int ext_context_init(PyObject *module, struct ext_state *state)
{
	(void)state;
	if (extra_index < 0)
		extra_index = code_extra_request(code_note_free);
	if (extra_index < 0) {
		PyErr_SetString(
			PyExc_ImportError,
			"triton_proton: this interpreter has no room for another user of co_extra");
		return -1;
	}
	if (!has_path_key)
		has_path_key = pthread_key_create(&path_key, thread_path_free) == 0;
	proton_context_provider_set(provide_context, provide_depth);
	return PyModule_AddFunctions(module, context_methods);
}

void ext_context_fini(void)
{
	proton_context_provider_set(NULL, NULL);
}
