/*
 * Launches of instrumented kernels: callbacks of Triton for each launch, in C. The kernel's buffer
 * is requested before its launch hooks run, on the same thread, and tied to the launch by the last
 * hook.
 */
#include "ext.h"

static bool number_of(PyObject *value, uint64_t *out)
{
	if (value == Py_None) {
		*out = 0;
		return true;
	}
	*out = PyLong_AsUnsignedLongLong(value);
	return *out != UINT64_MAX || !PyErr_Occurred();
}

static PyObject *instrument_kernel(PyObject *module, PyObject *args)
{
	PyObject *function;
	const char *name, *layout;
	uint64_t handle;
	struct proton_error err;
	if (!PyArg_ParseTuple(args, "Oss:instrument_kernel", &function, &name, &layout) ||
	    !number_of(function, &handle))
		return NULL;
	int status = proton_instrument_kernel(handle, name, layout, &err);
	return ext_none_or_raise(module, status, &err);
}

static PyObject *instrument_forget(PyObject *module, PyObject *function)
{
	uint64_t handle;
	if (!number_of(function, &handle))
		return NULL;
	proton_instrument_forget(handle);
	Py_RETURN_NONE;
}

/* An exception that must not end the program's launch: prints the first, and clears it. */
static void report_exception(void)
{
	static atomic_bool is_reported;
	PyObject *type, *value, *traceback;
	PyErr_Fetch(&type, &value, &traceback);
	if (!atomic_exchange(&is_reported, true)) {
		PyObject *line = PyUnicode_FromFormat(
			"launches of instrumented kernels are not recorded: %S",
			value ? value : Py_None);
		Py_XDECREF(line ? ext_call("triton_proton._message", "warn", line, NULL) : NULL);
		Py_XDECREF(line);
		PyErr_Clear();
	}
	Py_XDECREF(type);
	Py_XDECREF(value);
	Py_XDECREF(traceback);
}

/* Triton's launchers accept a number or an object with data_ptr(). */
static PyObject *instrument_allocate(PyObject *module, PyObject *const *args, Py_ssize_t arg_count)
{
	uint64_t size, alignment, stream;
	if (arg_count < 3)
		PyErr_SetString(
			PyExc_TypeError,
			"the allocator is called without a size, an alignment and a stream");
	if (arg_count < 3 || !number_of(args[0], &size) || !number_of(args[1], &alignment) ||
	    !number_of(args[2], &stream)) {
		report_exception();
		return PyLong_FromLong(0); /* without a buffer, nothing is recorded */
	}
	return PyLong_FromUnsignedLongLong(proton_instrument_buffer(size, alignment, stream));
}

/* The number of a key; unchanged if the launch has none. False with an exception. */
static bool data_number(PyObject *data, const char *key, uint64_t *out)
{
	AUTO_DECREF PyObject *name = PyDict_Check(data) ? PyUnicode_InternFromString(key) : NULL;
	AUTO_DECREF PyObject *value = NULL;
	if (name && ext_dict_get(data, name, &value) < 0)
		PyErr_Clear();
	return !value || number_of(value, out);
}

/* The function and the stream of Triton's LazyDict; false after a report. */
static bool launch_of(PyObject *metadata, uint64_t *function, uint64_t *stream)
{
	AUTO_DECREF PyObject *data = PyObject_GetAttrString(metadata, "data");
	bool is_known = data && data_number(data, "function", function) &&
			data_number(data, "stream", stream);
	if (!is_known)
		report_exception();
	return is_known;
}

static PyObject *instrument_launching(PyObject *module, PyObject *metadata)
{
	uint64_t function = 0, stream = 0;
	if (launch_of(metadata, &function, &stream))
		proton_instrument_launching(function, stream);
	Py_RETURN_NONE;
}

/* False with an exception that ends programs, such as KeyboardInterrupt. */
static bool serve_loop(uint64_t function)
{
	AUTO_DECREF PyObject *handle = PyLong_FromUnsignedLongLong(function);
	AUTO_DECREF PyObject *done =
		handle ? ext_call("triton_proton._closed_loop", "serve", handle, NULL) : NULL;
	if (!done && PyErr_ExceptionMatches(PyExc_Exception))
		PyErr_Clear(); /* the package cannot be imported, because Python is exiting */
	return !PyErr_Occurred();
}

static PyObject *instrument_launched(PyObject *module, PyObject *metadata)
{
	uint64_t function = 0, stream = 0;
	if (launch_of(metadata, &function, &stream) &&
	    proton_instrument_launched(function, stream) && !serve_loop(function))
		return NULL;
	Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ closed loops */

static PyObject *instrument_loop(PyObject *module, PyObject *args)
{
	unsigned long long function;
	const char *names, *decisions;
	unsigned first;
	struct proton_error err;
	if (!PyArg_ParseTuple(args, "KsIz:instrument_loop", &function, &names, &first, &decisions))
		return NULL;
	int status = proton_instrument_loop(function, names, first, decisions, &err);
	return ext_none_or_raise(module, status, &err);
}

static PyObject *instrument_decisions(PyObject *module, PyObject *function)
{
	uint64_t handle;
	if (!number_of(function, &handle))
		return NULL;
	char *text = proton_instrument_decisions(handle);
	if (!text)
		Py_RETURN_NONE;
	PyObject *result = PyUnicode_FromString(text);
	proton_free(text);
	return result;
}

static PyObject *instrument_wanted(PyObject *module, PyObject *function)
{
	uint64_t handle;
	uint32_t variant, first, end;
	if (!number_of(function, &handle))
		return NULL;
	if (!proton_instrument_wanted(handle, &variant, &first, &end))
		Py_RETURN_NONE;
	return Py_BuildValue("(III)", variant, first, end);
}

static PyObject *instrument_made(PyObject *module, PyObject *args)
{
	unsigned long long function, made;
	unsigned variant;
	if (!PyArg_ParseTuple(args, "KIK:instrument_made", &function, &variant, &made))
		return NULL;
	proton_instrument_made(function, variant, made);
	Py_RETURN_NONE;
}

static PyObject *instrument_choice(PyObject *module, PyObject *args)
{
	unsigned long long function;
	int is_usual;
	if (!PyArg_ParseTuple(args, "Kp:instrument_choice", &function, &is_usual))
		return NULL;
	return PyLong_FromUnsignedLong(proton_instrument_choice(function, is_usual));
}

static PyObject *instrument_is_capturing(PyObject *module, PyObject *stream)
{
	uint64_t handle;
	if (!number_of(stream, &handle))
		return NULL;
	return PyBool_FromLong(proton_instrument_is_capturing(handle));
}

static PyObject *instrument_loading(PyObject *module, PyObject *begins)
{
	if (begins == Py_True)
		proton_instrument_load_begin();
	else
		proton_instrument_load_end();
	Py_RETURN_NONE;
}

PyMethodDef ext_instrument_launch_methods[] = {
	{"instrument_kernel", instrument_kernel, METH_VARARGS,
	 "instrument_kernel(function, name, layout)\n--\n\n"
	 "An instrumented kernel was loaded: the driver's handle of its function, and the "
	 "layout of its records as its metadata has it."},
	{"instrument_forget", instrument_forget, METH_O,
	 "instrument_forget(function): the function is unloaded."},
	{"instrument_allocate", (PyCFunction)(void (*)(void))instrument_allocate, METH_FASTCALL,
	 "instrument_allocate(size, alignment, stream)\n--\n\n"
	 "Triton's profile allocator: the address of the buffer for the launch that follows on "
	 "this thread, or 0 if it is not sampled."},
	{"instrument_launching", instrument_launching, METH_O,
	 "instrument_launching(metadata)\n--\n\n"
	 "Before a kernel is launched: its time may be measured."},
	{"instrument_launched", instrument_launched, METH_O,
	 "instrument_launched(metadata)\n--\n\n"
	 "After a kernel was launched: ties the buffer to the launch. `metadata` is Triton's "
	 "LazyDict; its `data` names function and stream."},
	{"instrument_loop", instrument_loop, METH_VARARGS,
	 "instrument_loop(function, names, first, decisions)\n--\n\n"
	 "Begin a closed loop with the function, which has the first of the scopes."},
	{"instrument_decisions", instrument_decisions, METH_O,
	 "instrument_decisions(function)\n--\n\n"
	 "The decisions of its loop, for instrument_loop(); None: no new ones."},
	{"instrument_wanted", instrument_wanted, METH_O,
	 "instrument_wanted(function)\n--\n\n"
	 "A variant to compile: its number, first scope and end; None."},
	{"instrument_made", instrument_made, METH_VARARGS,
	 "instrument_made(function, variant, made)\n--\n\n"
	 "The variant was loaded as the function `made`; 0 if it is not usable."},
	{"instrument_choice", instrument_choice, METH_VARARGS,
	 "instrument_choice(function, is_usual)\n--\n\n"
	 "The variant for the next launch, or for launches that are not measured."},
	{"instrument_is_capturing", instrument_is_capturing, METH_O,
	 "instrument_is_capturing(stream)\n--\n\n"
	 "True if the stream is being captured into a graph."},
	{"instrument_loading", instrument_loading, METH_O,
	 "instrument_loading(begins)\n--\n\n"
	 "Around loading a kernel: captures of other threads are not disturbed."},
	{NULL, NULL, 0, NULL},
};
