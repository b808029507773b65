/* Python exceptions for the status codes of libproton, and names in their messages. */
#include "ext.h"

PyObject *ext_raise(struct ext_state *state, int status, const struct proton_error *err)
{
	const char *text = err && err->text[0] ? err->text : proton_status_text(status);
	PyObject *type = status == PROTON_E_INVALID || status == PROTON_E_TYPE ? PyExc_ValueError
			 : status == PROTON_E_RANGE                            ? PyExc_IndexError
			 : status == PROTON_E_NOMEM                            ? PyExc_MemoryError
									       : state->error;
	AUTO_DECREF PyObject *message =
		PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
	AUTO_DECREF PyObject *exception = message ? PyObject_CallOneArg(type, message) : NULL;
	if (!exception)
		return NULL;
	if (type == state->error) {
		AUTO_DECREF PyObject *number = PyLong_FromLong(status);
		if (!number || PyObject_SetAttrString(exception, "status", number) < 0)
			PyErr_Clear();
	}
	PyErr_SetObject(type, exception);
	return NULL;
}

PyObject *ext_value_or_raise(PyObject *module, int status, const struct proton_error *err,
			     PyObject *value)
{
	if (status == PROTON_OK)
		return value;
	Py_XDECREF(value);
	return ext_raise(ext_state_of(module), status, err);
}

PyObject *ext_raise_type(const char *what, const char *kind, PyObject *object)
{
	return PyErr_Format(PyExc_TypeError, "%s must be %s, not %.100s", what, kind,
			    Py_TYPE(object)->tp_name);
}

bool ext_are_metrics(PyObject *metrics)
{
	if (!metrics || metrics == Py_None || PyDict_Check(metrics))
		return true;
	ext_raise_type("metrics", "a dict of name to value", metrics);
	return false;
}

void ext_append(PyObject **list, PyObject *item)
{
	if (!item || PyList_Append(*list, item) < 0)
		Py_CLEAR(*list);
	Py_XDECREF(item);
}

PyObject *ext_shown(PyObject *text)
{
	return ext_call("triton_proton._message", "shown", text, NULL);
}

PyObject *ext_raise_named(PyObject *exception, const char *format, PyObject *name)
{
	AUTO_DECREF PyObject *shown = ext_shown(name);
	if (shown)
		PyErr_Format(exception, format, shown);
	return NULL;
}
