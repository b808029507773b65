/* Operators of PyTorch as frames. No function needs the GIL. */
#ifndef EXT_TORCH_OPS_H
#define EXT_TORCH_OPS_H

#include "ext.h"

/* `context` below the operators that run on the calling thread, outermost first. */
uint32_t torch_ops_below(uint32_t context);
bool torch_ops_are_on(void);

/* An exported function of PyTorch, and the pointer that it is stored in. */
struct torch_symbol {
	const char *name;
	void *address;
};

/* Sets the pointers; false at the first function that this PyTorch does not have. */
bool torch_ops_find_symbols(const struct torch_symbol *symbols, size_t count);

int ext_torch_ops_init(PyObject *module);
void ext_torch_ops_fini(void);

#endif
