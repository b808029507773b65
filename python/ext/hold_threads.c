/*
 * Holding the program's threads for libproton: the thread with the GIL keeps the threads of Python
 * from beginning a call of the driver. Most launchers release the GIL inside the call and need it
 * to return, so a thread stops after its call. Free-threaded builds have no such lock.
 */
#include "ext.h"

#ifndef Py_GIL_DISABLED

static PyGILState_STATE held; /* of the thread that holds; libproton lets one hold at a time */

static bool begin(void)
{
	if (ext_is_finalizing() || !Py_IsInitialized())
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

/* A thread that takes the GIL after the interpreter's end never returns. */
EXT_PROCEDURE(forget_holder, EXT_UNLOCKED(proton_holder_set(NULL)))

static int set_holder(PyObject *module)
{
	static PyMethodDef method = {"forget_holder", forget_holder, METH_NOARGS, NULL};
	PyObject *exits = PyImport_ImportModule("atexit");
	PyObject *function = exits ? PyCFunction_New(&method, NULL) : NULL;
	PyObject *result = function ? PyObject_CallMethod(exits, "register", "O", function) : NULL;
	int status = result ? 0 : -1;

	Py_XDECREF(result);
	Py_XDECREF(function);
	Py_XDECREF(exits);
	if (status == 0)
		proton_holder_set(&holder);
	return status;
}

#else

static int set_holder(PyObject *module)
{
	return 0;
}

#endif

static PyObject *leave_vendor(PyObject *module, PyObject *unused)
{
	bool is_free;

	EXT_UNLOCKED(is_free = proton_leave_vendor());
	return PyBool_FromLong(is_free);
}

EXT_PROCEDURE(note_step, proton_note_step())

static PyMethodDef methods[] = {
	{"note_step", note_step, METH_NOARGS,
	 "note_step()\n--\n\n"
	 "A step of the program begins, as in proton_note_step()."},
	{"leave_vendor", leave_vendor, METH_NOARGS,
	 "leave_vendor()\n--\n\n"
	 "Leave the GPU vendor's profiling library: another tool can use it then. False if a "
	 "session uses it, or it cannot be left now."},
	{NULL, NULL, 0, NULL},
};

int ext_hold_init(PyObject *module)
{
	if (set_holder(module) < 0)
		return -1;
	return PyModule_AddFunctions(module, methods);
}
