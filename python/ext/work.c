/* Floating-point operations and bytes of Triton's kernels, from their TTIR, for _work.py. */
#include "ext.h"

#include <math.h>

#include "intra/work/work.h"

#define CAPSULE "triton_proton.kernel"
#define ARGUMENTS_MAX 512

PyDoc_STRVAR(work_read_doc, "work_read(ttir)\n--\n\nA kernel, for work_count().");

PyDoc_STRVAR(work_count_doc,
	     "work_count(kernel, grid, arguments)\n--\n\n"
	     "The work of a launch: a dict of metrics with what is known, and two numbers, the\n"
	     "operations of matrix multiplications and all; negative if they are not known.\n"
	     "Arguments are integers, or None where unknown.");

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
	PyObject *value = is_bytes ? PyLong_FromDouble(range.high) : PyFloat_FromDouble(range.high);
	int result = value ? PyDict_SetItemString(metrics, name, value) : -1;
	Py_XDECREF(value);
	return result;
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
	Py_BEGIN_ALLOW_THREADS
	status = work_count(program, &launch, &work, &err);
	Py_END_ALLOW_THREADS
	if (status != PROTON_OK)
		return ext_raise(ext_state_of(module), status, &err);
	return describe(&work);
}

PyMethodDef ext_work_methods[] = {
	{"work_read", read_kernel, METH_O, work_read_doc},
	{"work_count", count_work, METH_VARARGS, work_count_doc},
	{NULL, NULL, 0, NULL},
};
