/*
 * Autograd of PyTorch: the forward operator that a backward launch belongs to.
 *
 * An operator that needs a gradient makes a node before it launches anything. The node has a
 * sequence number, which counts up per thread, and the number of that thread. A launch that finds a
 * new number belongs to the operator of that node: its context is kept in a ring buffer of the
 * thread. In the backward pass, a launch asks for the node that its thread evaluates, and finds the
 * context by the node's two numbers.
 *
 * PyTorch is reached through exported symbols only, and its headers are not needed: four nodes with
 * known numbers show where a node has the two numbers and its reference count (follow_autograd()).
 * If anything is not as expected, nothing is followed.
 *
 * A ring buffer is written by its thread and read by all without a lock. Those of ended threads are
 * reused, the oldest first.
 */
#include "autograd.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "torch_locals.h"
#include "torch_ops.h"

#define RING_ENTRIES (1u << 15) /* 512 KiB per thread that runs forward operators */
#define RINGS 64u
#define NUMBER_BITS 40u
#define NUMBER_MASK ((UINT64_C(1) << NUMBER_BITS) - 1)
#define NUMBER_NONE UINT64_MAX /* of nodes without a forward operator */
#define NEIGHBORS 64u
#define BELOW_ENTRIES 64u /* a power of two */
#define NODE_WORDS 16u    /* they contain all that is looked for; later ones may look the same */
#define NODES 4
#define ENGINES_MAX 4

_Atomic bool autograd_is_on;
static _Atomic bool wants_scopes;

/* get_current_node() returns a smart pointer of one or two words, in memory given by the caller. */
struct returned_node {
	void *node;
	void *others[3]; /* larger than two words: returned in memory in C, too */
};

static struct {
	/* Backward launches need those up to the engines: one cache line. */
	_Alignas(64) uint32_t number_at; /* words of a node */
	uint32_t thread_at;
	uint32_t frame;   /* <backward> */
	bool has_control; /* the reference count is in the control block of a std::shared_ptr */
	const PyCodeObject *engines[ENGINES_MAX];
	struct torch_getters get;
	uint64_t (*thread)(void);
	int (*task)(void); /* the backward pass that the thread runs; -1: none */
	struct returned_node (*node)(void);
	const PyCodeObject *function;
	const PyTypeObject *function_type; /* NULL: the node of a custom Function is not found */
	uint32_t context_at;               /* word of its context object */
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

/*
 * State of one thread. The fields that each launch needs come first, in one cache line; those that
 * it needs in another node follow in the next one.
 */
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
	if (__builtin_expect(atomic_load_explicit(&entry->node, memory_order_acquire) != node, 0))
		return 0;
	uint32_t context = atomic_load_explicit(&entry->contexts[kind], memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	/* Its thread may have begun to write another one. */
	bool is_same = atomic_load_explicit(&entry->node, memory_order_relaxed) == node;
	return __builtin_expect(is_same, 1) ? context : 0;
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

/*
 * An operator that launched nothing, such as a view, ran between its neighbors: the common part of
 * their contexts belongs to its context, too.
 */
static uint32_t entry_between(const struct entry *entries, uint64_t node, enum autograd_kind kind)
{
	uint64_t number = node & NUMBER_MASK;
	uint32_t before = 0;
	uint32_t after = 0;
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

struct autograd_thread *autograd_thread_get(void)
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

uint64_t autograd_made(struct autograd_thread *self, enum autograd_kind kind,
		       bool *needs_function_out)
{
	uint64_t next = next_number(self);
	if (next == self->kinds[kind].made || !ring_own(self))
		return 0;
	*needs_function_out = !has_grad(&self->locals);
	return node_key(self->thread, next - 1);
}

void autograd_pass(struct autograd_thread *self, uint64_t node, enum autograd_kind kind)
{
	self->kinds[kind].made = (node & NUMBER_MASK) + 1;
}

void autograd_keep(struct autograd_thread *self, uint64_t node, enum autograd_kind kind,
		   uint32_t context)
{
	autograd_pass(self, node, kind);
	entry_write(self->own, node, kind, context);
}

static bool keep_if_new(struct ring *ring, uint64_t node, enum autograd_kind kind, uint32_t context)
{
	if (entry_read(ring->entries, node, kind))
		return false;
	entry_write(ring, node, kind, context);
	return true;
}

bool autograd_keep_range(struct autograd_thread *self, uint64_t first, uint64_t last,
			 enum autograd_kind kind, uint32_t context)
{
	for (uint64_t node = last; node > first && last - node < NEIGHBORS; node--)
		(void)keep_if_new(self->own, node, kind, context);
	return keep_if_new(self->own, first, kind, context) && first & NUMBER_MASK;
}

/* ------------------------------------------------------------------ backward */

/*
 * Gives back the reference that get_current_node() has taken. It is never the last one: the engine
 * has two while it evaluates the node.
 */
static void node_release(const struct returned_node *returned)
{
	if (torch.has_control)
		__atomic_sub_fetch((int32_t *)((char *)returned->others[0] + 8), 1,
				   __ATOMIC_ACQ_REL);
	else
		__atomic_sub_fetch((uint64_t *)((char *)returned->node + 8), 1, __ATOMIC_ACQ_REL);
}

/*
 * A node without a sequence number (the accumulation of a gradient) counts as the previous one on
 * the thread. 0: none.
 */
static __attribute__((noinline)) uint64_t note_unnumbered(struct autograd_thread *self)
{
	self->latest = 0;
	return self->task == torch.task() ? self->running : 0;
}

/* Notes the two numbers of the node that the thread evaluates, and returns it. */
static inline uint64_t note_running(struct autograd_thread *self, uint64_t number, uint64_t thread)
{
	if (__builtin_expect(number == NUMBER_NONE, 0))
		return note_unnumbered(self);
	uint64_t node = node_key(thread, number);
	if (node == self->latest)
		return node;
	self->latest = node;
	/*
	 * The engine evaluates the newest nodes first: a lower number means the same pass. Nodes
	 * are compared by their numbers, because addresses are used again.
	 */
	if (__builtin_expect(node >= self->running || (node ^ self->running) > NUMBER_MASK, 0))
		self->task = torch.task();
	self->running = node;
	return node;
}

/* The node as the functions of PyTorch return it. 0: none. */
static __attribute__((noinline)) uint64_t ask_running(struct autograd_thread *self)
{
	struct returned_node returned = {0};
	if (torch.task() != -1)
		returned = torch.node();
	if (torch_locals_see_node(returned.node))
		torch_locals_find(&self->locals);
	const uint64_t *words = returned.node;
	if (!words) {
		self->latest = 0;
		return 0;
	}
	uint64_t number = words[torch.number_at];
	uint64_t thread = words[torch.thread_at];
	node_release(&returned);
	return note_running(self, number, thread);
}

/* Identifies the backward node that the thread evaluates. 0: none. */
static inline uint64_t find_running(struct autograd_thread *self)
{
	if (__builtin_expect(!self->locals.node, 0))
		return ask_running(self);
	const uint64_t *words = *self->locals.node; /* the engine has references */
	if (words)
		return note_running(self, words[torch.number_at], words[torch.thread_at]);
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
	if (__builtin_expect(self->last.context == context && self->last.child, 1))
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

/*
 * The context of the forward operator of `node`, below the frame <backward>. PROTON_CONTEXT_ROOT:
 * unknown.
 */
static inline uint32_t find_origin(struct autograd_thread *self, uint64_t node,
				   enum autograd_kind kind)
{
	if (self->kinds[kind].node == node && self->kinds[kind].context != PROTON_CONTEXT_ROOT)
		return self->kinds[kind].context;
	/* Entries contain the thread of their node: the ring buffer is not read. */
	const struct entry *entries = self->entries;
	uint32_t context = 0;
	if (__builtin_expect(entries != NULL, 1)) {
		/* Older nodes are next; another processor may have written their entries. */
		__builtin_prefetch(&entries[entry_index(node - ENTRIES_PER_LINE)]);
		context = entry_read(entries, node, kind);
	}
	if (__builtin_expect(!context, 0))
		context = find_entry(self, node, kind);
	context = context ? below(self, context - 1) : PROTON_CONTEXT_ROOT;
	self->kinds[kind].node = node;
	self->kinds[kind].context = context;
	return context;
}

void autograd_prefetch(const struct autograd_thread *self)
{
	const uint64_t *words = self->locals.node ? *self->locals.node : NULL;
	if (!words)
		return;
	__builtin_prefetch(&words[torch.number_at]);
	__builtin_prefetch(&words[torch.thread_at]);
}

uint32_t autograd_find_base(struct autograd_thread *self, bool *has_made_out)
{
	*has_made_out = next_number(self) != self->kinds[AUTOGRAD_SOURCE].made;
	uint64_t node = find_running(self);
	if (!node)
		return PROTON_CONTEXT_ROOT;
	uint32_t base = find_origin(self, node, AUTOGRAD_SOURCE);
	if (__builtin_expect(base == PROTON_CONTEXT_ROOT, 0))
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
	uint64_t made = autograd_made(self, AUTOGRAD_SCOPES, &is_in_function);
	if (!made)
		return;
	proton_context_keep(context);
	autograd_keep(self, made, AUTOGRAD_SCOPES, context);
	if (is_in_function && made & NUMBER_MASK)
		(void)autograd_keep_range(self, made - 1, made - 1, AUTOGRAD_SCOPES, context);
}

/* The context of a launch, or of a scope that is entered, in the node that the thread evaluates. */
static uint32_t provide_work(uint32_t context, uint64_t entered_in, uint64_t *work_out)
{
	struct autograd_thread *self = autograd_thread_get();
	uint64_t node = find_running(self);
	bool is_launch = !work_out;
	if (node && self->task != self->scopes_task) {
		/* On the thread that called backward(), the newest node is a forward one. */
		bool needs_function;
		uint64_t made = autograd_made(self, AUTOGRAD_SCOPES, &needs_function);
		self->scopes_task = self->task;
		if (made)
			autograd_pass(self, made, AUTOGRAD_SCOPES);
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

/* libproton's provider of scopes: for sessions with context "shadow". */
static uint32_t provide_scope(uint32_t context, uint64_t entered_in, uint64_t *work_out)
{
	if (atomic_load_explicit(&wants_scopes, memory_order_relaxed))
		context = provide_work(context, entered_in, work_out);
	else if (work_out)
		*work_out = 0;
	return work_out ? context : torch_ops_below(context);
}

void autograd_update_scopes(void)
{
	bool is_wanted = wants_scopes || torch_ops_are_on();
	proton_scope_provider_set(is_wanted ? provide_scope : NULL);
}

uint32_t autograd_find_engine(const struct frame_walk *walk)
{
	_Static_assert(ENGINES_MAX == 4, "each is compared");
	/* All at once, which is three times as fast as a loop; those that are not used are NULL. */
	const PyCodeObject *const *engines = torch.engines;
	const PyCodeObject *a = engines[0], *b = engines[1], *c = engines[2], *d = engines[3];
	const struct frame_visit *visits = walk->visits;
	uint32_t count = walk->count;
	uint32_t i = 0;
	while (i < count && visits[i].code != a && visits[i].code != b && visits[i].code != c &&
	       visits[i].code != d)
		i++;
	return i;
}

uint32_t autograd_find_function(const struct frame_walk *walk, uint32_t index)
{
	while (index < walk->count && walk->visits[index].code != torch.function)
		index++;
	return index;
}

/*
 * The node of a custom Function is in its context object, the first argument of its forward
 * function. 0: it is another object, such as a tensor.
 */
static uint64_t node_of_argument(PyObject *argument)
{
	const PyTypeObject *type = argument ? Py_TYPE(argument) : NULL;
	while (type && type != torch.function_type)
		type = type->tp_base;
	const uint64_t *node = type ? ((const uint64_t *const *)argument)[torch.context_at] : NULL;
	return node ? node_key(node[torch.thread_at], node[torch.number_at]) : 0;
}

uint32_t autograd_find_nodes(PyThreadState *thread, uint64_t nodes[AUTOGRAD_FUNCTIONS_MAX])
{
	PyObject *arguments[AUTOGRAD_FUNCTIONS_MAX];
	uint32_t count = 0;
	if (torch.function_type && thread && ext_uses_own_frames())
		count = frames_first_arguments(thread, torch.function, arguments,
					       AUTOGRAD_FUNCTIONS_MAX);
	for (uint32_t i = 0; i < count; i++)
		nodes[i] = node_of_argument(arguments[i]);
	return count;
}

/* ------------------------------------------------------------------ layout of nodes */

/*
 * Fails, instead of ending the process, if there is no memory at `address`. A node may be shorter
 * than what is read. AddressSanitizer checks calls of write(), and not those of syscall().
 */
static bool read_words(const void *address, void *words, size_t bytes)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
		return false;
	bool is_read = syscall(SYS_write, ends[1], address, bytes) == (long)bytes &&
		       read(ends[0], words, bytes) == (ssize_t)bytes;
	close(ends[0]);
	close(ends[1]);
	return is_read;
}

/* The node of a Python object: THPCppFunction has a smart pointer after the object's header. */
struct seen_node {
	uint64_t number;
	uint64_t pointer[2]; /* the node, and the control block if it is a std::shared_ptr */
	uint64_t words[NODE_WORDS];
	uint64_t control[2];
};

static bool node_see(PyObject *object, struct seen_node *seen)
{
	PyObject *number = PyObject_CallMethod(object, "_sequence_nr", NULL);
	if (!number)
		return false;
	seen->number = PyLong_AsUnsignedLongLong(number);
	Py_DECREF(number);
	memset(seen->control, 0, sizeof(seen->control));
	if (PyErr_Occurred() ||
	    !read_words((char *)object + sizeof(PyObject), seen->pointer, sizeof(seen->pointer)) ||
	    !read_words((void *)(uintptr_t)seen->pointer[0], seen->words, sizeof(seen->words)))
		return false;
	(void)!read_words((void *)(uintptr_t)seen->pointer[1], seen->control,
			  sizeof(seen->control));
	return true;
}

/* The only word that is `values[i]` in each node i. */
static bool find_word(const struct seen_node *seen, const uint64_t *values, uint32_t *at_out)
{
	uint32_t found = 0;
	for (uint32_t word = 1; word < NODE_WORDS; word++) {
		int same = 0;
		for (int i = 0; i < NODES; i++)
			same += seen[i].words[word] == values[i];
		if (same < NODES)
			continue;
		*at_out = word;
		found++;
	}
	return found == 1;
}

/*
 * Finds the reference count: it falls by 1 when the tensor of a node is freed. The caller has the
 * Python object of that node.
 */
static bool find_count(const struct seen_node *before, const struct seen_node *after)
{
	torch.has_control = after->words[1] != before->words[1] - 1;
	return !torch.has_control ||
	       (uint32_t)after->control[1] == (uint32_t)before->control[1] - 1;
}

/* Looks at the nodes of four tensors, the last of which only the list has. */
static bool learn_nodes(PyObject *tensors)
{
	struct seen_node seen[NODES];
	struct seen_node after;
	uint64_t numbers[NODES], threads[NODES];
	PyObject *last = NULL;
	for (int i = 0; i < NODES; i++) {
		PyObject *object = PyObject_GetAttrString(PyList_GET_ITEM(tensors, i), "grad_fn");
		bool is_seen = object && node_see(object, &seen[i]);
		Py_XSETREF(last, object);
		if (!is_seen) {
			Py_XDECREF(last);
			return false;
		}
		numbers[i] = seen[i].number;
		threads[i] = torch.thread();
	}
	bool is_known = PyList_SetItem(tensors, NODES - 1, Py_NewRef(Py_None)) == 0 &&
			node_see(last, &after) && find_word(seen, numbers, &torch.number_at) &&
			find_word(seen, threads, &torch.thread_at) &&
			find_count(&seen[NODES - 1], &after);
	Py_DECREF(last);
	return is_known;
}

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
	torch_ops_find_symbols(&optional, 1);
	return torch_ops_find_symbols(symbols, sizeof(symbols) / sizeof(*symbols));
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

PyDoc_STRVAR(
	follow_autograd_doc,
	"follow_autograd(tensors, engines, function)\n--\n\n"
	"Attribute backward launches to the forward operators from now on. `tensors` is a list\n"
	"of four results x + 1, x + 1, b + 1 and a + 1 on this thread, where a and b are the\n"
	"first two; `engines` are the codes that call autograd's engine, `function` that of\n"
	"Function.apply. False: this version of PyTorch is not known.");

static PyObject *follow_autograd(PyObject *module, PyObject *args)
{
	PyObject *tensors, *engines, *function;
	if (!PyArg_ParseTuple(args, "O!O!O:follow_autograd", &PyList_Type, &tensors, &PyTuple_Type,
			      &engines, &function))
		return NULL;
	if (torch.frame) {
		atomic_store_explicit(&autograd_is_on, true, memory_order_release);
		Py_RETURN_TRUE;
	}
	if (PyList_GET_SIZE(tensors) != NODES || !find_symbols() || !learn_nodes(tensors) ||
	    !learn_code(engines, function)) {
		if (PyErr_Occurred())
			return NULL;
		Py_RETURN_FALSE;
	}
	torch_locals_learn(&torch.get, PyList_GET_ITEM(tensors, 0));
	torch.frame = proton_frame("<backward>", strlen("<backward>"));
	/* release: pairs with autograd_is_followed() */
	atomic_store_explicit(&autograd_is_on, true, memory_order_release);
	Py_RETURN_TRUE;
}

PyDoc_STRVAR(learn_function_doc,
	     "learn_function(type)\n--\n\n"
	     "Learns where a custom Function, which calls this, has its node. `type` "
	     "is the\nbase of its context objects. False: it was not found.");

/* The only word of the context object that is the address of the newest node. */
static bool find_context_word(PyObject *context, size_t bytes, uint32_t *at_out)
{
	const uint64_t *words = (const uint64_t *)context;
	uint64_t number = torch.get.number() - 1;
	uint32_t found = 0;
	for (uint32_t i = sizeof(PyObject) / sizeof(*words); i < bytes / sizeof(*words); i++) {
		uint64_t node[NODE_WORDS];
		if (words[i] % sizeof(*node) != 0 ||
		    !read_words((const void *)(uintptr_t)words[i], node, sizeof(node)) ||
		    node[torch.number_at] != number || node[torch.thread_at] != torch.thread())
			continue;
		*at_out = i;
		found++;
	}
	return found == 1;
}

static PyObject *learn_function(PyObject *module, PyObject *type)
{
	PyObject *context = NULL;
	if (!torch.frame || !PyType_Check(type) || !torch.function || !ext_uses_own_frames() ||
	    frames_first_arguments(PyThreadState_Get(), torch.function, &context, 1) != 1 ||
	    !context || !PyObject_TypeCheck(context, (PyTypeObject *)type) ||
	    !find_context_word(context, (size_t)((PyTypeObject *)type)->tp_basicsize,
			       &torch.context_at))
		Py_RETURN_FALSE;
	torch.function_type = (const PyTypeObject *)Py_NewRef(type);
	Py_RETURN_TRUE;
}

static PyObject *use_autograd(PyObject *module, PyObject *wanted)
{
	int is_wanted = PyObject_IsTrue(wanted);
	if (is_wanted < 0)
		return NULL;
	bool is_on = is_wanted && torch.frame;
	atomic_store_explicit(&autograd_is_on, is_on, memory_order_release);
	return PyBool_FromLong(is_on);
}

static PyObject *torch_locals(PyObject *module, PyObject *unused)
{
	struct torch_locals locals;
	torch_locals_find(&locals);
	return Py_BuildValue("(NNN)", PyBool_FromLong(locals.number != NULL),
			     PyBool_FromLong(locals.grad != NULL),
			     PyBool_FromLong(locals.node != NULL));
}

static PyObject *follow_scopes(PyObject *module, PyObject *wanted)
{
	int is_wanted = PyObject_IsTrue(wanted);
	if (is_wanted < 0)
		return NULL;
	wants_scopes = is_wanted && autograd_is_followed();
	autograd_update_scopes();
	Py_RETURN_NONE;
}

static PyMethodDef autograd_methods[] = {
	{"follow_autograd", follow_autograd, METH_VARARGS, follow_autograd_doc},
	{"learn_function", learn_function, METH_O, learn_function_doc},
	{"use_autograd", use_autograd, METH_O,
	 "use_autograd(wanted): switch follow_autograd() off and on again, to measure its cost."},
	{"torch_locals", torch_locals, METH_NOARGS,
	 "Whether the sequence number, the enabling of gradients and the running node are read "
	 "in place."},
	{"follow_scopes", follow_scopes, METH_O,
	 "follow_scopes(wanted): whether backward launches are also attributed to scopes."},
	{NULL, NULL, 0, NULL},
};

int ext_autograd_init(PyObject *module)
{
	if (!has_ring_key)
		has_ring_key = pthread_key_create(&ring_key, ring_end) == 0;
	return PyModule_AddFunctions(module, autograd_methods);
}

void ext_autograd_fini(void)
{
	proton_scope_provider_set(NULL);
}
