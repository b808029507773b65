/*
 * What bench/python_context.py compares with: the Python call path found the plain way.
 *
 * strings()  walks the stack and formats "file:line@function" for every frame, at every call.
 * frames()   walks the stack with the same calls of the C API and does nothing else: the floor for
 *            anything that walks.
 *
 * Compiled by the benchmark itself; no part of the package.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <frameobject.h>
#include <stdio.h>
#include <stdlib.h>

#define DEPTH_MAX 4096

static PyFrameObject *top_frame(void)
{
	return (PyFrameObject *)Py_XNewRef((PyObject *)PyEval_GetFrame());
}

static PyFrameObject *step_back(PyFrameObject *frame)
{
	PyFrameObject *back = PyFrame_GetBack(frame);
	Py_DECREF(frame);
	return back;
}

static char *frame_text(PyFrameObject *frame)
{
	PyCodeObject *code = PyFrame_GetCode(frame);
	const char *file = PyUnicode_AsUTF8(code->co_filename);
	const char *name = PyUnicode_AsUTF8(code->co_name);
	char *text = NULL;
	if (asprintf(&text, "%s:%d@%s", file, PyFrame_GetLineNumber(frame), name) < 0)
		text = NULL;
	Py_DECREF(code);
	return text;
}

static PyObject *strings(PyObject *module, PyObject *unused)
{
	char *path[DEPTH_MAX];
	size_t depth = 0;
	(void)module;
	(void)unused;
	PyGILState_STATE gil = PyGILState_Ensure();
	for (PyFrameObject *frame = top_frame(); frame; frame = step_back(frame))
		if (depth < DEPTH_MAX)
			path[depth++] = frame_text(frame);
	for (size_t i = 0; i < depth; i++)
		free(path[i]);
	PyGILState_Release(gil);
	return PyLong_FromSize_t(depth);
}

static PyObject *frames(PyObject *module, PyObject *unused)
{
	size_t depth = 0;
	(void)module;
	(void)unused;
	for (PyFrameObject *frame = top_frame(); frame; frame = step_back(frame)) {
		PyCodeObject *code = PyFrame_GetCode(frame);
		depth++;
		Py_DECREF(code);
	}
	return PyLong_FromSize_t(depth);
}

static PyMethodDef methods[] = {
	{"strings", strings, METH_NOARGS, NULL},
	{"frames", frames, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "plain_walk",
	.m_size = 0,
	.m_methods = methods,
};

PyMODINIT_FUNC PyInit_plain_walk(void);
PyMODINIT_FUNC PyInit_plain_walk(void)
{
	return PyModule_Create(&definition);
}
