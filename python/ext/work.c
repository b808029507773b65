/* Floating-point operations and bytes of Triton's kernels, from their TTIR, for _work.py. */
#include "ext.h"

#include <math.h>
#include <structmember.h>

#include "intra/work/work.h"

#define CAPSULE "triton_proton.kernel"
#define ARGUMENTS_MAX 512

static void free_kernel(PyObject *capsule)
{
	work_free(PyCapsule_GetPointer(capsule, CAPSULE));
}

static PyObject *read_kernel(PyObject *module, PyObject *text)
{
	struct ext_state *state = ext_state_of(module);
	struct proton_error err;
	struct program *program;
	Py_ssize_t length;
	const char *bytes = PyUnicode_AsUTF8AndSize(text, &length);
	if (!bytes)
		return NULL;
	int status = work_read(bytes, (size_t)length, &program, &err);
	if (status != PROTON_OK)
		return ext_raise(state, status, &err);
	PyObject *capsule = PyCapsule_New(program, CAPSULE, free_kernel);
	if (!capsule)
		work_free(program);
	return capsule;
}

static int read_integers(PyObject *tuple, struct work_argument *out, Py_ssize_t max)
{
	if (PyTuple_GET_SIZE(tuple) > max) {
		PyErr_SetString(PyExc_ValueError, "too many arguments");
		return -1;
	}
	for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
		PyObject *item = PyTuple_GET_ITEM(tuple, i);
		out[i] = (struct work_argument){0};
		if (!PyLong_Check(item))
			continue;
		int overflow;
		out[i].value = PyLong_AsLongLongAndOverflow(item, &overflow);
		out[i].is_known = !overflow;
	}
	return 0;
}

static bool is_known(struct work_range range)
{
	return range.low == range.high;
}

/* Adds a metric if it is known and not 0. */
static int add_metric(PyObject *metrics, const char *name, struct work_range range, bool is_bytes)
{
	if (!is_known(range) || range.high == 0)
		return 0;
	AUTO_DECREF PyObject *value = is_bytes ? PyLong_FromDouble(range.high)
					       : PyFloat_FromDouble(range.high);
	return value ? PyDict_SetItemString(metrics, name, value) : -1;
}

static struct work_range sum(struct work_range a, struct work_range b)
{
	return (struct work_range){a.low + b.low, a.high + b.high};
}

static PyObject *describe(const struct work *work)
{
	static const char *const names[] = {"flops4", "flops8", "flops16", "flops32", "flops64"};
	struct work_range dots = {0, 0};
	struct work_range all = {0, 0};
	PyObject *metrics = PyDict_New();
	int result = metrics ? 0 : -1;
	for (size_t i = 0; i < WORK_WIDTHS && result == 0; i++) {
		struct work_range both = sum(work->dots[i], work->others[i]);
		result = add_metric(metrics, names[i], both, false);
		dots = sum(dots, work->dots[i]);
		all = sum(all, both);
	}
	if (result == 0)
		result = add_metric(metrics, "bytes", sum(work->compulsory[0], work->compulsory[1]),
				    true);
	if (result == 0)
		result = add_metric(metrics, "requested_bytes",
				    sum(work->requested[0], work->requested[1]), true);
	if (result < 0) {
		Py_XDECREF(metrics);
		return NULL;
	}
	return Py_BuildValue("Ndd", metrics, is_known(dots) ? dots.low : -1,
			     is_known(all) ? all.low : -1);
}

static PyObject *count_work(PyObject *module, PyObject *args)
{
	struct work_argument grid[3];
	struct work_argument arguments[ARGUMENTS_MAX];
	struct work_launch launch = {.grid = {1, 1, 1}, .arguments = arguments};
	struct proton_error err;
	struct work work;
	PyObject *capsule, *grid_tuple, *tuple;
	if (!PyArg_ParseTuple(args, "OO!O!:work_count", &capsule, &PyTuple_Type, &grid_tuple,
			      &PyTuple_Type, &tuple))
		return NULL;
	const struct program *program = PyCapsule_GetPointer(capsule, CAPSULE);
	if (!program || read_integers(grid_tuple, grid, 3) < 0 ||
	    read_integers(tuple, arguments, ARGUMENTS_MAX) < 0)
		return NULL;
	for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(grid_tuple); i++)
		launch.grid[i] = grid[i].value;
	launch.argument_count = (uint32_t)PyTuple_GET_SIZE(tuple);
	int status;
	EXT_UNLOCKED(status = work_count(program, &launch, &work, &err));
	if (status != PROTON_OK)
		return ext_raise(ext_state_of(module), status, &err);
	return describe(&work);
}

PyMethodDef ext_work_methods[] = {
	{"work_read", read_kernel, METH_O, "work_read(ttir)\n--\n\nA kernel, for work_count()."},
	{"work_count", count_work, METH_VARARGS,
	 "work_count(kernel, grid, arguments)\n--\n\n"
	 "The work of a launch: a dict of metrics with what is known, and two numbers, the\n"
	 "operations of matrix multiplications and all; negative if they are not known.\n"
	 "Arguments are integers, or None where unknown."},
	{NULL, NULL, 0, NULL},
};

/* ------------------------------------------------------------------ launches */

/*
 * CompiledKernel.launch_metadata with the work of the launch: a method in C, because every launch
 * calls it. The kernel's attribute "_proton_known" has the number of its parameters, the positions
 * of its integers, and a dict from (grid, integers...) to tuples that begin with the metrics.
 * Other launches go to a function of _work.py; none do if the attribute is False.
 */
struct caller {
	PyObject_HEAD
	vectorcallfunc vectorcall;
	PyObject *original;
	PyObject *slow;
};

static PyObject *known_name, *data_name; /* there is one interpreter in a process */

/* The known work of a launch, borrowed; NULL without an exception if there is none. */
static PyObject *find_known(PyObject *about, PyObject *const *args, Py_ssize_t count)
{
	Py_ssize_t length = PyLong_AsSsize_t(PyTuple_GET_ITEM(about, 0));
	PyObject *positions = PyTuple_GET_ITEM(about, 1);
	Py_ssize_t number_count = PyTuple_GET_SIZE(positions);
	if (length != count - 3 || !PyTuple_CheckExact(args[1]))
		return NULL;
	PyObject *key = PyTuple_New(number_count + 1);
	if (!key) {
		PyErr_Clear();
		return NULL;
	}
	PyTuple_SET_ITEM(key, 0, Py_NewRef(args[1]));
	for (Py_ssize_t i = 0; i < number_count; i++) {
		Py_ssize_t at = PyLong_AsSsize_t(PyTuple_GET_ITEM(positions, i));
		at = at < 0 || at >= length ? 0 : at;
		PyTuple_SET_ITEM(key, i + 1, Py_NewRef(args[3 + at]));
	}
	/* Entries are never removed. */
	PyObject *found = PyDict_GetItemWithError(PyTuple_GET_ITEM(about, 2), key);
	Py_DECREF(key);
	if (!found)
		PyErr_Clear();
	return found && PyTuple_Check(found) ? PyTuple_GET_ITEM(found, 0) : NULL;
}

/* Adds known work to the metadata. False, without an exception, if it is not known. */
static bool add_known(PyObject *metadata, PyObject *const *args, Py_ssize_t count)
{
	PyObject *about = PyObject_GetAttr(args[0], known_name);
	PyObject *metrics = about && PyTuple_Check(about) ? find_known(about, args, count) : NULL;
	PyObject *data = metrics ? PyObject_GetAttr(metadata, data_name) : NULL;
	bool is_added = about == Py_False || (data && PyDict_Update(data, metrics) == 0);
	Py_XDECREF(data);
	Py_XDECREF(about);
	if (!is_added)
		PyErr_Clear();
	return is_added;
}

static PyObject *caller_call(PyObject *self, PyObject *const *args, size_t flagged_count,
			     PyObject *names)
{
	struct caller *caller = (struct caller *)self;
	Py_ssize_t count = PyVectorcall_NARGS(flagged_count);
	PyObject *metadata = PyObject_Vectorcall(caller->original, args, (size_t)count, names);
	if (!metadata || metadata == Py_None || names || count < 3 ||
	    add_known(metadata, args, count))
		return metadata;
	PyObject *rest = PyTuple_New(count - 3);
	for (Py_ssize_t i = 3; rest && i < count; i++)
		PyTuple_SET_ITEM(rest, i - 3, Py_NewRef(args[i]));
	AUTO_DECREF PyObject *done = rest ? PyObject_CallFunctionObjArgs(caller->slow, metadata,
									 args[0], args[1], rest,
									 NULL)
					  : NULL;
	Py_XDECREF(rest);
	if (!done)
		Py_CLEAR(metadata);
	return metadata;
}

static PyObject *caller_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	PyObject *original, *slow;
	if (!PyArg_ParseTuple(args, "OO:WorkCaller", &original, &slow))
		return NULL;
	struct caller *self = (struct caller *)type->tp_alloc(type, 0);
	if (!self)
		return NULL;
	self->vectorcall = caller_call;
	self->original = Py_NewRef(original);
	self->slow = Py_NewRef(slow);
	return (PyObject *)self;
}

static PyObject *caller_bind(PyObject *self, PyObject *object, PyObject *type)
{
	return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}

static int caller_traverse(PyObject *self, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(self));
	Py_VISIT(((struct caller *)self)->original);
	Py_VISIT(((struct caller *)self)->slow);
	return 0;
}

static int caller_clear(PyObject *self)
{
	Py_CLEAR(((struct caller *)self)->original);
	Py_CLEAR(((struct caller *)self)->slow);
	return 0;
}

static void caller_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	PyObject_GC_UnTrack(self);
	caller_clear(self);
	type->tp_free(self);
	Py_DECREF(type);
}

static PyMemberDef caller_members[] = {
	{"__vectorcalloffset__", T_PYSSIZET, offsetof(struct caller, vectorcall), READONLY, NULL},
	{"__wrapped__", T_OBJECT, offsetof(struct caller, original), READONLY, NULL},
	{NULL, 0, 0, 0, NULL},
};

static PyType_Slot caller_slots[] = {
	{Py_tp_new, (void *)caller_new},         {Py_tp_call, (void *)PyVectorcall_Call},
	{Py_tp_descr_get, (void *)caller_bind},  {Py_tp_members, caller_members},
	{Py_tp_dealloc, (void *)caller_dealloc}, {Py_tp_traverse, (void *)caller_traverse},
	{Py_tp_clear, (void *)caller_clear},     {0, NULL},
};

static PyType_Spec caller_spec = {
	.name = "triton_proton.WorkCaller",
	.basicsize = sizeof(struct caller),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
		 Py_TPFLAGS_METHOD_DESCRIPTOR,
	.slots = caller_slots,
};

int ext_work_init(PyObject *module)
{
	if (!known_name)
		known_name = PyUnicode_InternFromString("_proton_known");
	if (!data_name)
		data_name = PyUnicode_InternFromString("data");
	if (!known_name || !data_name)
		return -1;
	AUTO_DECREF PyObject *type = PyType_FromModuleAndSpec(module, &caller_spec, NULL);
	return type ? PyModule_AddObjectRef(module, "WorkCaller", type) : -1;
}
