/*
 * Layout of the nodes of PyTorch's autograd. It is found by comparing nodes with known numbers, so
 * PyTorch's headers are not needed.
 */
#ifndef EXT_TORCH_NODES_H
#define EXT_TORCH_NODES_H

#include "ext.h"

#define TORCH_NODES_LEARNED 4             /* nodes that are compared */
#define TORCH_NODE_NUMBER_NONE UINT64_MAX /* of nodes without a forward operator */

/* A smart pointer of one or two words, as get_current_node() returns it in the caller's memory. */
struct torch_node_pointer {
	void *node;
	void *others[3]; /* larger than two words: returned in memory in C, too */
};

struct torch_node_layout {
	uint32_t number_at; /* words of a node: its sequence number */
	uint32_t thread_at; /* the number of the thread that made it */
	bool has_control;   /* the reference count is in the control block of a std::shared_ptr */
	const PyTypeObject *function_type; /* NULL: the node of a custom Function is not found */
	uint32_t context_at;               /* word of its context object */
};

extern struct torch_node_layout torch_node_layout;

/*
 * Looks at the nodes of TORCH_NODES_LEARNED tensors, which the calling thread, with this number,
 * has made. Only the list has the last tensor; it is removed. False: they are not understood.
 */
bool torch_nodes_learn(PyObject *tensors, uint64_t thread);
/*
 * Finds the node with these two numbers in the context object of a custom Function, whose base is
 * `type`. False: not found.
 */
bool torch_nodes_learn_function(PyObject *context, PyObject *type, uint64_t thread,
				uint64_t number);

/* The node of a custom Function, from its context object; NULL: it is another object. */
const uint64_t *torch_nodes_of_function(PyObject *context);
/*
 * Gives back the reference that get_current_node() has taken. It is never the last one: the engine
 * has two while it evaluates the node.
 */
void torch_nodes_release(const struct torch_node_pointer *pointer);

#endif
