/*
 * Module `triton_proton._libproton`: creation, state, name cache, and exceptions for status codes.
 *
 * libproton exists once per process, so only one interpreter may have the module.
 */
#include "ext.h"

/* Number of live module objects, all of one interpreter. Guarded by the import lock. */
static int loaded_count;
static int64_t loaded_interpreter;

/* ------------------------------------------------------------------ errors */

static PyObject *exception_of(struct ext_state *state, int status)
{
	switch (status) {
	case PROTON_E_INVALID:
	case PROTON_E_TYPE:
		return PyExc_ValueError;
	case PROTON_E_RANGE:
		return PyExc_IndexError;
	case PROTON_E_NOMEM:
		return PyExc_MemoryError;
	default:
		return state->error;
	}
}

PyObject *ext_raise(struct ext_state *state, int status, const struct proton_error *err)
{
	const char *text = err && err->text[0] ? err->text : proton_status_text(status);
	PyObject *type = exception_of(state, status);
	PyObject *message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
	if (!message)
		return NULL;
	PyObject *exception = PyObject_CallOneArg(type, message);
	Py_DECREF(message);
	if (!exception)
		return NULL;
	if (type == state->error) {
		PyObject *number = PyLong_FromLong(status);
		if (!number || PyObject_SetAttrString(exception, "status", number) < 0)
			PyErr_Clear();
		Py_XDECREF(number);
	}
	PyErr_SetObject(type, exception);
	Py_DECREF(exception);
	return NULL;
}

PyObject *ext_shown(PyObject *text)
{
	PyObject *printable = PyObject_CallMethod(text, "isprintable", NULL);
	bool is_printable = printable == Py_True;
	if (!printable)
		return NULL;
	Py_DECREF(printable);
	if (is_printable)
		return Py_NewRef(text);
	PyObject *quoted = PyObject_Repr(text);
	if (!quoted)
		return NULL;
	PyObject *shown = PyUnicode_Substring(quoted, 1, PyUnicode_GET_LENGTH(quoted) - 1);
	Py_DECREF(quoted);
	return shown;
}

PyObject *ext_raise_named(PyObject *exception, const char *format, PyObject *name)
{
	PyObject *shown = ext_shown(name);
	if (shown)
		PyErr_Format(exception, format, shown);
	Py_XDECREF(shown);
	return NULL;
}

/* ------------------------------------------------------------------ names */

const char *ext_utf8(PyObject *string, Py_ssize_t *length_out, PyObject **owner_out)
{
	const char *bytes = PyUnicode_AsUTF8AndSize(string, length_out);
	if (bytes) {
		*owner_out = Py_NewRef(string);
		return bytes;
	}
	if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
		return NULL;
	/* Lone surrogates, for example a file name that is not UTF-8. */
	PyErr_Clear();
	PyObject *encoded = PyUnicode_AsEncodedString(string, "utf-8", "backslashreplace");
	if (!encoded)
		return NULL;
	*length_out = PyBytes_GET_SIZE(encoded);
	*owner_out = encoded;
	return PyBytes_AS_STRING(encoded);
}

/* A cached name and its values for libproton. */
struct known_name {
	uint64_t known;
	uint32_t frame;
};

/* The slot of a name; it may contain another name. */
static struct ext_name_slot *slot_of(struct ext_state *state, PyObject *name)
{
	return &state->names[ext_slot_index(name, EXT_NAME_SLOTS)];
}

static struct known_name find_name(struct ext_name_slot *slot, PyObject *name)
{
	struct known_name found = {0};
	if (!ext_slot_take(&slot->is_taken))
		return found;
	if (slot->name == name)
		found = (struct known_name){slot->known, slot->frame};
	ext_slot_give(&slot->is_taken);
	return found;
}

/* Subclasses of str may be mutable and are rare: not cached. */
static void keep_name(struct ext_name_slot *slot, PyObject *name, struct known_name found)
{
	if (!PyUnicode_CheckExact(name) || !ext_slot_take(&slot->is_taken))
		return;
	PyObject *old = slot->name;
	slot->name = Py_NewRef(name);
	slot->known = found.known;
	slot->frame = found.frame;
	ext_slot_give(&slot->is_taken);
	Py_XDECREF(old);
}

bool ext_name_frame(struct ext_state *state, PyObject *name, uint32_t *frame_out)
{
	struct ext_name_slot *slot = slot_of(state, name);
	struct known_name found = find_name(slot, name);
	*frame_out = found.frame;
	if (found.frame)
		return true;
	PyObject *owner;
	Py_ssize_t length;
	const char *bytes = ext_utf8(name, &length, &owner);
	if (!bytes)
		return false;
	found.frame = *frame_out = proton_frame(bytes, (size_t)length);
	Py_DECREF(owner);
	keep_name(slot, name, found);
	return true;
}

static uint64_t enter_name(const char *name, size_t length, uint64_t *known, bool is_timed)
{
	return is_timed ? proton_scope_enter_timed_name(name, length, known)
			: proton_scope_enter_name(name, length, known);
}

bool ext_scope_enter(struct ext_state *state, PyObject *name, uint64_t *known, bool is_timed,
		     uint64_t *token_out)
{
	struct ext_name_slot *slot = slot_of(state, name);
	struct known_name found = find_name(slot, name);
	if (known && *known)
		found.known = *known;
	if (found.known) {
		*token_out = enter_name(NULL, 0, &found.known, is_timed);
		if (*token_out) {
			if (known)
				*known = found.known;
			return true;
		}
	}
	PyObject *owner;
	Py_ssize_t length;
	const char *bytes = ext_utf8(name, &length, &owner);
	if (!bytes)
		return false;
	found.known = 0;
	*token_out = enter_name(bytes, (size_t)length, &found.known, is_timed);
	if (known)
		*known = found.known;
	Py_DECREF(owner);
	keep_name(slot, name, found);
	return true;
}

PyObject *ext_package_attribute(const char *module, const char *name)
{
	PyObject *imported = PyImport_ImportModule(module);
	if (!imported)
		return NULL;
	PyObject *attribute = PyObject_GetAttrString(imported, name);
	Py_DECREF(imported);
	return attribute;
}

/* ------------------------------------------------------------------ the module */

static struct PyModuleDef module_def;

struct ext_state *ext_state_of_type(PyTypeObject *type)
{
	for (PyTypeObject *base = type; base; base = base->tp_base) {
		if (!PyType_HasFeature(base, Py_TPFLAGS_HEAPTYPE))
			continue;
		PyObject *module = ((PyHeapTypeObject *)base)->ht_module;
		if (module && PyModule_Check(module) && PyModule_GetDef(module) == &module_def)
			return ext_state_of(module);
	}
	return NULL;
}

static PyObject *module_version(PyObject *module, PyObject *unused)
{
	(void)module;
	(void)unused;
	return PyUnicode_FromString(proton_version());
}

static PyMethodDef module_methods[] = {
	{"version", module_version, METH_NOARGS, "The version of libproton, 'major.minor.patch'."},
	{NULL, NULL, 0, NULL},
};

/* One interpreter of the process may have the module; it may import it repeatedly. */
static int claim_process(struct ext_state *state)
{
	int64_t interpreter = PyInterpreterState_GetID(PyInterpreterState_Get());
	if (loaded_count > 0 && interpreter != loaded_interpreter) {
		PyErr_SetString(
			PyExc_ImportError,
			"triton_proton is already in use by another interpreter of this process; "
			"sub-interpreters are not supported");
		return -1;
	}
	loaded_count++;
	state->has_process = true;
	loaded_interpreter = interpreter;
	return 0;
}

static int module_exec(PyObject *module)
{
	struct ext_state *state = ext_state_of(module);
	if (claim_process(state) < 0)
		return -1;
	proton_use();
	state->error = PyErr_NewExceptionWithDoc(
		"triton_proton.ProtonError",
		"Profiling failed for the reason in the text; `status` is libproton's number.",
		PyExc_RuntimeError, NULL);
	if (!state->error || PyModule_AddObjectRef(module, "ProtonError", state->error) < 0)
		return -1;
	if (PyModule_AddStringConstant(module, "__version__", PROTON_VERSION) < 0)
		return -1;
	if (ext_scope_init(module, state) < 0 || ext_stack_init(module, state) < 0 ||
	    ext_session_init(module, state) < 0 || ext_metric_init(module, state) < 0 ||
	    ext_launch_init(module, state) < 0)
		return -1;
	if (ext_device_init(module) < 0 || ext_instrument_init(module) < 0 ||
	    ext_instrument_launch_init(module) < 0 || ext_peaks_init(module) < 0)
		return -1;
	if (ext_tasks_init() < 0)
		return -1;
	return ext_context_init(module, state);
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
	struct ext_state *state = ext_state_of(module);
	Py_VISIT(state->error);
	Py_VISIT(state->scope);
	Py_VISIT(state->timed);
	Py_VISIT(state->threads);
	Py_VISIT(state->tensor);
	return ext_launch_traverse(state, visit, arg);
}

static int module_clear(PyObject *module)
{
	struct ext_state *state = ext_state_of(module);
	Py_CLEAR(state->error);
	Py_CLEAR(state->scope);
	Py_CLEAR(state->timed);
	Py_CLEAR(state->threads);
	Py_CLEAR(state->tensor);
	Py_CLEAR(state->threads_key);
	for (size_t i = 0; i < EXT_NAME_SLOTS; i++)
		Py_CLEAR(state->names[i].name);
	for (size_t i = 0; i < EXT_METRIC_SLOTS; i++)
		Py_CLEAR(state->metric_names[i].name);
	ext_launch_clear(state);
	return 0;
}

static void module_free(void *module)
{
	struct ext_state *state = ext_state_of((PyObject *)module);
	if (!state)
		return;
	if (state->has_process && --loaded_count == 0)
		ext_context_fini();
	ext_tasks_fini();
	module_clear((PyObject *)module);
}

static PyModuleDef_Slot module_slots[] = {
	{Py_mod_exec, (void *)module_exec},
#ifdef Py_mod_multiple_interpreters
	{Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#ifdef Py_mod_gil
	{Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
	{0, NULL},
};

static struct PyModuleDef module_def = {
	PyModuleDef_HEAD_INIT,
	.m_name = "_libproton",
	.m_doc = "libproton for Python. Internal to the package triton_proton.",
	.m_size = sizeof(struct ext_state),
	.m_methods = module_methods,
	.m_slots = module_slots,
	.m_traverse = module_traverse,
	.m_clear = module_clear,
	.m_free = module_free,
};

PyMODINIT_FUNC PyInit__libproton(void);
PyMODINIT_FUNC PyInit__libproton(void)
{
	return PyModuleDef_Init(&module_def);
}
