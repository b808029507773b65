/*
 * Autograd of PyTorch: the forward operator that a backward launch belongs to.
 *
 * An operator that needs a gradient makes a node before it launches anything. The node has a
 * sequence number, which counts up per thread, and the number of that thread. A launch that finds a
 * new number belongs to the operator of that node: its context is kept in a ring buffer of the
 * thread. In the backward pass, a launch asks for the node that its thread evaluates, and finds the
 * context by the node's two numbers.
 *
 * PyTorch is reached through exported symbols only. torch_nodes.c finds out how its nodes are laid
 * out. If anything is not as expected, nothing is followed.
 *
 * A ring buffer is written by its thread and read by all without a lock. Those of ended threads are
 * reused, the oldest first.
 */
#include "torch/torch_parts.h"

#include <pthread.h>

#define RING_ENTRIES (1u << 15) /* 512 KiB per thread that runs forward operators */
#define RINGS 64u
#define NUMBER_BITS 40u
#define NUMBER_MASK ((UINT64_C(1) << NUMBER_BITS) - 1)
#define NEIGHBORS 64u
#define BELOW_ENTRIES 64u /* a power of two */
#define ENGINES_MAX 4
#define FUNCTIONS_MAX 16u /* custom Functions inside each other; more are not looked for */

/* The two contexts that are kept for each forward operator. */
enum autograd_kind {
	AUTOGRAD_SOURCE,
	AUTOGRAD_SCOPES,
	AUTOGRAD_KINDS,
};

static _Atomic bool is_on;

static struct {
	uint32_t frame; /* <backward> */
	const PyCodeObject *engines[ENGINES_MAX];
	struct torch_getters get;
	uint64_t (*thread)(void);
	int (*task)(void); /* the backward pass that the thread runs; -1: none */
	struct torch_node_pointer (*node)(void);
	const PyCodeObject *function;
} torch;

/* ------------------------------------------------------------------ ring buffers */

struct entry {
	_Atomic uint64_t node;
	_Atomic uint32_t contexts[AUTOGRAD_KINDS]; /* plus 1; 0: not kept */
};

#define ENTRIES_PER_LINE (64u / sizeof(struct entry))

enum ring_state {
	RING_FREE,
	RING_LIVE,
	RING_ENDED
};

struct ring {
	_Atomic uint64_t thread; /* as PyTorch numbers it */
	_Atomic uint32_t state;
	_Atomic uint64_t ended; /* when its thread ended */
	struct entry *entries;
};

struct below {
	uint32_t context;
	uint32_t child; /* <backward> below it; 0: not known */
};

struct looked_up {
	uint64_t made;    /* the number after the newest node that is dealt with */
	uint64_t node;    /* the last one that was looked up */
	uint32_t context; /* its origin; PROTON_CONTEXT_ROOT: unknown */
};

/* State of one thread: in one cache line for each launch, the next for a launch in another node. */
struct autograd_thread {
	struct torch_locals locals;
	uint64_t latest; /* the node of the last launch; 0: none, or one without a number */
	struct looked_up kinds[AUTOGRAD_KINDS];
	uint64_t running;            /* the last node with a number in the backward pass */
	const struct entry *entries; /* of `asked` */
	struct below last;           /* the last one that was used of `below` */
	int task;                    /* the backward pass */
	int scopes_task;
	bool has_begun;
	bool has_no_ring;
	struct ring *own;
	const struct ring *asked; /* the last one that a node was looked up in */
	uint64_t thread;
	struct below below[BELOW_ENTRIES];
};

static struct ring rings[RINGS];
static _Atomic uint64_t last_ended;
static pthread_key_t ring_key;
static bool has_ring_key;
static _Thread_local _Alignas(64) struct autograd_thread threads_own = {.task = -1,
									.scopes_task = -1};

_Static_assert(offsetof(struct autograd_thread, kinds[AUTOGRAD_SOURCE + 1]) <= 64,
	       "one cache line");
_Static_assert(offsetof(struct autograd_thread, task) <= 128, "two cache lines");

static inline uint64_t node_key(uint64_t thread, uint64_t number)
{
	return thread << NUMBER_BITS | number;
}

static inline uint32_t entry_index(uint64_t node)
{
	return node % RING_ENTRIES;
}

static void ring_end(void *memory)
{
	struct ring *ring = memory;
	uint64_t now = atomic_fetch_add_explicit(&last_ended, 1, memory_order_relaxed) + 1;
	atomic_store_explicit(&ring->ended, now, memory_order_relaxed);
	/* release: pairs with ring_take(): its thread writes the entries */
	atomic_store_explicit(&ring->state, RING_ENDED, memory_order_release);
}

/* A ring buffer without a thread: a new one, else that of the thread that ended first; or NULL. */
static struct ring *ring_take(void)
{
	for (uint32_t attempt = 0; attempt < RINGS; attempt++) {
		struct ring *best = NULL;
		uint32_t state = RING_LIVE;
		for (uint32_t i = 0; i < RINGS && state != RING_FREE; i++) {
			uint32_t other =
				atomic_load_explicit(&rings[i].state, memory_order_relaxed);
			if (other == RING_LIVE ||
			    (best && other == RING_ENDED && rings[i].ended >= best->ended))
				continue;
			best = &rings[i];
			state = other;
		}
		if (!best)
			return NULL;
		if (atomic_compare_exchange_strong_explicit(&best->state, &state, RING_LIVE,
							    memory_order_acquire,
							    memory_order_relaxed))
			return best;
	}
	return NULL;
}

/* The calling thread's ring buffer; NULL: too many threads, or out of memory. */
static struct ring *ring_own(struct autograd_thread *self)
{
	if (self->own || self->has_no_ring)
		return self->own;
	struct ring *ring = has_ring_key ? ring_take() : NULL;
	self->thread = torch.thread();
	if (ring && !ring->entries)
		ring->entries = calloc(RING_ENTRIES, sizeof(*ring->entries));
	if (!ring || !ring->entries || self->thread >> (64 - NUMBER_BITS)) {
		if (ring)
			ring_end(ring);
		self->has_no_ring = true;
		return NULL;
	}
	/* release: pairs with ring_of(), which reads the address of the entries */
	atomic_store_explicit(&ring->thread, self->thread, memory_order_release);
	pthread_setspecific(ring_key, ring);
	self->own = ring;
	return ring;
}

static const struct ring *ring_of(struct autograd_thread *self, uint64_t thread)
{
	const struct ring *asked = self->asked;
	if (asked && atomic_load_explicit(&asked->thread, memory_order_acquire) == thread)
		return asked;
	for (uint32_t i = 0; i < RINGS; i++) {
		if (atomic_load_explicit(&rings[i].thread, memory_order_acquire) != thread)
			continue;
		self->asked = &rings[i];
		return &rings[i];
	}
	return NULL;
}

/* Returns the context plus 1; 0: unknown, or the entries of another thread. */
static inline uint32_t entry_read(const struct entry *entries, uint64_t node,
				  enum autograd_kind kind)
{
	const struct entry *entry = &entries[entry_index(node)];
	/* acquire: pairs with entry_write() */
	if (atomic_load_explicit(&entry->node, memory_order_acquire) != node)
		return 0;
	uint32_t context = atomic_load_explicit(&entry->contexts[kind], memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	/* Its thread may have begun to write another one. */
	bool is_same = atomic_load_explicit(&entry->node, memory_order_relaxed) == node;
	return is_same ? context : 0;
}

static void entry_write(struct ring *ring, uint64_t node, enum autograd_kind kind, uint32_t context)
{
	struct entry *entry = &ring->entries[entry_index(node)];
	if (atomic_load_explicit(&entry->node, memory_order_relaxed) != node) {
		atomic_store_explicit(&entry->node, 0, memory_order_relaxed);
		atomic_thread_fence(memory_order_release);
		for (int i = 0; i < AUTOGRAD_KINDS; i++)
			atomic_store_explicit(&entry->contexts[i], 0, memory_order_relaxed);
	}
	atomic_store_explicit(&entry->contexts[kind], context + 1, memory_order_relaxed);
	/* release: pairs with entry_read() */
	atomic_store_explicit(&entry->node, node, memory_order_release);
}

/* An operator without launches, such as a view, has the common part of its neighbors' contexts. */
static uint32_t entry_between(const struct entry *entries, uint64_t node, enum autograd_kind kind)
{
	uint64_t number = node & NUMBER_MASK;
	uint32_t before = 0, after = 0;
	for (uint32_t i = 1; i <= NEIGHBORS && i <= number && !before; i++)
		before = entry_read(entries, node - i, kind);
	for (uint32_t i = 1; i <= NEIGHBORS && before && !after; i++)
		after = entry_read(entries, node + i, kind);
	if (!after)
		return 0;
	uint32_t common = proton_context_common(before - 1, after - 1);
	return common == PROTON_CONTEXT_ROOT && kind == AUTOGRAD_SOURCE ? 0 : common + 1;
}

/* ------------------------------------------------------------------ forward */

bool autograd_is_followed(void)
{
	/* acquire: pairs with follow_autograd(), which fills the addresses */
	return atomic_load_explicit(&is_on, memory_order_acquire);
}

static struct autograd_thread *thread_get(void)
{
	struct autograd_thread *self = &threads_own;
	if (!self->has_begun) {
		(void)torch.get.number(); /* allocates the block of variables */
		torch_locals_find(&self->locals);
		self->has_begun = true;
	}
	return self;
}

static uint64_t next_number(const struct autograd_thread *self)
{
	return self->locals.number ? *self->locals.number : torch.get.number();
}

static bool has_grad(const struct torch_locals *locals)
{
	return locals->grad ? *locals->grad & locals->grad_bit : torch.get.has_grad();
}

/*
 * The newest node that the thread has made, if its context of that kind has not been kept yet; 0:
 * none. If *needs_function_out, the launch belongs to it only if the forward function of a custom
 * autograd Function makes it.
 */
static uint64_t find_made(struct autograd_thread *self, enum autograd_kind kind,
			  bool *needs_function_out)
{
	uint64_t next = next_number(self);
	if (next == self->kinds[kind].made || !ring_own(self))
		return 0;
	*needs_function_out = !has_grad(&self->locals);
	return node_key(self->thread, next - 1);
}

/* The node is not that of a launch: find_made() returns 0 until there is another one. */
static void pass_node(struct autograd_thread *self, uint64_t node, enum autograd_kind kind)
{
	self->kinds[kind].made = (node & NUMBER_MASK) + 1;
}

/* Keeps the context of the operator that made `node`. */
static void keep_node(struct autograd_thread *self, uint64_t node, enum autograd_kind kind,
		      uint32_t context)
{
	pass_node(self, node, kind);
	entry_write(self->own, node, kind, context);
}

static bool keep_if_new(struct ring *ring, uint64_t node, enum autograd_kind kind, uint32_t context)
{
	if (entry_read(ring->entries, node, kind))
		return false;
	entry_write(ring, node, kind, context);
	return true;
}

/* Also for nodes of a range without one. False if `first` has one, or is the thread's first. */
static bool keep_range(struct autograd_thread *self, uint64_t first, uint64_t last,
		       enum autograd_kind kind, uint32_t context)
{
	for (uint64_t node = last; node > first && last - node < NEIGHBORS; node--)
		(void)keep_if_new(self->own, node, kind, context);
	return keep_if_new(self->own, first, kind, context) && first & NUMBER_MASK;
}

/* ------------------------------------------------------------------ backward */

/* A node without a number (it accumulates a gradient) counts as the previous one. 0: none. */
static __attribute__((noinline)) uint64_t note_unnumbered(struct autograd_thread *self)
{
	self->latest = 0;
	return self->task == torch.task() ? self->running : 0;
}

/* Notes the two numbers of the node that the thread evaluates, and returns it. */
static inline uint64_t note_running(struct autograd_thread *self, uint64_t number, uint64_t thread)
{
	if (number == TORCH_NODE_NUMBER_NONE)
		return note_unnumbered(self);
	uint64_t node = node_key(thread, number);
	if (node == self->latest)
		return node;
	self->latest = node;
	/* The engine evaluates the newest nodes first. Addresses of nodes are used again. */
	if (node >= self->running || (node ^ self->running) > NUMBER_MASK)
		self->task = torch.task();
	self->running = node;
	return node;
}

/* The node as the functions of PyTorch return it. 0: none. */
static __attribute__((noinline)) uint64_t ask_running(struct autograd_thread *self)
{
	struct torch_node_pointer returned = {0};
	if (torch.task() != -1)
		returned = torch.node();
	if (torch_locals_see_node(returned.node))
		torch_locals_find(&self->locals);
	const uint64_t *words = returned.node;
	if (!words) {
		self->latest = 0;
		return 0;
	}
	uint64_t number = words[torch_node_layout.number_at];
	uint64_t thread = words[torch_node_layout.thread_at];
	torch_nodes_release(&returned);
	return note_running(self, number, thread);
}

/* Identifies the backward node that the thread evaluates. 0: none. */
static inline uint64_t find_running(struct autograd_thread *self)
{
	if (!self->locals.node)
		return ask_running(self);
	const uint64_t *words = *self->locals.node; /* the engine has references */
	if (words)
		return note_running(self, words[torch_node_layout.number_at],
				    words[torch_node_layout.thread_at]);
	self->latest = 0;
	return 0;
}

static __attribute__((noinline)) uint32_t find_below(struct autograd_thread *self, uint32_t context)
{
	struct below *below = &self->below[context % BELOW_ENTRIES];
	if (below->context != context || !below->child)
		*below = (struct below){context, proton_context_child(context, torch.frame)};
	self->last = *below;
	return below->child;
}

/* The context <backward> below another one. */
static inline uint32_t below(struct autograd_thread *self, uint32_t context)
{
	if (self->last.context == context && self->last.child)
		return self->last.child;
	return find_below(self, context);
}

/* For a node that is not in the entries of `asked`. Returns the context plus 1; 0: unknown. */
static __attribute__((noinline)) uint32_t find_entry(struct autograd_thread *self, uint64_t node,
						     enum autograd_kind kind)
{
	const struct ring *ring = ring_of(self, node >> NUMBER_BITS);
	if (!ring)
		return 0;
	self->entries = ring->entries;
	uint32_t context = entry_read(ring->entries, node, kind);
	return context ? context : entry_between(ring->entries, node, kind);
}

/* The context of `node`'s forward operator, below <backward>. PROTON_CONTEXT_ROOT: unknown. */
static inline uint32_t find_origin(struct autograd_thread *self, uint64_t node,
				   enum autograd_kind kind)
{
	if (self->kinds[kind].node == node && self->kinds[kind].context != PROTON_CONTEXT_ROOT)
		return self->kinds[kind].context;
	/* Entries contain the thread of their node: the ring buffer is not read. */
	const struct entry *entries = self->entries;
	uint32_t context = 0;
	if (entries != NULL) {
		/* Older nodes are next; another processor may have written their entries. */
		__builtin_prefetch(&entries[entry_index(node - ENTRIES_PER_LINE)]);
		context = entry_read(entries, node, kind);
	}
	if (!context)
		context = find_entry(self, node, kind);
	context = context ? below(self, context - 1) : PROTON_CONTEXT_ROOT;
	self->kinds[kind].node = node;
	self->kinds[kind].context = context;
	return context;
}

void autograd_prefetch(void)
{
	const struct autograd_thread *self = &threads_own;
	const uint64_t *words = self->locals.node ? *self->locals.node : NULL;
	if (!words)
		return;
	__builtin_prefetch(&words[torch_node_layout.number_at]);
	__builtin_prefetch(&words[torch_node_layout.thread_at]);
}

uint32_t autograd_find_base(bool *has_made_out)
{
	*has_made_out = false;
	if (!autograd_is_followed())
		return PROTON_CONTEXT_ROOT;
	struct autograd_thread *self = thread_get();
	*has_made_out = next_number(self) != self->kinds[AUTOGRAD_SOURCE].made;
	uint64_t node = find_running(self);
	if (!node)
		return PROTON_CONTEXT_ROOT;
	uint32_t base = find_origin(self, node, AUTOGRAD_SOURCE);
	if (base == PROTON_CONTEXT_ROOT)
		proton_origin_unknown();
	return base;
}

/*
 * Keeps the scopes of the operator that has made a node since the thread's last launch or scope.
 * Gradients are disabled in a custom Function, such as a checkpoint, which may call other ones that
 * make nodes too.
 */
static void keep_scopes(struct autograd_thread *self, uint32_t context)
{
	bool is_in_function;
	uint64_t made = find_made(self, AUTOGRAD_SCOPES, &is_in_function);
	if (!made)
		return;
	proton_context_keep(context);
	keep_node(self, made, AUTOGRAD_SCOPES, context);
	if (is_in_function && made & NUMBER_MASK)
		(void)keep_range(self, made - 1, made - 1, AUTOGRAD_SCOPES, context);
}

uint32_t autograd_find_scope(uint32_t context, uint64_t entered_in, uint64_t *work_out)
{
	struct autograd_thread *self = thread_get();
	uint64_t node = find_running(self);
	bool is_launch = !work_out;
	if (node && self->task != self->scopes_task) {
		/* On the thread that called backward(), the newest node is a forward one. */
		bool needs_function;
		uint64_t made = find_made(self, AUTOGRAD_SCOPES, &needs_function);
		self->scopes_task = self->task;
		if (made)
			pass_node(self, made, AUTOGRAD_SCOPES);
	}
	if (node && node != entered_in) {
		uint32_t origin = find_origin(self, node, AUTOGRAD_SCOPES);
		if (origin != PROTON_CONTEXT_ROOT)
			context = origin;
		else if (is_launch)
			proton_origin_unknown();
	}
	keep_scopes(self, context);
	if (!is_launch)
		*work_out = node;
	return context;
}

uint32_t autograd_find_engine(const struct frame_walk *walk)
{
	for (uint32_t i = 0; i < walk->count; i++)
		for (uint32_t engine = 0; engine < ENGINES_MAX; engine++)
			if (walk->visits[i].code == torch.engines[engine])
				return i;
	return walk->count;
}

/* The next frame that calls a custom Function's forward function; walk->count: none. */
static uint32_t find_function(const struct frame_walk *walk, uint32_t index)
{
	while (index < walk->count && walk->visits[index].code != torch.function)
		index++;
	return index;
}

/* The nodes of custom Functions that the thread runs, innermost first; 0: unknown. Their number. */
static uint32_t find_nodes(PyThreadState *thread, uint64_t nodes[FUNCTIONS_MAX])
{
	PyObject *arguments[FUNCTIONS_MAX];
	uint32_t count = 0;
	if (torch_node_layout.function_type && thread)
		count = frames_first_arguments(thread, torch.function, arguments, FUNCTIONS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		const uint64_t *node = torch_nodes_of_function(arguments[i]);
		nodes[i] = node ? node_key(node[torch_node_layout.thread_at],
					   node[torch_node_layout.number_at])
				: 0;
	}
	return count;
}

/*
 * Keeps the contexts of custom Functions that run inside each other, without gradients. Their nodes
 * were made first. Nodes after that of a Function were made inside it, by Functions that it applies
 * or by hooks. If the node of a Function is not found, it is taken to be the one before.
 */
static void keep_functions(struct autograd_thread *self, uint64_t newest,
			   const struct frame_walk *walk, PyThreadState *thread,
			   uint32_t (*context_above)(const void *path, int64_t index),
			   const void *path)
{
	uint64_t nodes[FUNCTIONS_MAX];
	uint32_t count = find_nodes(thread, nodes);
	uint32_t index = find_function(walk, 0);
	uint64_t last = newest;
	pass_node(self, newest, AUTOGRAD_SOURCE);
	for (uint32_t i = 0; index < walk->count; i++) {
		uint64_t first = i < count && nodes[i] && nodes[i] < last ? nodes[i] : last;
		if (!keep_range(self, first, last, AUTOGRAD_SOURCE, context_above(path, index)))
			return;
		last = first - 1;
		index = find_function(walk, index + 1);
	}
}

void autograd_keep_launch(const struct frame_walk *walk, PyThreadState *thread,
			  uint32_t (*context_above)(const void *path, int64_t index),
			  const void *path)
{
	struct autograd_thread *self = thread_get();
	bool needs_function;
	uint64_t node = find_made(self, AUTOGRAD_SOURCE, &needs_function);
	if (node && needs_function)
		keep_functions(self, node, walk, thread, context_above, path);
	else if (node)
		keep_node(self, node, AUTOGRAD_SOURCE, context_above(path, -1));
}

/* ------------------------------------------------------------------ for the package */

static bool find_symbols(void)
{
	static const struct torch_symbol symbols[] = {
		{"_ZN2at15sequence_number4peekEv", &torch.get.number},
		{"_ZN2at14RecordFunction15currentThreadIdEv", &torch.thread},
		{"_ZN5torch8autograd25get_current_graph_task_idEv", &torch.task},
		{"_ZN3c108GradMode10is_enabledEv", &torch.get.has_grad},
		{"_ZN5torch8autograd16get_current_nodeEv", &torch.node},
	};
	static const struct torch_symbol optional = {"_ZN3c108GradMode11set_enabledEb",
						     &torch.get.set_grad};
	torch_library_find(&optional, 1);
	return torch_library_find(symbols, sizeof(symbols) / sizeof(*symbols));
}

static bool learn_code(PyObject *engines, PyObject *function)
{
	Py_ssize_t count = PyTuple_GET_SIZE(engines);
	if (count > ENGINES_MAX || (function != Py_None && !PyCode_Check(function)))
		return false;
	for (Py_ssize_t i = 0; i < count; i++)
		if (!PyCode_Check(PyTuple_GET_ITEM(engines, i)))
			return false;
	/* Kept for the life of the process, so that their addresses identify them. */
	for (Py_ssize_t i = 0; i < count; i++)
		torch.engines[i] = (const PyCodeObject *)Py_NewRef(PyTuple_GET_ITEM(engines, i));
	if (function != Py_None)
		torch.function = (const PyCodeObject *)Py_NewRef(function);
	return true;
}

static PyObject *follow_autograd(PyObject *module, PyObject *args)
{
	PyObject *tensors, *engines, *function;
	if (!PyArg_ParseTuple(args, "O!O!O:follow_autograd", &PyList_Type, &tensors, &PyTuple_Type,
			      &engines, &function))
		return NULL;
	if (torch.frame) {
		atomic_store_explicit(&is_on, true, memory_order_release);
		Py_RETURN_TRUE;
	}
	if (!find_symbols() || !torch_nodes_learn(tensors, torch.thread()) ||
	    !learn_code(engines, function)) {
		if (PyErr_Occurred())
			return NULL;
		Py_RETURN_FALSE;
	}
	torch_locals_learn(&torch.get, PyList_GET_ITEM(tensors, 0));
	has_ring_key = pthread_key_create(&ring_key, ring_end) == 0;
	torch.frame = proton_frame("<backward>", strlen("<backward>"));
	/* release: pairs with autograd_is_followed() */
	atomic_store_explicit(&is_on, true, memory_order_release);
	Py_RETURN_TRUE;
}

static PyObject *learn_function(PyObject *module, PyObject *type)
{
	PyObject *context = NULL;
	bool is_context =
		torch.frame && PyType_Check(type) && torch.function &&
		frames_first_arguments(PyThreadState_Get(), torch.function, &context, 1) == 1 &&
		context && PyObject_TypeCheck(context, (PyTypeObject *)type);
	return PyBool_FromLong(
		is_context &&
		torch_nodes_learn_function(context, type, torch.thread(), torch.get.number() - 1));
}

static PyObject *use_autograd(PyObject *module, PyObject *wanted)
{
	bool is_wanted = wanted == Py_True;
	bool is_used = is_wanted && torch.frame;
	atomic_store_explicit(&is_on, is_used, memory_order_release);
	return PyBool_FromLong(is_used);
}

static PyObject *torch_locals(PyObject *module, PyObject *unused)
{
	struct torch_locals locals;
	torch_locals_find(&locals);
	return Py_BuildValue("(NNN)", PyBool_FromLong(locals.number != NULL),
			     PyBool_FromLong(locals.grad != NULL),
			     PyBool_FromLong(locals.node != NULL));
}

PyMethodDef ext_autograd_methods[] = {
	{"follow_autograd", follow_autograd, METH_VARARGS,
	 "follow_autograd(tensors, engines, function)\n--\n\n"
	 "Attribute backward launches to the forward operators from now on. `tensors` is a list\n"
	 "of four results x + 1, x + 1, b + 1 and a + 1 on this thread, where a and b are the\n"
	 "first two; `engines` are the codes that call autograd's engine, `function` that of\n"
	 "Function.apply. False: this version of PyTorch is not known."},
	{"learn_function", learn_function, METH_O,
	 "learn_function(type)\n--\n\n"
	 "Learns where a custom Function, which calls this, has its node. `type` "
	 "is the\nbase of its context objects. False: it was not found."},
	{"use_autograd", use_autograd, METH_O,
	 "use_autograd(wanted): switch follow_autograd() off and on again, to measure its cost."},
	{"torch_locals", torch_locals, METH_NOARGS,
	 "Whether the sequence number, the enabling of gradients and the running node are read "
	 "in place."},
	{NULL, NULL, 0, NULL},
};
