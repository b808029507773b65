/*
 * Scopes, named launches, states and kernels as function calls: enter_scope("x") ...
 * exit_scope("x").
 *
 * In upstream's low-level module, a scope is identified by a number that the caller gets from
 * record_scope(). A thread's open scopes are in an object in the thread's own dict, so they are
 * freed with the thread. The package's enter_scope() and exit_scope() are push_scope() and
 * pop_scope() here.
 */
#include "ext.h"

#include "base/array.h"

struct named_scope {
	uint64_t id;
	uint64_t token;
	uint64_t task; /* the running one of the thread; 0: none */
	PyObject *name;
};

/* Open scopes of one thread. */
struct thread_scopes {
	PyObject_HEAD
	struct named_scope *scopes;
	uint32_t count;
	bool has_op;
	uint64_t op_id;
	struct proton_context op_context;
};

static void threads_dealloc(PyObject *object)
{
	struct thread_scopes *self = (struct thread_scopes *)object;
	PyTypeObject *type = Py_TYPE(object);
	for (uint32_t i = 0; i < self->count; i++)
		Py_DECREF(self->scopes[i].name);
	free(self->scopes);
	type->tp_free(object);
	Py_DECREF(type);
}

/* The calling thread's object, created on demand; borrowed. NULL with an exception. */
static struct thread_scopes *thread_scopes_get(struct ext_state *state)
{
	PyObject *dict = PyThreadState_GetDict();
	if (!dict) {
		PyErr_SetString(state->error, "cannot store scopes for this thread");
		return NULL;
	}
	PyObject *found = PyDict_GetItemWithError(dict, state->threads_key);
	if (found)
		return (struct thread_scopes *)found;
	if (PyErr_Occurred())
		return NULL;
	PyObject *made = PyType_GenericAlloc(state->threads, 0);
	if (!made)
		return NULL;
	int failed = PyDict_SetItem(dict, state->threads_key, made);
	Py_DECREF(made); /* the dict has a reference */
	return failed ? NULL : (struct thread_scopes *)made;
}

static int thread_scopes_push(struct thread_scopes *self, uint64_t id, uint64_t token,
			      uint64_t task, PyObject *name)
{
	if (ARRAY_ADD(self->scopes, self->count, (struct named_scope){id, token, task, name})) {
		Py_INCREF(name);
		return 0;
	}
	PyErr_NoMemory();
	return -1;
}

/* Exits the scope at `index` and removes it. */
static int thread_scopes_leave(struct ext_state *state, struct thread_scopes *self, uint32_t index)
{
	struct named_scope scope = self->scopes[index];
	ARRAY_REMOVE(self->scopes, self->count, index);
	Py_DECREF(scope.name);
	if (scope.token == 0)
		return 0;
	struct proton_error err;
	uint64_t task = ext_task_begin();
	int status = proton_scope_exit(scope.token, &err);
	ext_task_end(task);
	if (status == PROTON_OK)
		return 0;
	ext_raise(state, status, &err);
	return -1;
}

/* The index of the newest scope with a number; UINT32_MAX: it is not open. */
static uint32_t thread_scopes_find(const struct thread_scopes *self, uint64_t id)
{
	uint32_t index = self->count;
	while (index > 0 && self->scopes[index - 1].id != id)
		index--;
	return index - 1;
}

/* By number, because metrics may have run Python code that changed the stack. */
static int leave_by_id(struct ext_state *state, struct thread_scopes *self, uint64_t id)
{
	uint32_t index = thread_scopes_find(self, id);
	return index == UINT32_MAX ? 0 : thread_scopes_leave(state, self, index);
}

/* The same while an exception is set, which is kept. */
static void leave_quietly(struct ext_state *state, struct thread_scopes *self, uint64_t id)
{
	PyObject *type, *value, *traceback;
	PyErr_Fetch(&type, &value, &traceback);
	if (leave_by_id(state, self, id) < 0)
		PyErr_Clear();
	PyErr_Restore(type, value, traceback);
}

static uint64_t scope_id_draw(struct ext_state *state)
{
	return atomic_fetch_add_explicit(&state->last_scope_id, 1, memory_order_relaxed) + 1;
}

static bool is_str(PyObject *name)
{
	return PyUnicode_Check(name) || ext_raise_type("the name", "a str", name);
}

static int enter_named(struct ext_state *state, uint64_t id, PyObject *name, PyObject *metrics)
{
	struct thread_scopes *self = thread_scopes_get(state);
	uint64_t token = 0, task = 0;
	if (!self)
		return -1;
	if (proton_is_profiling() || proton_range_is_awaited()) {
		task = ext_task_begin();
		bool is_entered = ext_scope_enter(state, name, NULL, false, &token);
		ext_task_end(task);
		if (!is_entered)
			return -1;
	}
	if (thread_scopes_push(self, id, token, task, name) < 0) {
		proton_scope_exit(token, NULL);
		return -1;
	}
	if (token == 0 || !metrics)
		return 0;
	if (ext_metrics_add(state, proton_scope_context(token), metrics) == 0)
		return 0;
	/* The caller gets an exception and will not call exit. */
	leave_quietly(state, self, id);
	return -1;
}

/* ------------------------------------------------------------------ the package's functions */

/* push_scope(name, metrics): the id of the scope, or None if nothing is recorded. */
static PyObject *push_scope(PyObject *module, PyObject *const *args, Py_ssize_t arg_count)
{
	struct ext_state *state = ext_state_of(module);
	if (arg_count != 2) {
		PyErr_SetString(PyExc_TypeError, "push_scope takes a name and metrics");
		return NULL;
	}
	if (!is_str(args[0]))
		return NULL;
	bool is_recorded = proton_is_profiling();
	uint64_t id = scope_id_draw(state);
	if (enter_named(state, id, args[0], args[1]) < 0)
		return NULL;
	if (!is_recorded)
		Py_RETURN_NONE;
	return PyLong_FromUnsignedLongLong(id);
}

static PyObject *raise_mismatch(PyObject *open, PyObject *given)
{
	AUTO_DECREF PyObject *text = PyObject_Str(given);
	AUTO_DECREF PyObject *shown_given = text ? ext_shown(text) : NULL;
	AUTO_DECREF PyObject *shown_open = shown_given ? ext_shown(open) : NULL;
	if (shown_open)
		PyErr_Format(PyExc_ValueError, "Scope name mismatch: %U != %U", shown_given,
			     shown_open);
	return NULL;
}

/* The number of scopes up to the newest one that the running task has entered; 0: none. */
static uint32_t last_of_task(const struct thread_scopes *self)
{
	uint64_t task = ext_task_begin();
	uint32_t count = self->count;
	ext_task_end(task);
	while (count && self->scopes[count - 1].token && self->scopes[count - 1].task != task)
		count--;
	return count;
}

/* pop_scope(name or None, metrics or None): the id of the exited scope, or None. */
static PyObject *pop_scope(PyObject *module, PyObject *const *args, Py_ssize_t arg_count)
{
	struct ext_state *state = ext_state_of(module);
	if (arg_count != 2) {
		PyErr_SetString(PyExc_TypeError, "pop_scope takes a name and metrics");
		return NULL;
	}
	struct thread_scopes *self = thread_scopes_get(state);
	bool is_recorded = proton_is_profiling();
	if (!self)
		return NULL;
	uint32_t last = last_of_task(self);
	if (last == 0) {
		if (!is_recorded)
			Py_RETURN_NONE;
		PyErr_SetString(PyExc_IndexError, "exit_scope: no scope is open on this thread");
		return NULL;
	}
	struct named_scope top = self->scopes[last - 1];
	if (args[0] != Py_None) {
		int same = PyObject_RichCompareBool(top.name, args[0], Py_EQ);
		if (same < 0)
			return NULL;
		if (!same && !is_recorded)
			Py_RETURN_NONE;
		if (!same)
			return raise_mismatch(top.name, args[0]);
	}
	if (top.token != 0 &&
	    ext_metrics_add(state, proton_scope_context(top.token), args[1]) < 0) {
		/* Invalid metrics are reported, but the scope is exited. */
		leave_quietly(state, self, top.id);
		return NULL;
	}
	if (leave_by_id(state, self, top.id) < 0)
		return NULL;
	if (top.token == 0 && !is_recorded)
		Py_RETURN_NONE;
	return PyLong_FromUnsignedLongLong(top.id);
}

/* ------------------------------------------------------------------ by number */

static PyObject *record_scope(PyObject *module, PyObject *unused)
{
	return PyLong_FromUnsignedLongLong(scope_id_draw(ext_state_of(module)));
}

/* Parses a number and a name; the calling thread's scopes, or NULL with an exception. */
static struct thread_scopes *parse_id(PyObject *module, PyObject *args, const char *format,
				      unsigned long long *id_out, PyObject **name_out)
{
	if (!PyArg_ParseTuple(args, format, id_out, name_out))
		return NULL;
	return thread_scopes_get(ext_state_of(module));
}

static PyObject *enter_scope(PyObject *module, PyObject *args)
{
	unsigned long long id;
	PyObject *name;
	if (!parse_id(module, args, "KU:enter_scope", &id, &name) ||
	    enter_named(ext_state_of(module), id, name, NULL) < 0)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *exit_scope(PyObject *module, PyObject *args)
{
	struct ext_state *state = ext_state_of(module);
	unsigned long long id;
	PyObject *name;
	struct thread_scopes *self = parse_id(module, args, "KU:exit_scope", &id, &name);
	if (!self)
		return NULL;
	uint32_t index = thread_scopes_find(self, id);
	if (index == UINT32_MAX && proton_is_profiling())
		return ext_raise_named(state->error, "scope '%U' is not open on this thread", name);
	if (index != UINT32_MAX && thread_scopes_leave(state, self, index) < 0)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *enter_op(PyObject *module, PyObject *args)
{
	unsigned long long id;
	PyObject *name;
	uint32_t frame;
	struct thread_scopes *self = parse_id(module, args, "KU:enter_op", &id, &name);
	if (!self || !ext_name_frame(ext_state_of(module), name, &frame))
		return NULL;
	self->has_op = true;
	self->op_id = id;
	proton_op_enter(frame, &self->op_context);
	Py_RETURN_NONE;
}

static PyObject *exit_op(PyObject *module, PyObject *args)
{
	unsigned long long id;
	PyObject *name;
	struct thread_scopes *self = parse_id(module, args, "KU:exit_op", &id, &name);
	if (!self)
		return NULL;
	self->has_op = false;
	proton_op_exit();
	Py_RETURN_NONE;
}

static PyObject *add_metrics(PyObject *module, PyObject *args)
{
	struct ext_state *state = ext_state_of(module);
	unsigned long long id;
	PyObject *metrics;
	PyObject *tensors = NULL;
	if (!PyArg_ParseTuple(args, "KO!|O!:add_metrics", &id, &PyDict_Type, &metrics, &PyList_Type,
			      &tensors))
		return NULL;
	struct thread_scopes *self = thread_scopes_get(state);
	if (!self)
		return NULL;
	bool is_op = self->has_op && self->op_id == id;
	uint32_t index = thread_scopes_find(self, id);
	if (!is_op && index == UINT32_MAX) {
		if (!proton_is_profiling())
			Py_RETURN_NONE;
		return PyErr_Format(PyExc_ValueError, "scope %llu is not open on this thread", id);
	}
	uint64_t token = is_op ? 0 : self->scopes[index].token;
	struct proton_context where = is_op ? self->op_context : proton_scope_context(token);
	if ((is_op || token != 0) && ext_metrics_add(state, where, metrics) < 0)
		return NULL;
	if (tensors && !proton_context_is_empty(where) &&
	    ext_metrics_add_tuples(state, where, tensors, NULL) < 0)
		return NULL;
	Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ states and kernels */

static PyObject *enter_state(PyObject *module, PyObject *name)
{
	PyObject *owner;
	Py_ssize_t length;
	if (!is_str(name))
		return NULL;
	const char *bytes = ext_utf8(name, &length, &owner);
	if (!bytes)
		return NULL;
	uint64_t task = ext_task_begin();
	proton_state_enter(bytes);
	ext_task_end(task);
	Py_DECREF(owner);
	Py_RETURN_NONE;
}

static PyObject *exit_state(PyObject *module, PyObject *unused)
{
	uint64_t task = ext_task_begin();
	proton_state_exit();
	ext_task_end(task);
	Py_RETURN_NONE;
}

static PyObject *kernel_begin(PyObject *module, PyObject *name)
{
	uint32_t frame;
	if (!is_str(name) || !ext_name_frame(ext_state_of(module), name, &frame))
		return NULL;
	proton_kernel_begin(frame);
	Py_RETURN_NONE;
}

EXT_PROCEDURE(kernel_end, proton_kernel_end())

/* ------------------------------------------------------------------ tables */

#define FAST(function) (PyCFunction)(void (*)(void)) function

PyMethodDef ext_stack_methods[] = {
	{"push_scope", FAST(push_scope), METH_FASTCALL, NULL},
	{"pop_scope", FAST(pop_scope), METH_FASTCALL, NULL},
	{"record_scope", record_scope, METH_NOARGS, "Draw the number of a scope or op."},
	{"enter_scope", enter_scope, METH_VARARGS, "enter_scope(id, name)"},
	{"exit_scope", exit_scope, METH_VARARGS, "exit_scope(id, name)"},
	{"enter_op", enter_op, METH_VARARGS,
	 "enter_op(id, name): kernels launched carry the name."},
	{"exit_op", exit_op, METH_VARARGS, "exit_op(id, name)"},
	{"add_metrics", add_metrics, METH_VARARGS,
	 "add_metrics(id, metrics, tensors=[])\n--\n\n"
	 "Add metrics to a scope or op that is open on this thread. `tensors` are tuples of "
	 "split_metrics()."},
	{"enter_state", enter_state, METH_O, "enter_state(name)"},
	{"exit_state", exit_state, METH_NOARGS, "exit_state()"},
	{"kernel_begin", kernel_begin, METH_O, "kernel_begin(name): a kernel runs on this CPU."},
	{"kernel_end", kernel_end, METH_NOARGS, "kernel_end()"},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot threads_slots[] = {
	{Py_tp_dealloc, (void *)threads_dealloc},
	{0, NULL},
};

static PyType_Spec threads_spec = {
	.name = "triton_proton._libproton._ThreadScopes",
	.basicsize = sizeof(struct thread_scopes),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = threads_slots,
};

int ext_stack_init(PyObject *module, struct ext_state *state)
{
	state->threads = (PyTypeObject *)PyType_FromModuleAndSpec(module, &threads_spec, NULL);
	state->threads_key = PyUnicode_InternFromString("triton_proton scopes");
	return state->threads && state->threads_key ? 0 : -1;
}
