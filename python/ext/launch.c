/*
 * Launch hooks of Triton: the active hooks, and the hook "triton", which names the kernel and gives
 * it metrics from its launch metadata.
 *
 * A launch costs little more than the user's metadata function. The fields of Triton's lazy
 * metadata are read directly, without its get() and the dicts that it creates; names become numbers
 * by the address of the string; no Python function except the user's is called. Metadata that
 * differs from Triton's LazyDict is read with get(), and metrics that need Python go to
 * triton_proton.metric.
 *
 * A failing metadata function must not stop the program: triton_proton.hooks.launch prints a
 * warning once, and the launch continues.
 */
#include "ext.h"

/* State of the calling thread; named launches and states of libproton are per thread too. */
static _Thread_local struct {
	bool is_in_op;      /* entered by `enter` */
	bool is_in_hook;    /* kernels launched by a metadata function have no metadata */
	uint64_t first_id;  /* launch ids of this thread start after it; 0: no id yet */
	uint64_t launch_id; /* of the last launch that the hook "triton" entered; 0: none */
} thread;

/* Each thread numbers its launches in its own range, so launches share no counter. */
static void number_launch(void)
{
	static _Atomic uint32_t thread_count;
	if (!thread.first_id)
		thread.launch_id = thread.first_id =
			(uint64_t)(atomic_fetch_add_explicit(&thread_count, 1,
							     memory_order_relaxed) +
				   1)
			<< 40;
	thread.launch_id++;
}

/* Objects that a program may replace while other threads launch: a new reference, or NULL. */
static PyObject *shared_get(struct ext_launch *launch, enum ext_shared which)
{
	ext_lock(&launch->lock);
	PyObject *object = Py_XNewRef(launch->shared[which]);
	ext_unlock(&launch->lock);
	return object;
}

/* Steals a reference to `object`, which may be NULL. */
static void shared_set(struct ext_launch *launch, enum ext_shared which, PyObject *object)
{
	ext_lock(&launch->lock);
	AUTO_DECREF PyObject *old = launch->shared[which];
	launch->shared[which] = object;
	ext_unlock(&launch->lock);
}

static void leave_op(void)
{
	if (thread.is_in_op)
		proton_op_exit();
	thread.is_in_op = false;
}

/* ------------------------------------------------------------------ the metadata state */

static void begin_hook(struct ext_launch *launch, uint32_t kernel_frame)
{
	static const char name[] = "__proton_launch_metadata";
	uint32_t frame = atomic_load_explicit(&launch->state_frame, memory_order_relaxed);
	if (!frame) {
		frame = proton_frame(name, sizeof(name) - 1);
		atomic_store_explicit(&launch->state_frame, frame, memory_order_relaxed);
	}
	thread.is_in_hook = true;
	bool has_one_level = atomic_load_explicit(&launch->has_one_level, memory_order_relaxed);
	proton_state_enter_frames(frame, has_one_level ? UINT32_MAX : kernel_frame);
}

static void end_hook(void)
{
	proton_state_exit();
	thread.is_in_hook = false;
}

/* Prints the error, once per text. 0; -1 if the exception ends programs, and stays set. */
static int warn_of_failure(PyObject *kernel_name)
{
	if (!PyErr_ExceptionMatches(PyExc_Exception))
		return -1;
	PyObject *type, *value, *traceback;
	PyErr_Fetch(&type, &value, &traceback);
	PyErr_NormalizeException(&type, &value, &traceback);
	PyObject *result =
		ext_call("triton_proton.hooks.launch", "_warn_of_failure", kernel_name, value);
	if (!result)
		PyErr_Clear();
	Py_XDECREF(result);
	Py_XDECREF(type);
	Py_XDECREF(value);
	Py_XDECREF(traceback);
	return 0;
}

/* ------------------------------------------------------------------ evaluating */

/* True for Triton's LazyDict: name, function, stream in `data`; (function, args) in `extras`. */
static bool is_lazy_dict(struct ext_launch *launch, PyObject *metadata)
{
	PyTypeObject *type = Py_TYPE(metadata);
	ext_lock(&launch->lock);
	bool is_known = (PyObject *)type == launch->shared[EXT_LAZY_TYPE];
	ext_unlock(&launch->lock);
	if (is_known)
		return true;
	if (strcmp(type->tp_name, "LazyDict") != 0)
		return false;
	AUTO_DECREF PyObject *module = PyObject_GetAttrString((PyObject *)type, "__module__");
	bool is_tritons = module && PyUnicode_Check(module) &&
			  PyUnicode_CompareWithASCIIString(module, "triton.compiler.compiler") == 0;
	if (!module)
		PyErr_Clear();
	if (is_tritons)
		shared_set(launch, EXT_LAZY_TYPE, Py_NewRef((PyObject *)type));
	return is_tritons;
}

/* metadata.data = *data | more, in place if nothing else references it. */
static int merge(struct ext_launch *launch, PyObject *metadata, PyObject **data, PyObject *more)
{
	/* Two references: the metadata's and that of launch_enter(), which `data` points to. */
	if (Py_REFCNT(*data) <= 2 && PyDict_Check(more))
		return PyDict_Update(*data, more);
	PyObject *merged = PyNumber_Or(*data, more);
	if (!merged)
		return -1;
	Py_SETREF(*data, merged);
	return PyObject_SetAttr(metadata, launch->names[EXT_DATA], merged);
}

/* The work of LazyDict.get(); the metadata's dict is then in *data. 0, or -1 with an exception. */
static int evaluate_extras(struct ext_launch *launch, PyObject *metadata, PyObject **data,
			   PyObject *extras)
{
	for (Py_ssize_t i = 0; i < PyList_GET_SIZE(extras); i++) {
		PyObject *function, *args;
		AUTO_DECREF PyObject *extra = Py_NewRef(PyList_GET_ITEM(extras, i));
		AUTO_DECREF PyObject *more = NULL;
		if (PyArg_ParseTuple(extra, "OO!", &function, &PyTuple_Type, &args))
			more = PyObject_Call(function, args, NULL);
		if (!more || merge(launch, metadata, data, more) < 0)
			return -1;
	}
	return PyList_SetSlice(extras, 0, PyList_GET_SIZE(extras), NULL);
}

/* The complete metadata, a new reference, or NULL; *data is the caller's reference to its dict. */
static PyObject *evaluate(struct ext_launch *launch, PyObject *metadata, PyObject **data,
			  uint32_t kernel_frame)
{
	PyObject *extras = NULL, *result = NULL;
	if (is_lazy_dict(launch, metadata) && PyDict_CheckExact(*data)) {
		extras = PyObject_GetAttr(metadata, launch->names[EXT_EXTRAS]);
		if (!extras)
			PyErr_Clear();
	}
	bool is_known = extras && PyList_CheckExact(extras);
	if (is_known && PyList_GET_SIZE(extras) == 0) {
		Py_DECREF(extras);
		return Py_NewRef(*data); /* a kernel without a metadata function */
	}
	begin_hook(launch, kernel_frame);
	if (!is_known)
		result = PyObject_CallMethodNoArgs(metadata, launch->names[EXT_GET]);
	else if (evaluate_extras(launch, metadata, data, extras) == 0)
		result = Py_NewRef(*data);
	end_hook();
	Py_XDECREF(extras);
	if (result && !PyDict_Check(result)) {
		PyErr_Format(PyExc_TypeError, "the launch metadata is a %.100s, not a dict",
			     Py_TYPE(result)->tp_name);
		Py_CLEAR(result);
	}
	return result;
}

/* ------------------------------------------------------------------ the filter */

/* 1: the pattern matches at the beginning of `name`; 0: no match; -1 with an exception. */
static int matches(struct ext_launch *launch, enum ext_shared which, int if_none, PyObject *name)
{
	AUTO_DECREF PyObject *pattern = shared_get(launch, which);
	if (!pattern)
		return if_none;
	AUTO_DECREF PyObject *match =
		PyObject_CallMethodOneArg(pattern, launch->names[EXT_MATCH], name);
	return match ? match != Py_None : -1;
}

/* 1: metadata of a kernel with this name is wanted; 0: not wanted; -1 with an exception. */
static int is_wanted(struct ext_launch *launch, PyObject *name)
{
	int result = matches(launch, EXT_INCLUDE, 1, name);
	if (result != 1)
		return result;
	result = matches(launch, EXT_EXCLUDE, 0, name);
	return result < 0 ? result : !result;
}

/* ------------------------------------------------------------------ one launch */

/* Adds metrics that need Python, outside of the named launch: they may launch kernels. */
static int add_objects(struct ext_state *state, uint32_t frame, struct proton_context where,
		       PyObject *launched, uint32_t kernel_frame)
{
	struct proton_context again;
	int result = -1;
	proton_op_exit();
	begin_hook(&state->launch, kernel_frame);
	AUTO_DECREF PyObject *metrics =
		ext_call("triton_proton.metric", "launch_metrics", launched, NULL);
	if (metrics)
		result = ext_metrics_add(state, where, metrics);
	end_hook();
	proton_op_enter(frame, &again);
	return result;
}

/* The frame of the name in `launched`, if that differs. 1; 0: not wanted; -1: exception. */
static int find_frame(struct ext_state *state, PyObject *raw_name, PyObject *launched,
		      uint32_t *frame)
{
	AUTO_DECREF PyObject *name = NULL;
	if (ext_dict_get(launched, state->launch.names[EXT_NAME], &name) < 0)
		return -1;
	if (!name || name == raw_name || !PyUnicode_Check(name))
		return 1;
	int result = is_wanted(&state->launch, name);
	return result == 1 && !ext_name_frame(state, name, frame) ? -1 : result;
}

/* Enters the named launch that `launched` describes. 0, or -1 with an exception. */
static int enter_op(struct ext_state *state, PyObject *raw_name, PyObject *launched,
		    uint32_t kernel_frame)
{
	struct proton_context where;
	uint32_t frame = kernel_frame;
	bool is_plain;
	int wanted = find_frame(state, raw_name, launched, &frame);
	if (wanted != 1)
		return wanted;
	number_launch();
	proton_op_enter(frame, &where);
	thread.is_in_op = true;
	if (ext_metrics_add_launch(state, where, launched, &is_plain) < 0)
		return -1;
	return is_plain ? 0 : add_objects(state, frame, where, launched, kernel_frame);
}

static int enter_named(struct ext_state *state, PyObject *metadata, PyObject **data,
		       PyObject *raw_name)
{
	uint32_t kernel_frame;
	if (!ext_name_frame(state, raw_name, &kernel_frame))
		return -1;
	int wanted = is_wanted(&state->launch, raw_name);
	if (wanted != 1)
		return wanted; /* the user's metadata function is not called */
	AUTO_DECREF PyObject *launched = evaluate(&state->launch, metadata, data, kernel_frame);
	if (!launched)
		return -1;
	return enter_op(state, raw_name, launched, kernel_frame);
}

/* The compiled kernel's name, without computing the rest; a new reference. */
static PyObject *raw_name_of(struct ext_launch *launch, PyObject *data)
{
	PyObject *name = NULL;
	if (PyDict_Check(data) && ext_dict_get(data, launch->names[EXT_NAME], &name) < 0)
		PyErr_Clear();
	if (name && PyUnicode_Check(name))
		return name;
	Py_XDECREF(name);
	return Py_NewRef(launch->names[EXT_EMPTY]);
}

static PyObject *launch_enter(PyObject *module, PyObject *metadata)
{
	struct ext_state *state = ext_state_of(module);
	if (thread.is_in_hook)
		Py_RETURN_NONE;
	leave_op(); /* of a launch that failed between enter and exit */
	AUTO_DECREF PyObject *data = PyObject_GetAttr(metadata, state->launch.names[EXT_DATA]);
	if (!data)
		return NULL;
	AUTO_DECREF PyObject *raw_name = raw_name_of(&state->launch, data);
	if (enter_named(state, metadata, &data, raw_name) < 0 && warn_of_failure(raw_name) < 0)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *launch_exit(PyObject *module, PyObject *metadata)
{
	if (!thread.is_in_hook)
		leave_op();
	Py_RETURN_NONE;
}

static PyObject *launch_id(PyObject *module, PyObject *unused)
{
	if (!thread.launch_id)
		Py_RETURN_NONE;
	return PyLong_FromUnsignedLongLong(thread.launch_id);
}

static PyObject *launch_filter(PyObject *module, PyObject *args)
{
	struct ext_launch *launch = &ext_state_of(module)->launch;
	PyObject *include, *exclude;
	if (!PyArg_ParseTuple(args, "OO:launch_filter", &include, &exclude))
		return NULL;
	shared_set(launch, EXT_INCLUDE, include == Py_None ? NULL : Py_NewRef(include));
	shared_set(launch, EXT_EXCLUDE, exclude == Py_None ? NULL : Py_NewRef(exclude));
	Py_RETURN_NONE;
}

static PyObject *launch_metadata_levels(PyObject *module, PyObject *levels)
{
	long number = PyLong_AsLong(levels);
	if (number == -1 && PyErr_Occurred())
		return NULL;
	ext_state_of(module)->launch.has_one_level = number == 1;
	Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ all hooks */

/* Calls the method of every hook. Later versions of Triton may pass more arguments. */
static PyObject *call_hooks(struct ext_launch *launch, PyObject *method, PyObject *const *args,
			    Py_ssize_t arg_count, bool is_reverse)
{
	if (arg_count < 1) {
		PyErr_SetString(PyExc_TypeError, "hooks take the metadata of a launch");
		return NULL;
	}
	/* Hooks may be activated and paused concurrently: that creates a new list. */
	AUTO_DECREF PyObject *hooks = shared_get(launch, EXT_HOOKS);
	if (!hooks)
		Py_RETURN_NONE;
	Py_ssize_t count = PyList_GET_SIZE(hooks);
	bool has_failed = false;
	for (Py_ssize_t i = 0; i < count && !has_failed && count <= PyList_GET_SIZE(hooks); i++) {
		AUTO_DECREF PyObject *hook =
			Py_NewRef(PyList_GET_ITEM(hooks, is_reverse ? count - 1 - i : i));
		AUTO_DECREF PyObject *result = PyObject_CallMethodOneArg(hook, method, args[0]);
		has_failed = !result;
	}
	if (has_failed)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *hooks_enter(PyObject *module, PyObject *const *args, Py_ssize_t arg_count,
			     PyObject *names)
{
	struct ext_launch *launch = &ext_state_of(module)->launch;
	return call_hooks(launch, launch->names[EXT_ENTER], args, arg_count, false);
}

static PyObject *hooks_exit(PyObject *module, PyObject *const *args, Py_ssize_t arg_count,
			    PyObject *names)
{
	struct ext_launch *launch = &ext_state_of(module)->launch;
	return call_hooks(launch, launch->names[EXT_EXIT], args, arg_count, true);
}

static PyObject *hooks_set(PyObject *module, PyObject *hooks)
{
	struct ext_launch *launch = &ext_state_of(module)->launch;
	if (!PyList_Check(hooks)) {
		PyErr_SetString(PyExc_TypeError, "hooks_set takes a list");
		return NULL;
	}
	shared_set(launch, EXT_HOOKS, Py_NewRef(hooks));
	Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ tables */

PyMethodDef ext_launch_methods[] = {
	{"launch_enter", launch_enter, METH_O,
	 "launch_enter(metadata): the hook 'triton', before a kernel is launched."},
	{"launch_exit", launch_exit, METH_O,
	 "launch_exit(metadata): the hook 'triton', after a kernel was launched."},
	{"launch_id", launch_id, METH_NOARGS,
	 "launch_id(): id of the last launch that launch_enter() entered on this thread, or None."},
	{"launch_filter", launch_filter, METH_VARARGS,
	 "launch_filter(include, exclude): compiled patterns or None."},
	{"launch_metadata_levels", launch_metadata_levels, METH_O,
	 "launch_metadata_levels(number): 1, or 2 with the kernel below the metadata state."},
	{"hooks_enter", (PyCFunction)(void (*)(void))hooks_enter, METH_FASTCALL | METH_KEYWORDS,
	 "hooks_enter(metadata): call enter() of each hook."},
	{"hooks_exit", (PyCFunction)(void (*)(void))hooks_exit, METH_FASTCALL | METH_KEYWORDS,
	 "hooks_exit(metadata): call exit() of each hook, the last one first."},
	{"hooks_set", hooks_set, METH_O,
	 "hooks_set(hooks): the active hooks, in a list that no longer changes."},
	{NULL, NULL, 0, NULL},
};

int ext_launch_init(struct ext_state *state)
{
	static const char *const texts[EXT_LAUNCH_NAMES] = {
		[EXT_ENTER] = "enter",   [EXT_EXIT] = "exit", [EXT_DATA] = "data",
		[EXT_EXTRAS] = "extras", [EXT_GET] = "get",   [EXT_MATCH] = "match",
		[EXT_NAME] = "name",     [EXT_EMPTY] = "",
	};
	for (size_t i = 0; i < EXT_LAUNCH_NAMES; i++) {
		state->launch.names[i] = PyUnicode_InternFromString(texts[i]);
		if (!state->launch.names[i])
			return -1;
	}
	return 0;
}

int ext_launch_traverse(struct ext_state *state, visitproc visit, void *arg)
{
	for (size_t i = 0; i < EXT_SHARED; i++)
		Py_VISIT(state->launch.shared[i]);
	return 0;
}

void ext_launch_clear(struct ext_state *state)
{
	for (size_t i = 0; i < EXT_SHARED; i++)
		Py_CLEAR(state->launch.shared[i]);
	for (size_t i = 0; i < EXT_LAUNCH_NAMES; i++)
		Py_CLEAR(state->launch.names[i]);
}
