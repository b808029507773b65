/*
 * Sessions and their data: one function per function of proton.h, with upstream's names.
 *
 * The GIL is released during calls that may wait for work in flight, write a file or serialize a
 * profile.
 */
#include "ext.h"

/* A str or None as a C string; NULL for None and for "" where that means the default. */
static bool text_or_null(PyObject *object, const char *what, const char **text_out)
{
	*text_out = NULL;
	if (!object || object == Py_None)
		return true;
	if (!PyUnicode_Check(object))
		return ext_raise_type(what, "a str", object);
	Py_ssize_t length;
	const char *text = PyUnicode_AsUTF8AndSize(object, &length);
	if (!text)
		return false;
	if (strlen(text) != (size_t)length) {
		PyErr_Format(PyExc_ValueError, "%s contains a NUL", what);
		return false;
	}
	*text_out = text;
	return true;
}

static PyObject *start(PyObject *module, PyObject *args)
{
	PyObject *path, *context = NULL, *data = NULL, *profiler = NULL, *mode = NULL;
	PyObject *format = NULL;
	unsigned int flags = 0;
	struct proton_session_options options = {.size = sizeof(options)};
	if (!PyArg_ParseTuple(args, "O&|OOOOIO:start", PyUnicode_FSConverter, &path, &context,
			      &data, &profiler, &mode, &flags, &format))
		return NULL;
	PyObject *result = NULL;
	if (!text_or_null(context, "context", &options.context) ||
	    !text_or_null(data, "data", &options.data) ||
	    !text_or_null(profiler, "backend", &options.backend) ||
	    !text_or_null(mode, "mode", &options.mode) ||
	    !text_or_null(format, "output_format", &options.format))
		goto out;
	options.name = PyBytes_AS_STRING(path);
	options.flags = flags;
	int session = -1;
	struct proton_error err;
	int status;
	EXT_UNLOCKED(status = proton_start(&options, &session, &err));
	result = ext_value_or_raise(module, status, &err, PyLong_FromLong(session));
out:
	Py_DECREF(path);
	return result;
}

/* ------------------------------------------------------------------ activate, deactivate */

/* Rejects numbers that no session can have: negative ones mean "all" in libproton. */
static bool is_number_of_session(int session)
{
	if (session >= 0)
		return true;
	PyErr_Format(PyExc_IndexError,
		     "Session has not been initialized: %d; start() returns the number of a "
		     "session",
		     session);
	return false;
}

static bool parse_session(PyObject *args, const char *format, int *session, void *second,
			  void *third)
{
	return PyArg_ParseTuple(args, format, session, second, third) &&
	       is_number_of_session(*session);
}

/* None means all sessions. */
static int read_session_or_all(PyObject *object, void *session_out)
{
	int *session = session_out;
	*session = PROTON_ALL_SESSIONS;
	return object == Py_None ||
	       (PyArg_Parse(object, "i", session) && is_number_of_session(*session));
}

static PyObject *activate(PyObject *module, PyObject *args)
{
	struct proton_error err;
	int session, status;
	if (!PyArg_ParseTuple(args, "O&:activate", read_session_or_all, &session))
		return NULL;
	EXT_UNLOCKED(status = proton_activate(session, &err));
	return ext_none_or_raise(module, status, &err);
}

static PyObject *deactivate(PyObject *module, PyObject *args)
{
	struct proton_error err;
	int session, status, flush = 0;
	if (!PyArg_ParseTuple(args, "O&|p:deactivate", read_session_or_all, &session, &flush))
		return NULL;
	EXT_UNLOCKED(status = proton_deactivate(session, flush, &err));
	ext_metrics_let_go();
	return ext_none_or_raise(module, status, &err);
}

/* ------------------------------------------------------------------ finalize */

static PyObject *finalize(PyObject *module, PyObject *args)
{
	PyObject *number, *format = NULL;
	const char *name;
	struct proton_error err;
	int status, session = PROTON_ALL_SESSIONS;
	if (!PyArg_ParseTuple(args, "O|O:finalize", &number, &format) ||
	    (number != Py_None && !PyArg_Parse(number, "i", &session)))
		return NULL;
	if (number != Py_None && session < 0)
		Py_RETURN_NONE; /* an unknown session is not an error here */
	if (!text_or_null(format, "output_format", &name))
		return NULL;
	EXT_UNLOCKED(status = proton_finalize(session, name, &err));
	ext_metrics_let_go();
	return ext_none_or_raise(module, status, &err);
}

static PyObject *finalize_owned(PyObject *module, PyObject *args)
{
	PyObject *format = NULL;
	const char *name;
	struct proton_error err;
	int status;
	if (!PyArg_ParseTuple(args, "|O:finalize_owned", &format) ||
	    !text_or_null(format, "output_format", &name))
		return NULL;
	EXT_UNLOCKED(status = proton_finalize_owned(name, &err));
	return ext_none_or_raise(module, status, &err);
}

static PyObject *nvtx_enable(PyObject *module, PyObject *enable)
{
	proton_nvtx_enable(enable == Py_True);
	Py_RETURN_NONE;
}

static PyObject *kernel_cache_add(PyObject *module, PyObject *path)
{
	const char *text = PyUnicode_AsUTF8(path);
	if (!text)
		return NULL;
	proton_kernel_cache_add(text);
	Py_RETURN_NONE;
}

EXT_PROCEDURE(await_driver, proton_await_driver())
EXT_PROCEDURE(prepare, proton_prepare())
EXT_PROCEDURE(own_sessions, proton_own_sessions())
EXT_PROCEDURE(note_step, proton_note_step())

static PyObject *leave_vendor(PyObject *module, PyObject *unused)
{
	bool is_free;
	EXT_UNLOCKED(is_free = proton_leave_vendor());
	return PyBool_FromLong(is_free);
}

static PyObject *sessions_are_owned(PyObject *module, PyObject *unused)
{
	return PyBool_FromLong(proton_sessions_are_owned());
}

static PyObject *finalize_on_signals(PyObject *module, PyObject *unused)
{
	struct proton_error err;
	int status = proton_finalize_on_signals(&err);
	return ext_none_or_raise(module, status, &err);
}

/* ------------------------------------------------------------------ what there is */

static PyObject *is_profiling(PyObject *module, PyObject *unused)
{
	return PyBool_FromLong(proton_is_profiling());
}

static PyObject *get_available_profilers(PyObject *module, PyObject *unused)
{
	PyObject *names = PyList_New(0);
	const char *name;
	for (size_t i = 0; names && (name = proton_backend_name(i)) != NULL; i++)
		ext_append(&names, PyUnicode_FromString(name));
	return names;
}

static PyObject *default_backend(PyObject *module, PyObject *unused)
{
	return Py_BuildValue("z", proton_backend_default());
}

static PyObject *session_backend(PyObject *module, PyObject *args)
{
	int session;
	if (!PyArg_ParseTuple(args, "i:session_backend", &session))
		return NULL;
	return Py_BuildValue("z", proton_session_backend(session));
}

static PyObject *collective(PyObject *module, PyObject *duration_ns)
{
	unsigned long long duration = PyLong_AsUnsignedLongLong(duration_ns);
	if (PyErr_Occurred())
		return NULL;
	if (proton_is_profiling())
		proton_collective(proton_context_here(), duration);
	Py_RETURN_NONE;
}

static PyObject *session_path(PyObject *module, PyObject *args)
{
	char path[4096];
	int session;
	if (!PyArg_ParseTuple(args, "i:session_path", &session))
		return NULL;
	size_t length = proton_session_path(session, path, sizeof(path));
	if (!length || length >= sizeof(path))
		Py_RETURN_NONE;
	return PyUnicode_DecodeFSDefault(path);
}

static PyObject *get_context_depth(PyObject *module, PyObject *args)
{
	int session;
	size_t depth = 0;
	struct proton_error err;
	if (!parse_session(args, "i:get_context_depth", &session, NULL, NULL))
		return NULL;
	int status = proton_context_depth(session, &depth, &err);
	return ext_value_or_raise(module, status, &err, PyLong_FromSize_t(depth));
}

static PyObject *last_summary(PyObject *module, PyObject *unused)
{
	char text[4096];
	proton_last_summary(text, sizeof(text));
	return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

#define COUNTER_COUNT 64

static PyObject *statistics(PyObject *module, PyObject *args)
{
	int session;
	struct proton_counter counters[COUNTER_COUNT];
	struct proton_error err;
	if (!parse_session(args, "i:statistics", &session, NULL, NULL))
		return NULL;
	int count = proton_statistics(session, counters, COUNTER_COUNT, &err);
	if (count < 0)
		return ext_raise(ext_state_of(module), count, &err);
	if (count > COUNTER_COUNT)
		count = COUNTER_COUNT;
	PyObject *list = PyList_New(0);
	for (int i = 0; list && i < count; i++)
		ext_append(&list, Py_BuildValue("(sKO)", counters[i].name,
						(unsigned long long)counters[i].value,
						counters[i].is_loss ? Py_True : Py_False));
	return list;
}

/* ------------------------------------------------------------------ data */

static PyObject *get_data(PyObject *module, PyObject *args)
{
	struct {
		unsigned int phase;
		const char *format;
	} what;
	struct proton_error err;
	char *bytes;
	size_t length;
	int session, status;
	if (!parse_session(args, "iIs:get_data", &session, &what.phase, &what.format))
		return NULL;
	EXT_UNLOCKED(
		status = proton_data_get(session, what.phase, what.format, &bytes, &length, &err));
	if (status != PROTON_OK)
		return ext_raise(ext_state_of(module), status, &err);
	PyObject *data = PyBytes_FromStringAndSize(bytes, (Py_ssize_t)length);
	proton_free(bytes);
	return data;
}

static PyObject *clear_data(PyObject *module, PyObject *args)
{
	int session;
	struct {
		unsigned int phase;
		int up_to;
	} where = {0, 0};
	struct proton_error err;
	if (!parse_session(args, "i|Ip:clear_data", &session, &where.phase, &where.up_to))
		return NULL;
	int status = proton_phase_clear(session, where.phase, where.up_to, &err);
	return ext_none_or_raise(module, status, &err);
}

static PyObject *advance_data_phase(PyObject *module, PyObject *args)
{
	int session;
	uint32_t phase = 0;
	struct proton_error err;
	if (!parse_session(args, "i:advance_data_phase", &session, NULL, NULL))
		return NULL;
	int status = proton_phase_advance(session, &phase, &err);
	return ext_value_or_raise(module, status, &err, PyLong_FromUnsignedLong(phase));
}

static PyObject *is_data_phase_complete(PyObject *module, PyObject *args)
{
	int session;
	unsigned int phase = 0;
	bool is_complete = false;
	struct proton_error err;
	if (!parse_session(args, "i|I:is_data_phase_complete", &session, &phase, NULL))
		return NULL;
	int status = proton_phase_is_complete(session, phase, &is_complete, &err);
	return ext_value_or_raise(module, status, &err, PyBool_FromLong(is_complete));
}

/* ------------------------------------------------------------------ peak rates of devices */

static PyObject *peak_flops(PyObject *module, PyObject *args)
{
	struct proton_error err;
	const char *type, *arch;
	int width;
	double num_sms, clock_khz, rate = 0;
	if (!PyArg_ParseTuple(args, "ssidd:peak_flops", &type, &arch, &width, &num_sms, &clock_khz))
		return NULL;
	int status = proton_peak_flops(type, arch, width < 0 ? 0 : (unsigned)width, num_sms,
				       clock_khz, &rate, &err);
	return ext_value_or_raise(module, status, &err, PyFloat_FromDouble(rate));
}

static PyObject *peak_bytes(PyObject *module, PyObject *args)
{
	struct proton_error err;
	const char *type, *arch;
	double bus_width, clock_khz, rate = 0;
	if (!PyArg_ParseTuple(args, "ssdd:peak_bytes", &type, &arch, &bus_width, &clock_khz))
		return NULL;
	int status = proton_peak_bytes(type, arch, bus_width, clock_khz, &rate, &err);
	return ext_value_or_raise(module, status, &err, PyFloat_FromDouble(rate));
}

static PyObject *peak_arches(PyObject *module, PyObject *device_type)
{
	const char *type = PyUnicode_AsUTF8(device_type);
	PyObject *arches = type ? PyList_New(0) : NULL;
	const char *arch;
	for (uint32_t i = 0; arches && (arch = proton_peak_arch(type, i)); i++)
		ext_append(&arches, PyUnicode_FromString(arch));
	return arches;
}

PyMethodDef ext_session_methods[] = {
	{"start", start, METH_VARARGS,
	 "start(path, context=None, data=None, profiler=None, mode=None, flags=0, format=None)\n"
	 "--\n\n"
	 "Start a session and return its number. `path` is str or bytes."},
	{"activate", activate, METH_VARARGS, "activate(session); None: all of them"},
	{"deactivate", deactivate, METH_VARARGS, "deactivate(session, flushing=False)"},
	{"finalize", finalize, METH_VARARGS, "finalize(session, output_format='')"},
	{"nvtx_enable", nvtx_enable, METH_O,
	 "nvtx_enable(enable): whether NVTX ranges become scopes, from the next range on."},
	{"kernel_cache_add", kernel_cache_add, METH_O,
	 "kernel_cache_add(path): a directory of kernels that Triton compiled."},
	{"prepare", prepare, METH_NOARGS,
	 "prepare(): register with libraries of the GPU that must know the recorder first."},
	{"await_driver", await_driver, METH_NOARGS,
	 "The driver will report its initialization; backends wait for it."},
	{"note_step", note_step, METH_NOARGS,
	 "note_step()\n--\n\n"
	 "A step of the program begins, as in proton_note_step()."},
	{"leave_vendor", leave_vendor, METH_NOARGS,
	 "leave_vendor()\n--\n\n"
	 "Leave the GPU vendor's profiling library: another tool can use it then. False if a "
	 "session uses it, or it cannot be left now."},
	{"own_sessions", own_sessions, METH_NOARGS,
	 "The launching tool owns the session from now on."},
	{"sessions_are_owned", sessions_are_owned, METH_NOARGS,
	 "Whether own_sessions() was called."},
	{"finalize_owned", finalize_owned, METH_VARARGS, "finalize_owned(output_format='')"},
	{"peak_flops", peak_flops, METH_VARARGS,
	 "peak_flops(device_type, arch, width, num_sms, clock_khz)\n--\n\n"
	 "Operations per second on operands of `width` bits."},
	{"peak_bytes", peak_bytes, METH_VARARGS,
	 "peak_bytes(device_type, arch, bus_width, memory_clock_khz)\n--\n\n"
	 "Bytes per second of a device's memory."},
	{"peak_arches", peak_arches, METH_O,
	 "peak_arches(device_type)\n--\n\n"
	 "Architectures of \"CUDA\" or \"HIP\" that have peak rates."},
	{"finalize_on_signals", finalize_on_signals, METH_NOARGS,
	 "Finalize when SIGTERM or SIGHUP arrives, where nothing else handles them."},
	{"is_profiling", is_profiling, METH_NOARGS, "True while a session is live."},
	{"get_available_profilers", get_available_profilers, METH_NOARGS, "Names of the backends."},
	{"default_backend", default_backend, METH_NOARGS,
	 "default_backend(): the backend of a session that names none; None: it is unknown."},
	{"collective", collective, METH_O,
	 "collective(duration_ns): add an occurrence of a collective to the innermost scope."},
	{"session_path", session_path, METH_VARARGS,
	 "session_path(session): its output path without suffix; None: standard output, or no such "
	 "session."},
	{"session_backend", session_backend, METH_VARARGS,
	 "session_backend(session): the name of its backend; None: there is no such session."},
	{"get_context_depth", get_context_depth, METH_VARARGS, "get_context_depth(session)"},
	{"last_summary", last_summary, METH_NOARGS, "One line about the last finalized session."},
	{"statistics", statistics, METH_VARARGS,
	 "statistics(session)\n--\n\n"
	 "Counters of recorded and lost data: a list of (name, value, is_loss)."},
	{"get_data", get_data, METH_VARARGS, "get_data(session, phase, format): bytes of a file"},
	{"clear_data", clear_data, METH_VARARGS, "clear_data(session, phase=0, up_to=False)"},
	{"advance_data_phase", advance_data_phase, METH_VARARGS, "advance_data_phase(session)"},
	{"is_data_phase_complete", is_data_phase_complete, METH_VARARGS,
	 "is_data_phase_complete(session, phase=0)"},
	{NULL, NULL, 0, NULL},
};
