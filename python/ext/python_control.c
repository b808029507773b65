/*
 * Threads of libproton that use Python. Sessions that `proton ctl` starts get all options of the
 * package, so the thread of the commands calls functions of Python. It waits for the GIL, the
 * program does not wait for it. Another thread may hold the program's threads.
 */
#include "ext.h"

static PyObject *start_function; /* there is one interpreter in a process */
static PyObject *finalize_function;

/* The exception as an error; its type is not kept. */
static int take_exception(struct proton_error *err)
{
	PyObject *type, *value, *traceback;
	PyErr_Fetch(&type, &value, &traceback);
	PyObject *text = value ? PyObject_Str(value) : NULL;
	const char *utf8 = text ? PyUnicode_AsUTF8(text) : NULL;
	err->status = PROTON_E_STATE;
	snprintf(err->text, sizeof(err->text), "%s",
		 utf8 && *utf8 ? utf8 : ((PyTypeObject *)type)->tp_name);
	PyErr_Clear();
	Py_XDECREF(text);
	Py_XDECREF(type);
	Py_XDECREF(value);
	Py_XDECREF(traceback);
	return err->status;
}

/* True if the interpreter ends, with an error: its functions cannot be called any more. */
static bool is_too_late(struct proton_error *err)
{
	if (ext_is_running())
		return false;
	err->status = PROTON_E_STATE;
	snprintf(err->text, sizeof(err->text), "the program ends");
	return true;
}

static int start(const struct proton_session_options *options, const char *hook, int *session_out,
		 struct proton_error *err)
{
	if (is_too_late(err))
		return err->status;
	PyGILState_STATE held = PyGILState_Ensure();
	PyObject *name = PyUnicode_DecodeFSDefault(options->name ? options->name : "proton");
	PyObject *session =
		name ? PyObject_CallFunction(start_function, "OzzzzIzz", name, options->context,
					     options->data, options->backend, options->mode,
					     (unsigned)options->flags, options->format, hook)
		     : NULL;
	long id = session ? PyLong_AsLong(session) : -1;
	int status = PyErr_Occurred() ? take_exception(err) : PROTON_OK;
	if (status == PROTON_OK)
		*session_out = (int)id;
	Py_XDECREF(session);
	Py_XDECREF(name);
	PyGILState_Release(held);
	return status;
}

static int finalize(int session, const char *format, struct proton_error *err)
{
	if (is_too_late(err))
		return err->status;
	PyGILState_STATE held = PyGILState_Ensure();
	PyObject *result = PyObject_CallFunction(finalize_function, "iz", session, format);
	int status = result ? PROTON_OK : take_exception(err);
	Py_XDECREF(result);
	PyGILState_Release(held);
	return status;
}

static void *let_go(void)
{
	return ext_is_running() && PyGILState_Check() ? PyEval_SaveThread() : NULL;
}

static void take_back(void *held)
{
	PyEval_RestoreThread(held);
}

static const struct proton_starter starter = {start, finalize, let_go, take_back};

static PyObject *listen_for_commands(PyObject *module, PyObject *args)
{
	struct proton_session_options options = {.size = sizeof(options)};
	PyObject *name, *on_start, *on_finalize;
	struct proton_error err;
	int status;
	if (!PyArg_ParseTuple(args, "O&zzzzIzOO:listen", PyUnicode_FSConverter, &name,
			      &options.context, &options.data, &options.backend, &options.mode,
			      &options.flags, &options.format, &on_start, &on_finalize))
		return NULL;
	options.name = PyBytes_AS_STRING(name);
	Py_XSETREF(start_function, Py_NewRef(on_start));
	Py_XSETREF(finalize_function, Py_NewRef(on_finalize));
	proton_starter_set(&starter);
	EXT_UNLOCKED(status = proton_listen(&options, &err));
	Py_DECREF(name);
	return ext_none_or_raise(module, status, &err);
}

static PyObject *listen_timed(PyObject *module, PyObject *args)
{
	double after, length;
	struct proton_error err;
	int status;
	if (!PyArg_ParseTuple(args, "dd:listen_timed", &after, &length))
		return NULL;
	EXT_UNLOCKED(status = proton_listen_timed(after, length, &err));
	return ext_none_or_raise(module, status, &err);
}

static PyObject *listen_range(PyObject *module, PyObject *name)
{
	const char *text = PyUnicode_AsUTF8(name);
	struct proton_error err;
	if (!text)
		return NULL;
	int status = proton_listen_range(text, &err);
	return ext_none_or_raise(module, status, &err);
}

EXT_PROCEDURE(listen_end, EXT_UNLOCKED(proton_listen_end()))

static PyObject *take_snapshot(PyObject *module, PyObject *args)
{
	PyObject *given;
	PyObject *name = NULL;
	const char *format;
	char path[4096];
	struct proton_error err;
	int session, status;
	if (!PyArg_ParseTuple(args, "iOz:snapshot", &session, &given, &format) ||
	    (given != Py_None && !PyUnicode_FSConverter(given, &name)))
		return NULL;
	EXT_UNLOCKED(status = proton_snapshot(session, name ? PyBytes_AS_STRING(name) : NULL,
					      format, path, sizeof(path), &err));
	Py_XDECREF(name);
	if (status != PROTON_OK)
		return ext_raise(ext_state_of(module), status, &err);
	return PyUnicode_DecodeFSDefault(path);
}

/* ------------------------------------------------------------------ holding threads */

#ifndef Py_GIL_DISABLED

/*
 * The thread with the GIL keeps the threads of Python from beginning a call of the driver. Most
 * launchers release the GIL inside the call and need it to return, so a thread stops after its
 * call. Free-threaded builds have no such lock.
 */
static _Thread_local PyGILState_STATE held;

static bool begin(void)
{
	if (!ext_is_running())
		return false;
	held = PyGILState_Ensure();
	return true;
}

static void end(void)
{
	PyGILState_Release(held);
}

/* A thread that Python has never seen does not need the GIL. */
static bool covers(void)
{
	return ext_thread_of_caller() != NULL;
}

static const struct proton_holder holder = {begin, end, covers};

#endif

static PyObject *hold_threads(PyObject *module, PyObject *wanted)
{
#ifndef Py_GIL_DISABLED
	EXT_UNLOCKED(proton_holder_set(wanted == Py_True ? &holder : NULL));
#endif
	Py_RETURN_NONE;
}

PyMethodDef ext_control_methods[] = {
	{"hold_threads", hold_threads, METH_O,
	 "hold_threads(wanted): whether libproton may hold the threads of Python."},
	{"listen", listen_for_commands, METH_VARARGS,
	 "listen(name, context, data, backend, mode, flags, format, start, finalize): take "
	 "commands of proton ctl."},
	{"listen_timed", listen_timed, METH_VARARGS,
	 "listen_timed(after, length): start a session after seconds, end it so many later."},
	{"listen_range", listen_range, METH_O,
	 "listen_range(name): a session for the first entry of a scope."},
	{"listen_end", listen_end, METH_NOARGS, "listen_end(): take no more commands."},
	{"snapshot", take_snapshot, METH_VARARGS,
	 "snapshot(session, name, format): write what was recorded so far; its path."},
	{NULL, NULL, 0, NULL},
};
