/*
 * Definition and state of module `triton_proton._libproton`. The other files define what is in it.
 *
 * libproton exists once per process, so only one interpreter may have the module.
 */
#include "base/array.h"
#include "ext.h"
#include "torch/torch.h"

/* Number of live module objects, all of one interpreter. Guarded by the import lock. */
static int loaded_count;
static int64_t loaded_interpreter;

static PyObject *module_version(PyObject *module, PyObject *unused)
{
	return PyUnicode_FromString(proton_version());
}

static PyMethodDef module_methods[] = {
	{"version", module_version, METH_NOARGS, "The version of libproton, 'major.minor.patch'."},
	{NULL, NULL, 0, NULL},
};

static PyMethodDef *const methods_of_parts[] = {
	ext_autograd_methods,   ext_torch_methods,     ext_context_methods,
	ext_control_methods,    ext_generated_methods, ext_instrument_launch_methods,
	ext_instrument_methods, ext_launch_methods,    ext_session_methods,
	ext_stack_methods,      ext_work_methods,
};

static const struct {
	const char *name;
	long value;
} numbers[] = {
	{"KEEP_WORKING_FILE", PROTON_SESSION_KEEP_WORKING_FILE},
	{"QUIET", PROTON_SESSION_QUIET},
	{"MEMORY", PROTON_SESSION_MEMORY},
	{"RANKS", PROTON_SESSION_RANKS},
	{"device_metric_max_bytes", PROTON_DEVICE_METRIC_MAX_BYTES},
};

static const struct {
	const char *name, *value;
} texts[] = {
	{"__version__", PROTON_VERSION},
	{"metadata_scope_name", "__proton_launch_metadata"},
	{"metadata_scope_prefix", "__proton_launch_metadata:"},
};

static int add_parts(PyObject *module)
{
	for (size_t i = 0; i < ARRAY_LENGTH(methods_of_parts); i++)
		if (PyModule_AddFunctions(module, methods_of_parts[i]) < 0)
			return -1;
	for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++)
		if (PyModule_AddIntConstant(module, numbers[i].name, numbers[i].value) < 0)
			return -1;
	for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
		if (PyModule_AddStringConstant(module, texts[i].name, texts[i].value) < 0)
			return -1;
	return 0;
}

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
	if (add_parts(module) < 0 || ext_scope_init(module, state) < 0 ||
	    ext_stack_init(module, state) < 0 || ext_launch_init(state) < 0 ||
	    ext_work_init(module) < 0 || ext_tasks_init() < 0)
		return -1;
	return ext_context_init();
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
	struct ext_state *state = ext_state_of(module);
	Py_VISIT(state->error);
	Py_VISIT(state->scope);
	Py_VISIT(state->timed);
	Py_VISIT(state->threads);
	return ext_launch_traverse(state, visit, arg);
}

static int module_clear(PyObject *module)
{
	struct ext_state *state = ext_state_of(module);
	Py_CLEAR(state->error);
	Py_CLEAR(state->scope);
	Py_CLEAR(state->timed);
	Py_CLEAR(state->threads);
	Py_CLEAR(state->threads_key);
	for (size_t i = 0; i < EXT_NAME_SLOTS; i++)
		Py_CLEAR(state->names[i].name);
	ext_launch_clear(state);
	return 0;
}

static void module_free(void *module)
{
	struct ext_state *state = ext_state_of((PyObject *)module);
	if (!state)
		return;
	if (state->has_process && --loaded_count == 0) {
		ext_context_fini();
		ext_torch_fini();
	}
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
	.m_name = ext_module_name,
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
