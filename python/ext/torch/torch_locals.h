/*
 * Thread-local variables of PyTorch, read in place instead of through the functions that return
 * them. Only torch_locals_learn() needs the GIL.
 */
#ifndef EXT_TORCH_LOCALS_H
#define EXT_TORCH_LOCALS_H

#include "ext.h"

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

/*
 * Finds the variables, if there is no doubt about them. `tensor` needs a gradient. Changes the
 * sequence number, and for a moment whether gradients are enabled.
 */
void torch_locals_learn(const struct torch_getters *getters, PyObject *tensor);
/* Fills in those of the calling thread, which has called getters->number() before. */
void torch_locals_find(struct torch_locals *out);
/*
 * Tells that the calling thread evaluates `node`, or none (NULL). True: the variable is known, and
 * torch_locals_find() finds it.
 */
bool torch_locals_see_node(const void *node);

#endif
