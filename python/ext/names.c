/* Names: the cache from Python strings to scopes, frames and metrics; the module's state. */
#include "ext.h"

const char ext_module_name[] = "_libproton";

struct ext_state *ext_state_of_type(PyTypeObject *type)
{
	for (PyTypeObject *base = type; base; base = base->tp_base) {
		if (!PyType_HasFeature(base, Py_TPFLAGS_HEAPTYPE))
			continue;
		PyObject *module = ((PyHeapTypeObject *)base)->ht_module;
		struct PyModuleDef *def = module && PyModule_Check(module) ? PyModule_GetDef(module)
									   : NULL;
		if (def && def->m_name == ext_module_name)
			return ext_state_of(module);
	}
	return NULL;
}

PyObject *ext_call(const char *module, const char *function, PyObject *first, PyObject *second)
{
	AUTO_DECREF PyObject *imported = PyImport_ImportModule(module);
	AUTO_DECREF PyObject *callable = imported ? PyObject_GetAttrString(imported, function)
						  : NULL;
	return callable ? PyObject_CallFunctionObjArgs(callable, first, second, NULL) : NULL;
}

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

struct ext_known_name ext_name_find(struct ext_state *state, PyObject *name)
{
	struct ext_name_slot *slot = &state->names[ext_slot_index(name, EXT_NAME_SLOTS)];
	struct ext_known_name known = {0};
	if (!ext_slot_take(&slot->is_taken))
		return known;
	if (slot->name == name)
		known = slot->known;
	ext_slot_give(&slot->is_taken);
	return known;
}

/* Subclasses of str may be mutable and are rare: not cached. */
void ext_name_keep(struct ext_state *state, PyObject *name, struct ext_known_name known)
{
	struct ext_name_slot *slot = &state->names[ext_slot_index(name, EXT_NAME_SLOTS)];
	if (!PyUnicode_CheckExact(name) || !ext_slot_take(&slot->is_taken))
		return;
	AUTO_DECREF PyObject *old = slot->name;
	slot->name = Py_NewRef(name);
	slot->known = known;
	ext_slot_give(&slot->is_taken);
}

bool ext_name_frame(struct ext_state *state, PyObject *name, uint32_t *frame_out)
{
	struct ext_known_name found = ext_name_find(state, name);
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
	ext_name_keep(state, name, found);
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
	struct ext_known_name found = ext_name_find(state, name);
	if (known && *known)
		found.scope = *known;
	if (found.scope) {
		*token_out = enter_name(NULL, 0, &found.scope, is_timed);
		if (*token_out) {
			if (known)
				*known = found.scope;
			return true;
		}
	}
	PyObject *owner;
	Py_ssize_t length;
	const char *bytes = ext_utf8(name, &length, &owner);
	if (!bytes)
		return false;
	found.scope = 0;
	*token_out = enter_name(bytes, (size_t)length, &found.scope, is_timed);
	if (known)
		*known = found.scope;
	Py_DECREF(owner);
	ext_name_keep(state, name, found);
	return true;
}
