/*
 * PyTorch in sessions with context "shadow": scopes by autograd, modules of compiled code, and
 * operators as frames. A global callback of at::RecordFunction keeps a stack of the operators that
 * run on each thread, and a launch is attributed below them.
 *
 * The callback is registered through exported symbols. It returns a std::unique_ptr, which is
 * returned in memory: as in C a function with the address of the result as its first argument, but
 * only on x86-64.
 */
#include "torch/torch_parts.h"

#define DEPTH_MAX 32u
#define NAMES 256u /* a power of two */
#define NAME_BYTES 120u
#define SCOPES 10u /* kinds of at::RecordFunction; the first is that of operators */

/* at::RecordFunctionCallback. */
struct callback {
	void **(*start)(void **result, const void *function);
	void (*end)(const void *function, void *context);
	double sampling_probability;
	bool scopes[SCOPES];
	bool needs_inputs, needs_outputs, needs_ids;
};

struct running {
	const void *function; /* the address of the at::RecordFunction */
	uint32_t frame;
	uint32_t parent, context; /* of the last launch */
};

/* Names at the same address are compared, because some are temporary. */
struct known_name {
	const char *address;
	uint32_t frame;
	char text[NAME_BYTES];
};

static struct {
	uint64_t (*add)(struct callback callback);
	void (*remove)(uint64_t handle);
	const char *(*name)(const void *function);
	uint64_t handle; /* 0: the callback is not registered */
} torch;

static _Atomic bool is_on;
static _Atomic bool wants_scopes;
static _Atomic bool wants_modules;
static uint32_t (*modules_below)(uint32_t context);
static _Thread_local struct {
	uint32_t depth; /* may exceed DEPTH_MAX: further operators are only counted */
	struct running running[DEPTH_MAX];
	struct known_name names[NAMES];
} thread;

static uint32_t frame_of(const char *name)
{
	struct known_name *known = &thread.names[((uintptr_t)name >> 4) % NAMES];
	if (known->address == name && strcmp(known->text, name) == 0)
		return known->frame;
	static const char engine[] = "autograd::engine::evaluate_function: ";
	size_t length = strlen(name);
	bool is_node = strncmp(name, engine, sizeof(engine) - 1) == 0;
	const char *shown = is_node ? name + sizeof(engine) - 1 : name;
	uint32_t frame = proton_frame(shown, strlen(shown));
	if (length < NAME_BYTES) {
		known->address = name;
		known->frame = frame;
		memcpy(known->text, name, length + 1);
	}
	return frame;
}

static void **on_start(void **result, const void *function)
{
	*result = NULL; /* no context for the end */
	if (proton_is_profiling() && thread.depth < DEPTH_MAX)
		thread.running[thread.depth++] =
			(struct running){function, frame_of(torch.name(function)), UINT32_MAX, 0};
	return result;
}

/* An operator may end on another thread, and those in it are over then. */
static void on_end(const void *function, void *context)
{
	for (uint32_t i = thread.depth; i-- > 0;) {
		if (thread.running[i].function != function)
			continue;
		thread.depth = i;
		return;
	}
}

uint32_t torch_ops_below(uint32_t context)
{
	if (!atomic_load_explicit(&is_on, memory_order_relaxed))
		return context;
	for (uint32_t i = 0; i < thread.depth; i++) {
		struct running *running = &thread.running[i];
		if (running->parent != context) {
			running->context = proton_context_child(context, running->frame);
			running->parent = context;
		}
		context = running->context;
	}
	return context;
}

static bool find_symbols(void)
{
#ifdef __x86_64__
	static const struct torch_symbol symbols[] = {
		{"_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE", &torch.add},
		{"_ZN2at14removeCallbackEm", &torch.remove},
		{"_ZNK2at14RecordFunction4nameEv", &torch.name},
	};
	return torch_library_find(symbols, sizeof(symbols) / sizeof(*symbols));
#else
	return false;
#endif
}

/* Begins or ends following operators. False: this version of PyTorch is not supported. */
static bool follow_ops(bool is_wanted)
{
	if (is_wanted && !torch.handle) {
		struct callback callback = {on_start, on_end, 1.0, {true}, false, false, false};
		if (!find_symbols())
			return false;
		torch.handle = torch.add(callback);
	} else if (!is_wanted && torch.handle) {
		torch.remove(torch.handle);
		torch.handle = 0;
	}
	atomic_store_explicit(&is_on, is_wanted, memory_order_relaxed);
	return true;
}

/* ------------------------------------------------------------------ the provider */

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
	bool is_wanted = wants_scopes || wants_modules || is_on;
	proton_scope_provider_set(is_wanted ? provide_scope : NULL);
}

static PyObject *follow_scopes(PyObject *module, PyObject *wanted)
{
	bool is_wanted = wanted == Py_True;
	wants_scopes = is_wanted && autograd_is_followed();
	set_provider();
	Py_RETURN_NONE;
}

static PyObject *follow_modules(PyObject *module, PyObject *wanted)
{
	bool is_wanted = wanted == Py_True;
	wants_modules = is_wanted;
	set_provider();
	Py_RETURN_NONE;
}

static PyObject *follow_operators(PyObject *module, PyObject *wanted)
{
	bool is_wanted = wanted == Py_True;
	bool is_done = follow_ops(is_wanted);
	set_provider();
	return PyBool_FromLong(is_done);
}

PyMethodDef ext_torch_methods[] = {
	{"follow_scopes", follow_scopes, METH_O,
	 "follow_scopes(wanted): whether backward launches are also attributed to scopes."},
	{"follow_modules", follow_modules, METH_O,
	 "follow_modules(wanted): whether launches of compiled code are attributed to modules."},
	{"follow_operators", follow_operators, METH_O,
	 "follow_operators(wanted)\n--\n\n"
	 "Whether launches are attributed below the operators of PyTorch. False: this version of\n"
	 "PyTorch, or this processor, is not supported."},
	{NULL, NULL, 0, NULL},
};

void ext_torch_fini(void)
{
	proton_scope_provider_set(NULL);
	follow_ops(false);
}
