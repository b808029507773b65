/*
 * Running task of asyncio: each has its own scopes and states (proton_tasks_provider_set()).
 *
 * Without a running event loop on the thread this costs nothing: a loop sets the hooks for
 * asynchronous generators, a field of the thread's state. The number of a task is stored on the
 * task. The scopes in which a task was created come from a context variable, which a new task
 * copies.
 *
 * Launchers have usually released the GIL. It is taken again only if another task runs than before,
 * which the coroutines on the stack show without the GIL. The outermost one is not enough: an eager
 * task (Python 3.12) runs inside the task that creates it. The address of a finished coroutine may
 * be reused; scopes invalidate the cached task, and without scopes in between both tasks record in
 * the same context.
 */
#include "ext.h"

#include "python_frames.h"

/* From asyncio, once it was imported; never released. The second is set last. */
static PyObject *get_running_loop;
static _Atomic(PyObject *) current_task;
static struct ext_mutex asyncio_lock; /* guards setting these */
static PyObject *origin_variable;     /* number of the innermost scope, see proton_task_origin() */
static PyObject *number_name;
static _Atomic uint64_t last_number;

/* Last result for the thread. */
static _Thread_local struct {
	struct proton_task task;
	struct frame_coroutines coroutines; /* at that time */
	bool has_frame;
	bool is_fresh; /* still valid: no other Python code runs before it is used */
} seen;

static PyObject *imported(const char *name)
{
	AUTO_DECREF PyObject *text = PyUnicode_FromString(name);
	return text ? PyImport_GetModule(text) : NULL;
}

static bool find_asyncio(void)
{
	/* Pairs with the store below. */
	if (atomic_load_explicit(&current_task, memory_order_acquire))
		return true;
	/* Not imported here: the loop may be another library's. */
	PyObject *events = imported("asyncio.events");
	PyObject *tasks = events ? imported("asyncio.tasks") : NULL;
	PyObject *loop = tasks ? PyObject_GetAttrString(events, "_get_running_loop") : NULL;
	PyObject *task = loop ? PyObject_GetAttrString(tasks, "current_task") : NULL;
	Py_XDECREF(events);
	Py_XDECREF(tasks);
	if (!task) {
		Py_XDECREF(loop);
		return false;
	}
	ext_lock(&asyncio_lock);
	bool is_first = !current_task;
	if (is_first) {
		get_running_loop = loop;
		atomic_store_explicit(&current_task, task, memory_order_release);
	}
	ext_unlock(&asyncio_lock);
	if (!is_first) {
		Py_DECREF(loop);
		Py_DECREF(task);
	}
	return true;
}

/* The number of a task, assigned on first use; 0 with an exception. */
static uint64_t number_of(PyObject *task)
{
	AUTO_DECREF PyObject *number = PyObject_GetAttr(task, number_name);
	if (!number) {
		if (!PyErr_ExceptionMatches(PyExc_AttributeError))
			return 0;
		PyErr_Clear();
		number = PyLong_FromUnsignedLongLong(
			atomic_fetch_add_explicit(&last_number, 1, memory_order_relaxed) + 1);
		if (!number || PyObject_SetAttr(task, number_name, number) < 0)
			return 0;
	}
	uint64_t result = PyLong_AsUnsignedLongLong(number);
	return PyErr_Occurred() ? 0 : result;
}

static uint64_t origin_here(void)
{
	AUTO_DECREF PyObject *value = NULL;
	if (PyContextVar_Get(origin_variable, NULL, &value) < 0 || !value)
		return 0;
	uint64_t origin = PyLong_AsUnsignedLongLong(value);
	return PyErr_Occurred() ? 0 : origin;
}

/* With the GIL. False: no asyncio loop runs on this thread. */
static bool ask(struct proton_task *out)
{
	*out = (struct proton_task){0};
	if (!find_asyncio())
		return false;
	AUTO_DECREF PyObject *loop = PyObject_CallNoArgs(get_running_loop);
	if (!loop || loop == Py_None)
		return false;
	AUTO_DECREF PyObject *task = PyObject_CallOneArg(current_task, loop);
	if (task && task != Py_None) {
		out->id = number_of(task);
		out->origin = out->id ? origin_here() : 0;
	}
	return true;
}

/* The same; a set exception is kept, a new one is cleared. */
static bool ask_quietly(struct proton_task *out)
{
	PyObject *type, *value, *traceback;
	PyErr_Fetch(&type, &value, &traceback);
	bool has_loop = ask(out);
	PyErr_Clear();
	PyErr_Restore(type, value, traceback);
	return has_loop;
}

static bool has_event_loop(PyThreadState *thread)
{
	return thread->async_gen_firstiter || thread->async_gen_finalizer;
}

/* Called by libproton, on any thread and perhaps without the GIL. */
static bool provide_task(struct proton_task *out)
{
	if (seen.is_fresh) {
		*out = seen.task;
		return true;
	}
	PyThreadState *thread = ext_thread_of_caller();
	if (!thread || !has_event_loop(thread))
		return false;
	if (PyGILState_Check())
		return ask_quietly(out);
	struct frame_coroutines here = {0};
	bool has_frame = frames_find_coroutines(thread, &here);
	if (has_frame && seen.has_frame && here.outermost == seen.coroutines.outermost &&
	    here.nearest == seen.coroutines.nearest) {
		*out = seen.task;
		return true;
	}
	PyGILState_STATE gil = PyGILState_Ensure();
	bool has_loop = ask_quietly(out);
	PyGILState_Release(gil);
	seen.task = *out;
	seen.coroutines = here;
	seen.has_frame = has_frame && has_loop;
	return has_loop;
}

uint64_t ext_task_begin_slowly(void)
{
	if (!has_event_loop(PyThreadState_Get()) || !proton_is_profiling())
		return 0;
	seen.has_frame = false;
	seen.is_fresh = ask_quietly(&seen.task) && seen.task.id;
	if (!seen.is_fresh)
		return 0;
	proton_tasks_follow();
	return seen.task.id;
}

void ext_task_end_slowly(void)
{
	PyObject *type, *value, *traceback;
	PyErr_Fetch(&type, &value, &traceback);
	PyObject *origin = PyLong_FromUnsignedLongLong(proton_task_origin());
	PyObject *token = origin ? PyContextVar_Set(origin_variable, origin) : NULL;
	seen.is_fresh = false;
	Py_XDECREF(origin);
	Py_XDECREF(token);
	PyErr_Clear(); /* a task created now starts with its thread's scopes */
	PyErr_Restore(type, value, traceback);
}

int ext_tasks_init(void)
{
	if (!number_name)
		number_name = PyUnicode_InternFromString("_triton_proton_task");
	if (!origin_variable)
		origin_variable = PyContextVar_New("triton_proton.scope", NULL);
	if (!number_name || !origin_variable)
		return -1;
	proton_tasks_provider_set(provide_task);
	return 0;
}

void ext_tasks_fini(void)
{
	proton_tasks_provider_set(NULL);
}
