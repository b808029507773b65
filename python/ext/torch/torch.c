/* PyTorch in sessions with context "shadow": scopes by autograd, and operators. */
#include "torch/torch.h"

#include "torch/torch_parts.h"

static _Atomic bool wants_scopes;
static _Atomic bool wants_modules;
static uint32_t (*modules_below)(uint32_t context);

void torch_modules_set(uint32_t (*below)(uint32_t context))
{
	modules_below = below;
}

static uint32_t provide_scope(uint32_t context, uint64_t entered_in, uint64_t *work_out)
{
	if (atomic_load_explicit(&wants_scopes, memory_order_relaxed))
		context = autograd_find_scope(context, entered_in, work_out);
	else if (work_out)
		*work_out = 0;
	if (work_out)
		return context;
	if (atomic_load_explicit(&wants_modules, memory_order_relaxed))
		context = modules_below(context);
	return torch_ops_below(context);
}

static void set_provider(void)
{
	bool is_wanted = wants_scopes || wants_modules || torch_ops_are_on();
	proton_scope_provider_set(is_wanted ? provide_scope : NULL);
}

static PyObject *follow_scopes(PyObject *module, PyObject *wanted)
{
	int is_wanted = PyObject_IsTrue(wanted);
	if (is_wanted < 0)
		return NULL;
	wants_scopes = is_wanted && autograd_is_followed();
	set_provider();
	Py_RETURN_NONE;
}

static PyObject *follow_modules(PyObject *module, PyObject *wanted)
{
	int is_wanted = PyObject_IsTrue(wanted);
	if (is_wanted < 0)
		return NULL;
	wants_modules = is_wanted;
	set_provider();
	Py_RETURN_NONE;
}

PyDoc_STRVAR(
	follow_operators_doc,
	"follow_operators(wanted)\n--\n\n"
	"Whether launches are attributed below the operators of PyTorch. False: this version of\n"
	"PyTorch, or this processor, is not supported.");

static PyObject *follow_operators(PyObject *module, PyObject *wanted)
{
	int is_wanted = PyObject_IsTrue(wanted);
	if (is_wanted < 0)
		return NULL;
	bool is_done = torch_ops_follow(is_wanted);
	set_provider();
	return PyBool_FromLong(is_done);
}

static PyMethodDef torch_methods[] = {
	{"follow_scopes", follow_scopes, METH_O,
	 "follow_scopes(wanted): whether backward launches are also attributed to scopes."},
	{"follow_modules", follow_modules, METH_O,
	 "follow_modules(wanted): whether launches of compiled code are attributed to modules."},
	{"follow_operators", follow_operators, METH_O, follow_operators_doc},
	{NULL, NULL, 0, NULL},
};

int ext_torch_init(PyObject *module)
{
	return autograd_init(module) < 0 ? -1 : PyModule_AddFunctions(module, torch_methods);
}

void ext_torch_fini(void)
{
	proton_scope_provider_set(NULL);
	torch_ops_follow(false);
}
