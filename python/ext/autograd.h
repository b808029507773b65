/*
 * Autograd of PyTorch: the forward operator that a backward launch belongs to. Functions without a
 * comment about the GIL need none.
 */
#ifndef EXT_AUTOGRAD_H
#define EXT_AUTOGRAD_H

#include "ext.h"
#include "python_frames.h"

/* The two contexts that are kept for each forward operator. */
enum autograd_kind {
	AUTOGRAD_SOURCE,
	AUTOGRAD_SCOPES,
	AUTOGRAD_KINDS,
};

/* Custom Functions of PyTorch that run inside each other; nodes of more are not looked for. */
#define AUTOGRAD_FUNCTIONS_MAX 16u

extern _Atomic bool autograd_is_on;

/* False until PyTorch has been imported, its symbols are found and its nodes are understood. */
static inline bool autograd_is_followed(void)
{
	/* acquire: pairs with follow_autograd(), which fills the addresses */
	return atomic_load_explicit(&autograd_is_on, memory_order_acquire);
}

/* State of the calling thread; needs autograd_is_followed(). It lives as long as the thread. */
struct autograd_thread *autograd_thread_get(void);

/*
 * Loads the numbers of the node that the thread evaluates into the cache. A forward pass on another
 * processor has often written them.
 */
void autograd_prefetch(const struct autograd_thread *self);
/*
 * For a launch: the context of the forward operator of the backward node that the thread evaluates,
 * below the frame <backward>; PROTON_CONTEXT_ROOT: none, or unknown, which is counted. Also tells
 * whether the thread has made nodes since autograd_keep() or autograd_pass().
 */
uint32_t autograd_find_base(struct autograd_thread *self, bool *has_made_out);

/*
 * The newest node that the thread has made, if its context of that kind has not been kept yet; 0:
 * none. If *needs_function_out, the launch belongs to it only if the forward function of a custom
 * autograd Function makes it.
 */
uint64_t autograd_made(struct autograd_thread *self, enum autograd_kind kind,
		       bool *needs_function_out);
/* Keeps the context of the operator that made `node`. */
void autograd_keep(struct autograd_thread *self, uint64_t node, enum autograd_kind kind,
		   uint32_t context);
/*
 * The same for the nodes from `first` to `last` that have no context yet. False if `first` has one,
 * or is the thread's first node.
 */
bool autograd_keep_range(struct autograd_thread *self, uint64_t first, uint64_t last,
			 enum autograd_kind kind, uint32_t context);
/* The node is not that of a launch: autograd_made() returns 0 until there is another one. */
void autograd_pass(struct autograd_thread *self, uint64_t node, enum autograd_kind kind);

/*
 * The index of the innermost frame that calls the engine; walk->count: none. It and those above do
 * not belong to a node.
 */
uint32_t autograd_find_engine(const struct frame_walk *walk);
/*
 * The next frame, from the index on, that calls the forward function of a custom autograd Function;
 * walk->count: none.
 */
uint32_t autograd_find_function(const struct frame_walk *walk, uint32_t index);
/*
 * The nodes of the custom Functions that the thread runs forward, innermost first; 0: unknown.
 * Returns how many were found.
 */
uint32_t autograd_find_nodes(PyThreadState *thread, uint64_t nodes[AUTOGRAD_FUNCTIONS_MAX]);

/* Scopes need the provider for autograd, for operators (torch_ops.h), or not at all. */
void autograd_update_scopes(void);

int ext_autograd_init(PyObject *module);
/* The module is destroyed: stops calls from libproton. */
void ext_autograd_fini(void);

#endif
