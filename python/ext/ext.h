/*
 * CPython extension _libproton: declarations shared by its files.
 *
 * The extension adapts <libproton/proton.h> to Python. It is not thin because of the cost of a
 * launch: hooks, metrics, scopes and call stacks in Python would cost many times the recording
 * (docs/design/python-launches.md). module.c makes the module from the other files.
 *
 * All state belongs to the module (struct ext_state) or to objects, with these exceptions: the
 * tables of context.c, which contain no Python objects because libproton calls them without an
 * argument; the count of modules, which rejects a second interpreter; the list of tensors released
 * by libproton (metric.c). All code runs with the GIL unless a comment says otherwise.
 *
 * In free-threaded builds of Python "with the GIL" means that the thread is attached, and does not
 * exclude other threads. State that the GIL guards in other builds has a mutex (ext_lock), an
 * atomic or the critical section of its object; name caches have slots that a thread takes
 * temporarily.
 */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdatomic.h>

#include <libproton/proton.h>

#if PY_VERSION_HEX < 0x030a0000
#error "Python 3.10 or later is needed"
#endif

/* ------------------------------------------------------------------ without a GIL */

#ifdef Py_GIL_DISABLED
#define EXT_HAS_GIL 0
#else
#define EXT_HAS_GIL 1
#endif

struct ext_mutex {
#ifdef Py_GIL_DISABLED
	PyMutex mutex;
#else
	char unused;
#endif
};

static inline void ext_lock(struct ext_mutex *mutex)
{
#ifdef Py_GIL_DISABLED
	PyMutex_Lock(&mutex->mutex);
#endif
}

static inline void ext_unlock(struct ext_mutex *mutex)
{
#ifdef Py_GIL_DISABLED
	PyMutex_Unlock(&mutex->mutex);
#endif
}

/* Takes a slot of a cache. False: another thread has it; the caller works without the cache. */
static inline bool ext_slot_take(_Atomic bool *is_taken)
{
	return EXT_HAS_GIL || !atomic_exchange_explicit(is_taken, true, memory_order_acquire);
}

static inline void ext_slot_give(_Atomic bool *is_taken)
{
	if (!EXT_HAS_GIL)
		atomic_store_explicit(is_taken, false, memory_order_release);
}

/* The slot of a key among `count`, a power of two: threads with the same key get different ones. */
static inline size_t ext_slot_index(const void *key, size_t count)
{
	uintptr_t thread = EXT_HAS_GIL ? 0 : (uintptr_t)PyThreadState_Get();
	return (((uintptr_t)key >> 4) ^ (thread >> 8) ^ (thread >> 14)) & (count - 1);
}

/* A block under the lock of an object. */
#ifdef Py_GIL_DISABLED
#define EXT_BEGIN_CRITICAL(object) Py_BEGIN_CRITICAL_SECTION(object)
#define EXT_END_CRITICAL() Py_END_CRITICAL_SECTION()
#else
#define EXT_BEGIN_CRITICAL(object)                                                                 \
	{                                                                                          \
		(void)(object);
#define EXT_END_CRITICAL() }
#endif

/* The value of a key, a new reference. Returns 1; 0 and NULL: no such key; -1 with an exception. */
static inline int ext_dict_get(PyObject *dict, PyObject *key, PyObject **value_out)
{
#if PY_VERSION_HEX >= 0x030d0000
	return PyDict_GetItemRef(dict, key, value_out);
#else
	*value_out = Py_XNewRef(PyDict_GetItemWithError(dict, key));
	return *value_out ? 1 : PyErr_Occurred() ? -1 : 0;
#endif
}

/* Before a local reference, or NULL: released at the end of its block. */
#define AUTO_DECREF __attribute__((cleanup(ext_auto_decref), unused)) /* clang warns without */
static inline void ext_auto_decref(PyObject *const *reference)
{
	Py_XDECREF(*reference);
}

/* Runs a statement without the GIL. */
#define EXT_UNLOCKED(...)                                                                          \
	do {                                                                                       \
		Py_BEGIN_ALLOW_THREADS;                                                            \
		__VA_ARGS__;                                                                       \
		Py_END_ALLOW_THREADS;                                                              \
	} while (0)

/* A function of the module that makes a call and returns None. */
#define EXT_PROCEDURE(name, call)                                                                  \
	static PyObject *name(PyObject *module, PyObject *unused)                                  \
	{                                                                                          \
		call;                                                                              \
		Py_RETURN_NONE;                                                                    \
	}

/* ------------------------------------------------------------------ the module's state */

#define EXT_NAME_SLOTS 256 /* a power of two */

/* Values of a name for libproton; zeros: not known yet. */
struct ext_known_name {
	uint64_t scope;   /* state of proton_scope_enter_name() */
	uint32_t frame;   /* for kernels */
	uint32_t metric;  /* proton_metric_name() */
	const char *text; /* for metrics: UTF-8 of the string */
	uint8_t forced;   /* its type (metric.c) */
	bool is_reserved; /* it is not a metric in launch metadata */
};

/* One slot of the name cache. It has a reference: no other string can have its address. */
struct ext_name_slot {
	PyObject *name;
	struct ext_known_name known;
	_Atomic bool is_taken;
};

enum ext_shared {
	EXT_HOOKS,   /* list of the active hooks, highest priority first; or NULL */
	EXT_INCLUDE, /* compiled patterns or NULL */
	EXT_EXCLUDE,
	EXT_LAZY_TYPE, /* Triton's LazyDict, once seen */
	EXT_SHARED
};

enum ext_launch_name {
	EXT_ENTER,
	EXT_EXIT,
	EXT_DATA,
	EXT_EXTRAS,
	EXT_GET,
	EXT_MATCH,
	EXT_NAME,
	EXT_EMPTY,
	EXT_LAUNCH_NAMES
};

/* State of launch.c. */
struct ext_launch {
	struct ext_mutex lock; /* guards `shared` */
	PyObject *shared[EXT_SHARED];
	PyObject *names[EXT_LAUNCH_NAMES];
	_Atomic uint32_t state_frame; /* frame of the metadata state; 0: not created yet */
	_Atomic bool has_one_level;   /* the metadata state has no level for the kernel */
};

struct ext_state {
	PyObject *error;       /* ProtonError */
	PyTypeObject *scope;   /* scope */
	PyTypeObject *timed;   /* cpu_timed_scope */
	PyTypeObject *threads; /* open scopes of a thread, see stack.c */
	PyObject *threads_key; /* key of that object in a thread's dict */
	_Atomic uint64_t last_scope_id;
	bool has_process; /* this module counts as the user of libproton in the process */
	struct ext_launch launch;
	struct ext_name_slot names[EXT_NAME_SLOTS];
};

extern const char ext_module_name[];

/* The state of the module that made `type` or a base of it; never NULL for its own types. */
struct ext_state *ext_state_of_type(PyTypeObject *type);
static inline struct ext_state *ext_state_of(PyObject *module)
{
	return (struct ext_state *)PyModule_GetState(module);
}

/* ------------------------------------------------- errors (errors.c) and names (names.c) */

/* Calls a function of a module of the package with objects, which may be NULL: fewer. */
PyObject *ext_call(const char *module, const char *function, PyObject *first, PyObject *second);

/* Sets the exception for `status` with the text of `err`; always returns NULL. */
PyObject *ext_raise(struct ext_state *state, int status, const struct proton_error *err);
/* `value`, or NULL with the exception for a status that is not PROTON_OK, which releases it. */
PyObject *ext_value_or_raise(PyObject *module, int status, const struct proton_error *err,
			     PyObject *value);
static inline PyObject *ext_none_or_raise(PyObject *module, int status,
					  const struct proton_error *err)
{
	return ext_value_or_raise(module, status, err, Py_NewRef(Py_None));
}
/* `text` for messages, with control characters escaped. New reference; NULL with an exception. */
PyObject *ext_shown(PyObject *text);
/* Raises TypeError "WHAT must be KIND, not ..."; NULL. */
PyObject *ext_raise_type(const char *what, const char *kind, PyObject *object);
/* True for None, NULL and a dict; else false with an exception. */
bool ext_are_metrics(PyObject *metrics);
/* Appends `item`, a new reference or NULL, to a list, which becomes NULL on failure. */
void ext_append(PyObject **list, PyObject *item);
/* Raises `format`, which has one %U for the name as formatted by ext_shown(). NULL. */
PyObject *ext_raise_named(PyObject *exception, const char *format, PyObject *name);

/* UTF-8, with the rest escaped; the caller releases *owner_out. NULL with an exception. */
const char *ext_utf8(PyObject *string, Py_ssize_t *length_out, PyObject **owner_out);

/* The cached values of a name. */
struct ext_known_name ext_name_find(struct ext_state *state, PyObject *name);
void ext_name_keep(struct ext_state *state, PyObject *name, struct ext_known_name known);
/* The frame of a named launch or kernel called `name`. False with an exception. */
bool ext_name_frame(struct ext_state *state, PyObject *name, uint32_t *frame_out);
/* Enters scope `name`; `known`: the caller's state, or NULL. False with an exception. */
bool ext_scope_enter(struct ext_state *state, PyObject *name, uint64_t *known, bool is_timed,
		     uint64_t *token_out);

/* ------------------------------------------------------------------ metrics (metric.c) */

/* Adds a dict of name -> value; `metrics` may be NULL or None. 0, or -1 with an exception. */
int ext_metrics_add(struct ext_state *state, struct proton_context where, PyObject *metrics);

/* Adds the numbers of launch metadata; *is_plain_out false: it needs Python, nothing is added. */
int ext_metrics_add_launch(struct ext_state *state, struct proton_context where, PyObject *launch,
			   bool *is_plain_out);

/*
 * Adds tuples as of split_metrics(). `rest` gets the tensors to wait for; NULL: they are an error.
 * 0, or -1.
 */
int ext_metrics_add_tuples(struct ext_state *state, struct proton_context where, PyObject *tuples,
			   PyObject *rest);
/* Drops the references to tensors that have been read. */
void ext_metrics_let_go(void);

/* ------------------------------------------------------------------ tasks (tasks.c) */

uint64_t ext_task_begin_slowly(void);
void ext_task_end_slowly(void);

/*
 * Call before a scope or state is entered or exited. Returns the number of the running asyncio
 * task, which owns it; 0: none. Call ext_task_end() afterwards, before other Python code can run.
 */
static inline uint64_t ext_task_begin(void)
{
	/* A running event loop has set it. */
	return PyThreadState_Get()->async_gen_firstiter ? ext_task_begin_slowly() : 0;
}

static inline void ext_task_end(uint64_t task)
{
	if (task)
		ext_task_end_slowly();
}

/* The calling thread, perhaps without the GIL; NULL: unknown to Python, or Python is exiting. */
PyThreadState *ext_thread_of_caller(void);

/* ------------------------------------------------------------------ parts of the module */

extern PyMethodDef ext_context_methods[], ext_control_methods[], ext_generated_methods[],
	ext_instrument_launch_methods[], ext_instrument_methods[], ext_launch_methods[],
	ext_session_methods[], ext_stack_methods[], ext_work_methods[];

/* Each makes its types and what else its functions need; returns 0, or -1 with an exception. */
int ext_scope_init(PyObject *module, struct ext_state *state);
int ext_stack_init(PyObject *module, struct ext_state *state);
int ext_launch_init(struct ext_state *state);
int ext_work_init(PyObject *module);
int ext_tasks_init(void);
void ext_tasks_fini(void);
int ext_context_init(void);
/* False before the interpreter begins, and while it ends: its lock must not be taken. */
bool ext_is_running(void);
/* Visits the references of launch.c, for the garbage collector and the module's end. */
int ext_launch_traverse(struct ext_state *state, visitproc visit, void *arg);
void ext_launch_clear(struct ext_state *state);
/* The module is destroyed: stops calls from libproton. */
void ext_context_fini(void);
