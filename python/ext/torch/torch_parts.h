/* Internal interface of this folder: autograd, its nodes and variables, operators of PyTorch. */
#pragma once

#include <dlfcn.h>

#include "ext.h"
#include "torch/torch.h"

/* Layout of autograd's nodes, found by comparing nodes with known numbers. */

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
/* Finds the node with these numbers in a Function's context object, a `type`. False: not found. */
bool torch_nodes_learn_function(PyObject *context, PyObject *type, uint64_t thread,
				uint64_t number);

/* The node of a custom Function, from its context object; NULL: it is another object. */
const uint64_t *torch_nodes_of_function(PyObject *context);
/* Gives back get_current_node()'s reference, never the last: the engine has two. */
void torch_nodes_release(const struct torch_node_pointer *pointer);

/* Thread-local variables, read in place. Only torch_locals_learn() needs the GIL. */

/* Functions of PyTorch that return or set thread-local variables. */
struct torch_getters {
	uint64_t (*number)(void); /* the thread's next node has it */
	bool (*has_grad)(void);
	void (*set_grad)(bool is_enabled); /* NULL: this PyTorch lacks it */
};

/* The variables of one thread. A NULL address: call the function instead. */
struct torch_locals {
	const uint64_t *number;
	const uint64_t *const *node; /* the node that the thread evaluates, or NULL */
	const uint8_t *grad;
	uint8_t grad_bit; /* a mask */
};

/* Finds the variables, if there is no doubt. Makes nodes with `tensor`, which needs a gradient. */
void torch_locals_learn(const struct torch_getters *getters, PyObject *tensor);
/* Fills in those of the calling thread, which has called getters->number() before. */
void torch_locals_find(struct torch_locals *out);
/* The thread evaluates `node`, or none. True: torch_locals_find() finds the variable. */
bool torch_locals_see_node(const void *node);

/* Exported functions of PyTorch, which are found without its headers and without linking it. */

/* A function by its mangled name, and the pointer that it is stored in. */
struct torch_symbol {
	const char *name;
	void *address;
};

/* Sets the pointers; false at the first function that this PyTorch does not have. */
static inline bool torch_library_find(const struct torch_symbol *symbols, size_t count)
{
	void *library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
	for (size_t i = 0; i < count; i++) {
		void *found = dlsym(library ? library : RTLD_DEFAULT, symbols[i].name);
		if (!found)
			return false;
		memcpy(symbols[i].address, &found, sizeof(found));
	}
	return true;
}

/* False until PyTorch has been imported, its symbols are found and its nodes are understood. */
bool autograd_is_followed(void);

/*
 * For context "shadow": the context of a launch, or of a scope that is entered (`work_out` is not
 * NULL), in the node that the thread evaluates, as a provider of scopes returns it.
 */
uint32_t autograd_find_scope(uint32_t context, uint64_t entered_in, uint64_t *work_out);
