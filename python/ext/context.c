/*
 * Context "python": the Python call stack at the launch of a kernel.
 *
 * A path is a chain of (code object, instruction offset) pairs, root first. Each code object gets a
 * number when it is first seen, stored in its co_extra slot. The slot dies with the code object and
 * numbers are never reused, so a later code object at the same address cannot be mistaken for it,
 * and no code object is kept alive. (code number, offset) -> frames is one hash table per process,
 * guarded by the GIL, or by a mutex in free-threaded builds. Lines and names are looked up only if
 * the table has no entry.
 *
 * Launchers have usually released the GIL, and taking it can mean waiting for another thread. Each
 * thread therefore also caches by the address of the code object: the path of its last launch, and
 * a table of (parent context, code address, offset). Both are used without the GIL. Addresses are
 * valid as long as no code object with a number has died: `deaths` counts them, and a thread that
 * sees a change discards all addresses. A code object on the stack is alive, and was created after
 * the death of the previous one at its address; a thread that runs it has seen that death.
 *
 * All of these are caches: one that exceeds its limit is emptied and filled again.
 */
#include "ext.h"

#include <pthread.h>

#include "base/array.h"
#include "base/hash.h"
#include "generated.h"
#include "python_frames.h"
#include "torch/torch.h"

#define SITES_MAX (1u << 20)         /* about 32 MiB */
#define NEAR_MIN_CAPACITY 64u        /* powers of two */
#define NEAR_MAX_CAPACITY (1u << 15) /* 768 KiB per thread */

/* Stored in the co_extra slot of a code object. */
struct code_note {
	uint32_t number;
	bool is_hidden;
};

/* The context of the path up to and including this frame. */
struct step {
	PyCodeObject *code; /* do not dereference: it may have died */
	frame_place place;
	uint32_t context;
};

struct near_entry {
	PyCodeObject *code; /* do not dereference; NULL: empty entry */
	frame_place place;
	uint32_t parent;
	uint32_t context; /* if the frame is not shown, that of the parent */
};

/* A call of a kernel, for sessions with context "shadow". */
struct call_entry {
	PyCodeObject *code; /* do not dereference; NULL: empty entry */
	frame_place place;
	struct generated *below; /* NULL: nothing known */
};

/* Modules of compiled code below a context. */
struct modules_entry {
	const struct generated *below;
	uint32_t parent;
	uint32_t context;
};

#define CALL_ENTRIES 256u /* powers of two */
#define MODULES_ENTRIES 64u

/* Cache of one thread. */
struct thread_path {
	struct frame_walk walk;
	struct frame_walk place_walk; /* for a scope that is entered, maybe inside a launch */
	uint32_t base;                /* the path continues from here: ROOT, or below <backward> */
	struct step *steps;           /* the last path, root first */
	bool has_scopes, has_shapes;  /* in the path */
	uint32_t step_count;
	size_t step_capacity;
	uint32_t near_count;
	uint32_t near_capacity;
	struct near_entry *near;
	uint64_t deaths;      /* value for which the addresses above are valid */
	uint64_t call_deaths; /* the same for `calls` */
	struct call_entry calls[CALL_ENTRIES];
	bool has_shaped_modules;
	struct modules_entry modules[MODULES_ENTRIES];
	const struct generated *last_call; /* of generated code, that launched last; or NULL */
	uint32_t last_kernel;              /* the first one of that call */
	bool is_busy; /* the public walk may collect garbage, which runs Python code */
};

/* The frames of a position in a code object. */
struct site {
	uint32_t source;
	/* In a file that Inductor generated; else NULL. Never freed: threads remember it. */
	struct generated *below;
};

static struct {
	struct hash_table numbers; /* code object, offset -> index of the site plus 1 */
	struct site *sites;
	size_t count;
} known;

static struct ext_mutex lock; /* guards the sites, last_code_number and hidden */
static uint32_t last_code_number;
static Py_ssize_t extra_index = -1;
static _Atomic uint64_t deaths;

/* File names, or prefixes that end in '/', of frames that are not shown. */
static struct {
	char **names;
	size_t count;
} hidden;

static pthread_key_t path_key;
static bool has_path_key;
static _Thread_local struct thread_path *thread_path;

/* ------------------------------------------------------------------ version differences */

#if PY_VERSION_HEX >= 0x030c0000
#define code_extra_request PyUnstable_Eval_RequestCodeExtraIndex
#define code_extra_get PyUnstable_Code_GetExtra
#define code_extra_set PyUnstable_Code_SetExtra
#else
#define code_extra_request _PyEval_RequestCodeExtraIndex
#define code_extra_get _PyCode_GetExtra
#define code_extra_set _PyCode_SetExtra
#endif

bool ext_is_running(void)
{
#if PY_VERSION_HEX >= 0x030d0000
	return !Py_IsFinalizing() && Py_IsInitialized();
#else
	return !_Py_IsFinalizing() && Py_IsInitialized();
#endif
}

/* ------------------------------------------------------------------ code objects */

static void code_note_free(void *note)
{
	/* Before the memory of the code object is released. Pairs with path_validate's load. */
	atomic_fetch_add_explicit(&deaths, 1, memory_order_release);
	free(note);
}

static bool name_is_hidden(const char *file)
{
	for (size_t i = 0; i < hidden.count; i++) {
		const char *name = hidden.names[i];
		size_t length = strlen(name);
		if (length > 0 && name[length - 1] == '/' ? strncmp(file, name, length) == 0
							  : strcmp(file, name) == 0)
			return true;
	}
	return false;
}

/* The first time a code object is seen. NULL if memory ran out. */
static struct code_note *code_note_make(PyCodeObject *code)
{
	PyObject *type, *value, *traceback, *owner;
	Py_ssize_t length;
	struct code_note *note = malloc(sizeof(*note));
	if (!note)
		return NULL;
	PyErr_Fetch(&type, &value, &traceback);
	const char *file = ext_utf8(code->co_filename, &length, &owner);
	note->is_hidden = file && name_is_hidden(file);
	note->number = ++last_code_number;
	if (file)
		Py_DECREF(owner);
	if (code_extra_set((PyObject *)code, extra_index, note) < 0) {
		free(note);
		note = NULL;
	}
	PyErr_Restore(type, value, traceback);
	return note;
}

/* Call with `lock`. */
static struct code_note *code_note_of(PyCodeObject *code)
{
	void *note = NULL;
	if (code_extra_get((PyObject *)code, extra_index, &note) == 0 && note)
		return note;
	return code_note_make(code);
}

/* ------------------------------------------------------------------ what a thread has seen */

static void thread_path_free(void *memory)
{
	struct thread_path *path = memory;
	frame_walk_fini(&path->walk);
	frame_walk_fini(&path->place_walk);
	free(path->steps);
	free(path->near);
	free(path);
}

static struct thread_path *thread_path_get(void)
{
	if (thread_path)
		return thread_path;
	struct thread_path *path = calloc(1, sizeof(*path));
	if (!path)
		return NULL;
	if (has_path_key)
		pthread_setspecific(path_key, path);
	thread_path = path;
	return path;
}

/* The entry, or the empty one at its position. Needs a table. */
static struct near_entry *near_find(const struct thread_path *path, uint32_t parent,
				    const struct frame_visit *visit)
{
	uint64_t hash = (uintptr_t)visit->code * 0x9e3779b97f4a7c15u;
	hash ^= parent * 0xff51afd7ed558ccdu;
	hash ^= (uint64_t)visit->place * 0xc2b2ae3d27d4eb4fu;
	hash ^= hash >> 29;
	hash *= 0xbf58476d1ce4e5b9u;
	for (uint32_t slot = (uint32_t)(hash >> 32);; slot++) {
		struct near_entry *entry = &path->near[slot & (path->near_capacity - 1)];
		if (!entry->code || (entry->code == visit->code && entry->place == visit->place &&
				     entry->parent == parent))
			return entry;
	}
}

static void near_clear(struct thread_path *path)
{
	if (path->near_count > 0)
		memset(path->near, 0, path->near_capacity * sizeof(*path->near));
	path->near_count = 0;
}

/* Reserves one more entry. False: out of memory, and the table is unchanged. */
static bool near_reserve(struct thread_path *path)
{
	if (path->near_capacity > 0 && path->near_count < path->near_capacity / 2)
		return true;
	if (path->near_capacity == NEAR_MAX_CAPACITY) {
		near_clear(path);
		return true;
	}
	struct near_entry *old = path->near;
	uint32_t old_capacity = path->near_capacity;
	uint32_t capacity = old_capacity ? old_capacity * 2 : NEAR_MIN_CAPACITY;
	struct near_entry *entries = calloc(capacity, sizeof(*entries));
	if (!entries)
		return false;
	path->near = entries;
	path->near_capacity = capacity;
	for (uint32_t i = 0; i < old_capacity; i++) {
		if (!old[i].code)
			continue;
		const struct frame_visit visit = {old[i].code, old[i].place};
		*near_find(path, old[i].parent, &visit) = old[i];
	}
	free(old);
	return true;
}

static void near_add(struct thread_path *path, uint32_t parent, const struct frame_visit *visit,
		     uint32_t context)
{
	if (!near_reserve(path))
		return;
	struct near_entry *entry = near_find(path, parent, visit);
	path->near_count += !entry->code;
	*entry = (struct near_entry){visit->code, visit->place, parent, context};
}

/* Discards addresses that may have been reused. */
static void path_validate(struct thread_path *path)
{
	uint64_t now = atomic_load_explicit(&deaths, memory_order_acquire);
	if (path->deaths == now)
		return;
	path->deaths = now;
	path->step_count = 0;
	near_clear(path);
}

static inline const struct frame_visit *visit_at(const struct thread_path *path, uint32_t depth)
{
	return &path->walk.visits[path->walk.count - 1 - depth];
}

static inline uint32_t context_at(const struct thread_path *path, uint32_t depth)
{
	return depth ? path->steps[depth - 1].context : path->base;
}

/* Fills path->steps, and step_count, with what the thread has seen before. False: no memory. */
static bool retrace(struct thread_path *path)
{
	uint32_t count = path->walk.count;
	uint32_t depth = 0;
	if (!array_reserve(&path->steps, &path->step_capacity, count, sizeof(*path->steps)))
		return false;
	path_validate(path);
	/* The common prefix with the last path needs no lookup. */
	for (; depth < count && depth < path->step_count; depth++) {
		const struct frame_visit *now = visit_at(path, depth);
		const struct step *before = &path->steps[depth];
		if (now->code != before->code || now->place != before->place)
			break;
	}
	for (; depth < count && path->near_count > 0; depth++) {
		const struct frame_visit *now = visit_at(path, depth);
		const struct near_entry *entry = near_find(path, context_at(path, depth), now);
		if (!entry->code)
			break;
		path->steps[depth] = (struct step){now->code, now->place, entry->context};
	}
	path->step_count = depth;
	return true;
}

/* ------------------------------------------------------------------ what is new, with the GIL */

/* Looks up "file:line@function", and what the kernel of a call in a file of Inductor computes. */
static struct site site_make(PyCodeObject *code, int32_t offset)
{
	PyObject *type, *value, *traceback;
	PyObject *file_owner = NULL, *name_owner = NULL;
	Py_ssize_t file_length = 0, name_length = 0;
	PyErr_Fetch(&type, &value, &traceback);
	const char *file = ext_utf8(code->co_filename, &file_length, &file_owner);
	const char *name = ext_utf8(code->co_name, &name_length, &name_owner);
	int line = PyCode_Addr2Line(code, offset);
	struct generated below;
	struct site site = {
		.source = proton_frame_source(file ? file : "?", file ? (size_t)file_length : 1,
					      name ? name : "?", name ? (size_t)name_length : 1,
					      line > 0 ? (uint32_t)line : 0),
	};
	if (file && line > 0 && generated_read(file, (uint32_t)line, &below)) {
		site.below = malloc(sizeof(*site.below));
		if (site.below)
			*site.below = below;
	}
	Py_XDECREF(file_owner);
	Py_XDECREF(name_owner);
	PyErr_Restore(type, value, traceback);
	return site;
}

/* NULL if memory ran out. */
static const struct site *site_find(uint32_t number, PyCodeObject *code, int32_t offset)
{
	uint64_t hash = hash_pair(number, (uint32_t)offset);
	uint32_t index = hash_table_find(&known.numbers, hash);
	if (index)
		return &known.sites[index - 1];
	if (known.count == SITES_MAX) {
		hash_table_clear(&known.numbers);
		known.count = 0;
	}
	if (!hash_table_reserve(&known.numbers, 1) ||
	    !ARRAY_ADD(known.sites, known.count, site_make(code, offset)) ||
	    !hash_table_add(&known.numbers, hash, (uint32_t)known.count))
		return NULL;
	return &known.sites[known.count - 1];
}

static uint32_t below_call(const struct generated *below, uint32_t context)
{
	if (proton_scopes_wanted())
		context = generated_modules_below(below, context);
	if (below->line)
		context = proton_context_child(context, below->line);
	uint32_t operators = generated_shows_shapes() ? below->shaped : below->operators;
	return operators ? proton_context_child(context, operators) : context;
}

/* The context of a frame below `parent`; false if memory ran out. Call with `lock`. */
static bool visit_context(uint32_t parent, const struct frame_visit *visit, uint32_t *context_out)
{
	int32_t offset;
	*context_out = parent;
	uint32_t scope = scope_visit_frame(visit);
	if (scope) {
		*context_out = proton_context_child(parent, scope);
		return true;
	}
	/* Before the note: the interpreter's cleanup code is constant. */
	if (!frame_offset(visit, &offset))
		return true;
	const struct code_note *note = code_note_of(visit->code);
	if (note && note->is_hidden)
		return true;
	const struct site *site = note ? site_find(note->number, visit->code, offset) : NULL;
	if (!site)
		return false;
	*context_out = proton_context_child(parent, site->source);
	if (site->below)
		*context_out = below_call(site->below, *context_out);
	return true;
}

/* Fills the rest of path->steps. */
static bool explore(struct thread_path *path)
{
	for (uint32_t depth = path->step_count; depth < path->walk.count; depth++) {
		const struct frame_visit *visit = visit_at(path, depth);
		uint32_t parent = context_at(path, depth);
		uint32_t context;
		ext_lock(&lock);
		bool is_known = visit_context(parent, visit, &context);
		ext_unlock(&lock);
		if (!is_known)
			return false;
		near_add(path, parent, visit, context);
		path->steps[depth] = (struct step){visit->code, visit->place, context};
		path->step_count = depth + 1;
	}
	return true;
}

/* ------------------------------------------------------------------ modules of compiled code */

static struct call_entry *call_find(struct thread_path *path, const struct frame_visit *visit)
{
	uint64_t hash = (uintptr_t)visit->code * 0x9e3779b97f4a7c15u;
	hash ^= (uint64_t)visit->place * 0xc2b2ae3d27d4eb4fu;
	return &path->calls[(hash >> 40) % CALL_ENTRIES];
}

static void call_learn(struct call_entry *entry, const struct frame_visit *visit)
{
	int32_t offset;
	*entry = (struct call_entry){visit->code, visit->place, NULL};
	PyGILState_STATE gil = PyGILState_Ensure();
	ext_lock(&lock);
	const struct code_note *note = frame_offset(visit, &offset) ? code_note_of(visit->code)
								    : NULL;
	const struct site *site =
		note && !note->is_hidden ? site_find(note->number, visit->code, offset) : NULL;
	if (site)
		entry->below = site->below;
	ext_unlock(&lock);
	PyGILState_Release(gil);
}

/* The innermost call of generated code on the thread; NULL: none. */
static struct generated *find_call(struct thread_path *path, PyThreadState *thread)
{
	if (!path || !frames_walk_own(&path->place_walk, thread))
		return NULL;
	const struct frame_walk *walk = &path->place_walk;
	uint64_t now = atomic_load_explicit(&deaths, memory_order_acquire);
	if (path->call_deaths != now)
		memset(path->calls, 0, sizeof(path->calls));
	path->call_deaths = now;
	uint32_t count = autograd_find_engine(walk);
	struct generated *below = NULL;
	for (uint32_t i = 0; i < count && !below; i++) {
		const struct frame_visit *visit = &walk->visits[i];
		struct call_entry *entry = call_find(path, visit);
		if (entry->code != visit->code || entry->place != visit->place)
			call_learn(entry, visit);
		below = entry->below;
	}
	return below;
}

/* The context of the modules for which generated code runs a kernel. */
static uint32_t compiled_modules_below(uint32_t context)
{
	PyThreadState *thread = ext_thread_of_caller();
	struct thread_path *path = thread ? thread_path_get() : NULL;
	const struct generated *below = find_call(path, thread);
	bool is_shaped = generated_shows_shapes();
	if (!below || (below->module_count + below->inside == 0 && !is_shaped))
		return context;
	if (path->has_shaped_modules != is_shaped)
		memset(path->modules, 0, sizeof(path->modules));
	path->has_shaped_modules = is_shaped;
	struct modules_entry *entry =
		&path->modules[(context ^ (uintptr_t)below >> 6) % MODULES_ENTRIES];
	if (entry->below != below || entry->parent != context) {
		*entry = (struct modules_entry){below, context,
						generated_modules_below(below, context)};
		if (is_shaped && below->shaped)
			entry->context = proton_context_child(entry->context, below->shaped);
	}
	return entry->context;
}

/*
 * Adds the work of a call to its kernel. If a call launches several kernels, the work is that of
 * the call, as soon as that is known. The next call of the same place begins with the first kernel
 * again.
 */
static void add_work(struct proton_context where, uint32_t kernel)
{
	PyThreadState *thread = ext_thread_of_caller();
	struct thread_path *path = thread ? thread_path_get() : NULL;
	struct generated *call = find_call(path, thread);
	if (!path)
		return;
	if (call && call == path->last_call && kernel != path->last_kernel) {
		atomic_store_explicit(&call->has_several, true, memory_order_relaxed);
		return;
	}
	path->last_call = call;
	path->last_kernel = kernel;
	if (!call || call->work_count == 0)
		return;
	if (!atomic_load_explicit(&call->has_several, memory_order_relaxed))
		where = proton_context_enter(where, kernel);
	proton_metrics_add(where, call->work, call->work_count, NULL);
}

static PyObject *count_compiled(PyObject *module, PyObject *wanted)
{
	proton_launch_observer_set(wanted == Py_True ? add_work : NULL);
	Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ the provider */

/* In a backward pass, frames from the engine's call on do not count. False: out of memory. */
static bool finish_walk(struct thread_path *path)
{
	uint32_t total = path->walk.count;
	if (path->base != PROTON_CONTEXT_ROOT)
		path->walk.count = autograd_find_engine(&path->walk);
	return scope_places_insert(&path->walk, total);
}

static bool walk_own(struct thread_path *path, PyThreadState *thread)
{
	return frames_walk_own(&path->walk, thread) && finish_walk(path);
}

static bool walk_with_gil(struct thread_path *path, PyThreadState *thread)
{
	if (walk_own(path, thread))
		return true;
	if (path->is_busy)
		return false;
	path->is_busy = true;
	bool is_done = frames_walk_public(&path->walk) && finish_walk(path);
	path->is_busy = false;
	return is_done;
}

static uint32_t context_with_gil(struct thread_path *path, PyThreadState *thread)
{
	/* From the start: code objects may have died while this thread waited for the GIL. */
	if (!walk_with_gil(path, thread) || !retrace(path) || !explore(path))
		return path->base;
	return context_at(path, path->step_count);
}

static uint32_t depth_with_gil(struct thread_path *path, PyThreadState *thread)
{
	uint32_t depth = 0;
	if (!walk_with_gil(path, thread))
		return 0;
	ext_lock(&lock);
	for (uint32_t i = 0; i < path->walk.count; i++) {
		const struct frame_visit *visit = &path->walk.visits[i];
		int32_t offset;
		if (scope_visit_frame(visit) || !frame_offset(visit, &offset))
			continue;
		const struct code_note *note = code_note_of(visit->code);
		depth += note && !note->is_hidden;
	}
	ext_unlock(&lock);
	return depth;
}

/* On any thread, perhaps without the GIL. A thread that Python has never seen has no frames. */
PyThreadState *ext_thread_of_caller(void)
{
	return ext_is_running() ? PyGILState_GetThisThreadState() : NULL;
}

static uint32_t with_gil(uint32_t (*answer)(struct thread_path *path, PyThreadState *thread),
			 struct thread_path *path, PyThreadState *thread)
{
	if (PyGILState_Check())
		return answer(path, thread);
	PyGILState_STATE gil = PyGILState_Ensure();
	uint32_t result = answer(path, thread);
	PyGILState_Release(gil);
	return result;
}

/* The context above the frame with this index; -1: that at the end of the path. */
static uint32_t context_above(const void *user, int64_t index)
{
	const struct thread_path *path = user;
	return context_at(path, (uint32_t)(path->walk.count - 1 - index));
}

static uint32_t provide_context(void)
{
	struct thread_path *path = thread_path_get();
	if (!path)
		return torch_ops_below(PROTON_CONTEXT_ROOT);
	autograd_prefetch();
	PyThreadState *thread = ext_thread_of_caller();
	bool has_made;
	uint32_t base = autograd_find_base(&has_made);
	if (!thread)
		return torch_ops_below(base);
	if (path->base != base) {
		path->base = base;
		path->step_count = 0;
	}
	if (path->has_scopes != proton_scopes_wanted() ||
	    path->has_shapes != generated_shows_shapes()) {
		path->has_scopes = proton_scopes_wanted();
		path->has_shapes = generated_shows_shapes();
		path->step_count = 0;
		near_clear(path);
	}
	uint32_t context;
	if (walk_own(path, thread) && retrace(path) && path->step_count == path->walk.count)
		context = context_at(path, path->step_count);
	else
		context = with_gil(context_with_gil, path, thread);
	if (has_made && path->step_count == path->walk.count)
		autograd_keep_launch(&path->walk, thread, context_above, path);
	return torch_ops_below(context);
}

static uint32_t provide_depth(void)
{
	PyThreadState *thread = ext_thread_of_caller();
	struct thread_path *path = thread ? thread_path_get() : NULL;
	return path ? with_gil(depth_with_gil, path, thread) : 0;
}

/* Frames of this package do not enter scopes, they do it for others. Call with the GIL. */
static uint32_t first_shown(const struct frame_walk *walk)
{
	uint32_t index = 0;
	const struct code_note *note = NULL;
	ext_lock(&lock);
	while (index < walk->count && (note = code_note_of(walk->visits[index].code)) != NULL &&
	       note->is_hidden)
		index++;
	ext_unlock(&lock);
	return index;
}

static uint64_t provide_place(void)
{
	PyThreadState *thread = ext_thread_of_caller();
	struct thread_path *path = thread ? thread_path_get() : NULL;
	if (!path || !frames_walk_own(&path->place_walk, thread))
		return 0;
	const struct frame_walk *walk = &path->place_walk;
	uint32_t index = PyGILState_Check() ? first_shown(walk) : 0;
	return index < walk->count ? scope_place(walk, index) : 0;
}

/* ------------------------------------------------------------------ for the package */

static bool hide(const char *name)
{
	char *copy = strdup(name);
	ext_lock(&lock);
	bool is_hidden = copy && ARRAY_ADD(hidden.names, hidden.count, copy);
	ext_unlock(&lock);
	if (!is_hidden)
		free(copy);
	return is_hidden;
}

static PyObject *hide_frames(PyObject *module, PyObject *names)
{
	PyObject *sequence = PySequence_Fast(names, "hide_frames takes a list of str");
	if (!sequence)
		return NULL;
	for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); i++) {
		const char *name = PyUnicode_AsUTF8(PySequence_Fast_GET_ITEM(sequence, i));
		if (!name || !hide(name)) {
			Py_DECREF(sequence);
			return name ? PyErr_NoMemory() : NULL;
		}
	}
	Py_DECREF(sequence);
	Py_RETURN_NONE;
}

static PyObject *source_context(PyObject *module, PyObject *unused)
{
	return PyLong_FromUnsignedLong(provide_context());
}

static PyObject *use_own_frames(PyObject *module, PyObject *wanted)
{
	return PyBool_FromLong(frames_use_own(wanted == Py_True));
}

PyMethodDef ext_context_methods[] = {
	{"hide_frames", hide_frames, METH_O,
	 "hide_frames(names)\n--\n\n"
	 "Do not show frames of these files; a name that ends in '/' means all files below it.\n"
	 "Applies to code that is seen for the first time from now on."},
	{"source_context", source_context, METH_NOARGS,
	 "The number of the caller's Python call stack in sessions with context 'python'."},
	{"count_compiled", count_compiled, METH_O,
	 "count_compiled(wanted): whether calls of compiled code have flops and bytes."},
	{"use_own_frames", use_own_frames, METH_O,
	 "use_own_frames(wanted): whether frames are found without the public interface."},
	{NULL, NULL, 0, NULL},
};

int ext_context_init(void)
{
	if (extra_index < 0)
		extra_index = code_extra_request(code_note_free);
	if (extra_index < 0) {
		PyErr_SetString(PyExc_ImportError,
				"triton_proton: no co_extra slot is left in this interpreter");
		return -1;
	}
	if (!has_path_key)
		has_path_key = pthread_key_create(&path_key, thread_path_free) == 0;
	frames_init();
	proton_context_provider_set(provide_context, provide_depth);
	proton_scope_place_set(provide_place);
	torch_modules_set(compiled_modules_below);
	return 0;
}

void ext_context_fini(void)
{
	proton_launch_observer_set(NULL);
	proton_scope_place_set(NULL);
	proton_context_provider_set(NULL, NULL);
}
