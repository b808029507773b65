/*
 * `scope` and `cpu_timed_scope`: context managers and decorators.
 *
 * A scope object is a name with metrics. Its entries are in `open`, one per entered block, with the
 * thread that entered. One object may therefore be used in a recursive function, by many threads
 * and tasks, and nested in itself: an exit ends the newest entry of the current task or thread.
 * Usually there is one entry, stored inside the object.
 *
 * Objects are created for each `with scope("x")`, so creation must be cheap: vectorcall, no dict,
 * and the garbage collector only tracks objects with metrics.
 */
#include "ext.h"

#include "base/array.h"

struct open_entry {
	uint64_t token;
	uint64_t task; /* the running one of the thread; 0: none */
	unsigned long thread;
};

struct scope {
	PyObject_HEAD
	PyObject *name;
	PyObject *metrics;       /* NULL: none */
	struct ext_state *state; /* the type keeps the module alive */
	struct open_entry *open; /* `first` or a block from PyMem_Malloc */
	uint32_t open_count;
	uint32_t open_capacity;
	uint64_t known; /* state of proton_scope_enter_name() for `name` */
	bool is_timed;
	struct open_entry first;
};

/* ------------------------------------------------------------------ making */

/* A plain str, which is in no cycle: objects without metrics are untracked. New reference. */
static PyObject *plain_name_of(PyObject *name)
{
	if (PyUnicode_CheckExact(name))
		return Py_NewRef(name);
	if (PyUnicode_Check(name))
		return PyUnicode_FromObject(name);
	return ext_raise_type("the name of a scope", "a str", name);
}

static int check_metrics(PyObject *metrics, bool is_timed)
{
	if (!ext_are_metrics(metrics))
		return -1;
	if (!is_timed || !metrics || metrics == Py_None)
		return 0;
	if (!PyMapping_HasKeyString(metrics, "cpu_time"))
		return 0;
	PyErr_SetString(PyExc_ValueError,
			"The metric name 'cpu_time' is reserved for cpu_timed_scope.");
	return -1;
}

/* Sets a member that other threads may read; steals a reference to `object`, or NULL. */
static void member_set(struct scope *self, PyObject **member, PyObject *object)
{
	PyObject *old;
	EXT_BEGIN_CRITICAL(self);
	old = *member;
	*member = object;
	if (member == &self->name)
		self->known = 0;
	else if (object && !PyObject_GC_IsTracked((PyObject *)self))
		PyObject_GC_Track((PyObject *)self);
	EXT_END_CRITICAL();
	Py_XDECREF(old);
}

/* The name or the metrics, a new reference; None: no metrics. */
static PyObject *member_get(struct scope *self, PyObject **member)
{
	PyObject *object;
	EXT_BEGIN_CRITICAL(self);
	object = Py_NewRef(*member ? *member : Py_None);
	EXT_END_CRITICAL();
	return object;
}

static void hold_metrics(struct scope *self, PyObject *metrics)
{
	member_set(self, &self->metrics, metrics == Py_None ? NULL : Py_XNewRef(metrics));
}

static PyObject *scope_make(PyTypeObject *type, struct ext_state *state, bool is_timed,
			    PyObject *name, PyObject *metrics)
{
	if (check_metrics(metrics, is_timed) < 0)
		return NULL;
	PyObject *plain_name = plain_name_of(name);
	if (!plain_name)
		return NULL;
	struct scope *self;
	if (type == state->scope || type == state->timed)
		self = PyObject_GC_New(struct scope, type);
	else /* a subclass may have a dict or slots: zeroed and tracked */
		self = (struct scope *)PyType_GenericAlloc(type, 0);
	if (!self) {
		Py_DECREF(plain_name);
		return NULL;
	}
	self->name = plain_name;
	self->metrics = NULL;
	self->state = state;
	self->open = &self->first;
	self->open_count = 0;
	self->open_capacity = 1;
	self->known = 0;
	self->is_timed = is_timed;
	hold_metrics(self, metrics);
	return (PyObject *)self;
}

static bool parse(PyObject *args, PyObject *kwargs, PyObject **name_out, PyObject **metrics_out)
{
	char *keywords[] = {(char[]){"name"}, (char[]){"metrics"}, NULL};
	*metrics_out = NULL;
	return PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:scope", keywords, name_out,
					   metrics_out);
}

static int set_name(struct scope *self, PyObject *name)
{
	PyObject *plain_name = plain_name_of(name);
	if (!plain_name)
		return -1;
	member_set(self, &self->name, plain_name);
	return 0;
}

static int scope_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
	struct scope *self = (struct scope *)object;
	PyObject *name, *metrics;
	if (!parse(args, kwargs, &name, &metrics) || check_metrics(metrics, self->is_timed) < 0 ||
	    set_name(self, name) < 0)
		return -1;
	hold_metrics(self, metrics);
	return 0;
}

/* A subclass that defines __init__ may take other arguments, and pass the name there. */
static PyObject *scope_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	struct ext_state *state = ext_state_of_type(type);
	bool is_timed = PyType_IsSubtype(type, state->timed);
	PyObject *name, *metrics;
	PyObject *made = parse(args, kwargs, &name, &metrics)
				 ? scope_make(type, state, is_timed, name, metrics)
				 : NULL;
	if (made || type->tp_init == scope_init || !PyErr_ExceptionMatches(PyExc_Exception))
		return made;
	PyErr_Clear();
	return scope_make(type, state, is_timed, state->launch.names[EXT_EMPTY], NULL);
}

/* scope(name, metrics, group=...): a collective, see _collectives.py. */
static PyObject *grouped(PyObject *name, PyObject *metrics, PyObject *group)
{
	AUTO_DECREF PyObject *module = PyImport_ImportModule("triton_proton._collectives");
	if (!module)
		return NULL;
	return PyObject_CallMethod(module, "GroupScope", "OOO", name, metrics ? metrics : Py_None,
				   group);
}

/* Fast path of `scope(...)`; calls with other than one or two positional arguments go to new. */
static PyObject *scope_vectorcall(PyObject *callable, PyObject *const *args, size_t flagged_count,
				  PyObject *kwnames)
{
	PyTypeObject *type = (PyTypeObject *)callable;
	struct ext_state *state = ext_state_of_type(type);
	Py_ssize_t arg_count = PyVectorcall_NARGS(flagged_count);
	Py_ssize_t keyword_count = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
	PyObject *name = NULL, *metrics = NULL, *group = NULL;
	if (arg_count > 2) {
		PyErr_Format(PyExc_TypeError, "%s takes a name and metrics (%zd arguments given)",
			     type->tp_name, arg_count);
		return NULL;
	}
	if (arg_count > 0)
		name = args[0];
	if (arg_count > 1)
		metrics = args[1];
	for (Py_ssize_t i = 0; i < keyword_count; i++) {
		PyObject *keyword = PyTuple_GET_ITEM(kwnames, i);
		PyObject *value = args[arg_count + i];
		if (!metrics && PyUnicode_CompareWithASCIIString(keyword, "metrics") == 0) {
			metrics = value;
		} else if (!name && PyUnicode_CompareWithASCIIString(keyword, "name") == 0) {
			name = value;
		} else if (!group && type == state->scope &&
			   PyUnicode_CompareWithASCIIString(keyword, "group") == 0) {
			group = value;
		} else {
			PyErr_Format(PyExc_TypeError, "%s got an unexpected argument '%U'",
				     type->tp_name, keyword);
			return NULL;
		}
	}
	if (!name) {
		PyErr_Format(PyExc_TypeError, "%s needs a name", type->tp_name);
		return NULL;
	}
	if (group && group != Py_None)
		return grouped(name, metrics, group);
	return scope_make(type, state, type == state->timed, name, metrics);
}

static int scope_traverse(PyObject *object, visitproc visit, void *arg)
{
	struct scope *self = (struct scope *)object;
	Py_VISIT(Py_TYPE(object));
	Py_VISIT(self->metrics);
	return 0;
}

static int scope_clear(PyObject *object)
{
	struct scope *self = (struct scope *)object;
	Py_CLEAR(self->metrics);
	return 0;
}

static void scope_dealloc(PyObject *object)
{
	struct scope *self = (struct scope *)object;
	PyTypeObject *type = Py_TYPE(object);
	if (PyObject_GC_IsTracked(object))
		PyObject_GC_UnTrack(object);
	if (self->open != &self->first)
		PyMem_Free(self->open);
	Py_CLEAR(self->metrics);
	Py_CLEAR(self->name);
	type->tp_free(object);
	Py_DECREF(type);
}

/* ------------------------------------------------------------------ entering and leaving */

static struct open_entry *entry_make(struct scope *self)
{
	if (self->open_count < self->open_capacity)
		return &self->open[self->open_count++];
	uint32_t capacity = self->open_capacity * 2 + 2;
	struct open_entry *block = PyMem_Malloc(capacity * sizeof(*block));
	if (!block) {
		PyErr_NoMemory();
		return NULL;
	}
	memcpy(block, self->open, self->open_count * sizeof(*block));
	if (self->open != &self->first)
		PyMem_Free(self->open);
	self->open = block;
	self->open_capacity = capacity;
	return &self->open[self->open_count++];
}

/* Adds an entry, and caches the state of `name`. False with an exception. */
static bool entry_push(struct scope *self, const struct open_entry *entry, const PyObject *name,
		       uint64_t known)
{
	struct open_entry *made;
	EXT_BEGIN_CRITICAL(self);
	made = entry_make(self);
	if (made)
		*made = *entry;
	if (self->name == name)
		self->known = known;
	EXT_END_CRITICAL();
	return made != NULL;
}

/* Removes the task's newest entry, else the thread's: loops close generators. False: none. */
static bool entry_take(struct scope *self, uint64_t task, uint64_t *token_out)
{
	unsigned long thread = PyThread_get_thread_ident();
	uint32_t found = UINT32_MAX;
	for (uint32_t i = self->open_count; i-- > 0;) {
		if (self->open[i].thread != thread)
			continue;
		if (found == UINT32_MAX)
			found = i;
		if (self->open[i].task != task)
			continue;
		found = i;
		break;
	}
	if (found == UINT32_MAX)
		return false;
	*token_out = self->open[found].token;
	ARRAY_REMOVE(self->open, self->open_count, found);
	return true;
}

static bool entry_pop(struct scope *self, uint64_t task, uint64_t *token_out)
{
	bool is_taken;
	EXT_BEGIN_CRITICAL(self);
	is_taken = entry_take(self, task, token_out);
	EXT_END_CRITICAL();
	return is_taken;
}

/* Enters the scope `name` on this thread. False with an exception. */
static bool enter(struct scope *self, PyObject *name, uint64_t known, struct open_entry *entry_out)
{
	/* Without recording an entry is added too, for the exit to find. */
	struct open_entry entry = {.thread = PyThread_get_thread_ident()};
	entry.task = ext_task_begin();
	bool is_entered = (!proton_is_profiling() && !proton_range_is_awaited()) ||
			  ext_scope_enter(self->state, name, &known, self->is_timed, &entry.token);
	ext_task_end(entry.task);
	if (!is_entered)
		return false;
	*entry_out = entry;
	if (entry_push(self, &entry, name, known))
		return true;
	proton_scope_exit(entry.token, NULL);
	return false;
}

static PyObject *scope_enter(PyObject *object, PyObject *unused)
{
	struct scope *self = (struct scope *)object;
	struct open_entry entry;
	PyObject *name, *metrics;
	uint64_t known;
	EXT_BEGIN_CRITICAL(self);
	name = Py_NewRef(self->name);
	metrics = Py_XNewRef(self->metrics);
	known = self->known;
	EXT_END_CRITICAL();
	bool is_entered = enter(self, name, known, &entry);
	Py_DECREF(name);
	if (is_entered && metrics && entry.token != 0 &&
	    ext_metrics_add(self->state, proton_scope_context(entry.token), metrics) < 0) {
		/* Python does not call __exit__ after a failed __enter__. */
		if (entry_pop(self, entry.task, &entry.token))
			proton_scope_exit(entry.token, NULL);
		is_entered = false;
	}
	Py_XDECREF(metrics);
	return is_entered ? Py_NewRef(object) : NULL;
}

static PyObject *scope_exit(PyObject *object, PyObject *const *args, Py_ssize_t arg_count)
{
	struct scope *self = (struct scope *)object;
	bool is_unwinding = arg_count > 0 && args[0] != Py_None;
	uint64_t token;
	uint64_t task = ext_task_begin();
	if (!entry_pop(self, task, &token)) {
		ext_task_end(task);
		if (is_unwinding)
			Py_RETURN_FALSE;
		PyObject *name = member_get(self, &self->name);
		ext_raise_named(self->state->error,
				"scope '%U' is exited on a thread that did not enter it", name);
		Py_DECREF(name);
		return NULL;
	}
	if (token != 0) {
		struct proton_error err;
		int status = proton_scope_exit(token, &err);
		ext_task_end(task);
		/* A propagating exception is more important than an error of the scope. */
		if (status != PROTON_OK && !is_unwinding)
			return ext_raise(self->state, status, &err);
	} else {
		ext_task_end(task);
	}
	Py_RETURN_FALSE;
}

/* Used as a decorator: _decorate.py wraps the function. */
static PyObject *scope_call(PyObject *object, PyObject *args, PyObject *kwargs)
{
	PyObject *function;
	if (kwargs && PyDict_GET_SIZE(kwargs) > 0) {
		PyErr_SetString(PyExc_TypeError,
				"a scope object takes only the function to decorate");
		return NULL;
	}
	if (!PyArg_ParseTuple(args, "O:scope", &function))
		return NULL;
	return ext_call("triton_proton._decorate", "decorate", object, function);
}

/* The same scope without its metrics: for the later parts of one entry, see _decorate.py. */
static PyObject *scope_without_metrics(PyObject *object, PyObject *unused)
{
	struct scope *self = (struct scope *)object;
	AUTO_DECREF PyObject *name = member_get(self, &self->name);
	return scope_make(self->is_timed ? self->state->timed : self->state->scope, self->state,
			  self->is_timed, name, NULL);
}

/* Arguments for copies and pickles: models with scopes are copied. */
static PyObject *scope_new_arguments(PyObject *object, PyObject *unused)
{
	struct scope *self = (struct scope *)object;
	return Py_BuildValue("(NN)", member_get(self, &self->name),
			     member_get(self, &self->metrics));
}

/* ------------------------------------------------------------------ attributes */

static char of_name[] = "name", of_metrics[] = "metrics";

static PyObject *scope_get(PyObject *object, void *which)
{
	struct scope *self = (struct scope *)object;
	return member_get(self, which == of_name ? &self->name : &self->metrics);
}

static int scope_set(PyObject *object, PyObject *value, void *which)
{
	struct scope *self = (struct scope *)object;
	if (!value) {
		PyErr_Format(PyExc_AttributeError, "cannot delete the %s of a scope",
			     (char *)which);
		return -1;
	}
	if (which == of_name)
		return set_name(self, value);
	if (check_metrics(value, self->is_timed) < 0)
		return -1;
	hold_metrics(self, value);
	return 0;
}

static PyObject *scope_repr(PyObject *object)
{
	struct scope *self = (struct scope *)object;
	AUTO_DECREF PyObject *name = member_get(self, &self->name);
	return PyUnicode_FromFormat("%s(%R)", self->is_timed ? "cpu_timed_scope" : "scope", name);
}

static PyGetSetDef scope_attributes[] = {
	{"name", scope_get, scope_set, "The name of the scope.", of_name},
	{"metrics", scope_get, scope_set, "The metrics added at each entry, or None.", of_metrics},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef scope_methods[] = {
	{"__enter__", scope_enter, METH_NOARGS, NULL},
	{"__exit__", (PyCFunction)(void (*)(void))scope_exit, METH_FASTCALL, NULL},
	{"__getnewargs__", scope_new_arguments, METH_NOARGS, NULL},
	{"_without_metrics", scope_without_metrics, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(
	scope_doc,
	"scope(name, metrics=None)\n--\n\n"
	"Attributes everything recorded inside to the scope `name`.\n\n"
	"A context manager and a decorator; scopes nest, per thread. `metrics` maps names to\n"
	"numbers, lists of numbers or CPU tensors; they are added to the scope at each entry.\n"
	"A name ending in \"(exc)\" counts for this scope alone and not for the scopes around it,\n"
	"one ending in \"(pty)\" is a property: the last value stays. One object may be entered\n"
	"repeatedly before it is exited, even by several threads.\n\n"
	"As a decorator of generators and coroutines the scope is open exactly while their own\n"
	"code runs. Each asyncio task has its own scopes, so a `with` block may await. It\n"
	"should not yield in a generator: the caller's code would count as part of it.\n\n"
	"    with proton.scope(\"attention\", {\"flops\": 2e9}):\n"
	"        kernel[grid](x, y)\n");

PyDoc_STRVAR(timed_doc,
	     "cpu_timed_scope(name, metrics=None)\n--\n\n"
	     "A scope that also records the wall time spent inside it, as \"cpu_time (ns)\".\n\n"
	     "The time is an exclusive metric: it is shown for the scope and not added into the\n"
	     "scopes around it. \"cpu_time\" is not allowed among `metrics`.\n");

static PyType_Slot scope_slots[] = {
	{Py_tp_doc, (void *)(uintptr_t)scope_doc},
	{Py_tp_new, (void *)scope_new},
	{Py_tp_init, (void *)scope_init},
	{Py_tp_dealloc, (void *)scope_dealloc},
	{Py_tp_traverse, (void *)scope_traverse},
	{Py_tp_clear, (void *)scope_clear},
	{Py_tp_call, (void *)scope_call},
	{Py_tp_repr, (void *)scope_repr},
	{Py_tp_methods, scope_methods},
	{Py_tp_getset, scope_attributes},
	{0, NULL},
};

static PyType_Spec scope_spec = {
	.name = "triton_proton.scope",
	.basicsize = sizeof(struct scope),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
	.slots = scope_slots,
};

static PyType_Slot timed_slots[] = {
	{Py_tp_doc, (void *)(uintptr_t)timed_doc},
	{Py_tp_dealloc, (void *)scope_dealloc},
	{Py_tp_traverse, (void *)scope_traverse},
	{Py_tp_clear, (void *)scope_clear},
	{0, NULL},
};

static PyType_Spec timed_spec = {
	.name = "triton_proton.cpu_timed_scope",
	.basicsize = sizeof(struct scope),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
	.slots = timed_slots,
};

int ext_scope_init(PyObject *module, struct ext_state *state)
{
	state->scope = (PyTypeObject *)PyType_FromModuleAndSpec(module, &scope_spec, NULL);
	if (!state->scope)
		return -1;
	PyObject *bases = PyTuple_Pack(1, state->scope);
	if (!bases)
		return -1;
	state->timed = (PyTypeObject *)PyType_FromModuleAndSpec(module, &timed_spec, bases);
	Py_DECREF(bases);
	if (!state->timed)
		return -1;
	/* Not inherited by Python subclasses: those go through tp_new. */
	state->scope->tp_vectorcall = scope_vectorcall;
	state->timed->tp_vectorcall = scope_vectorcall;
	if (PyModule_AddObjectRef(module, "scope", (PyObject *)state->scope) < 0)
		return -1;
	return PyModule_AddObjectRef(module, "cpu_timed_scope", (PyObject *)state->timed);
}
