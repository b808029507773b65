/*
 * Autograd of PyTorch: the forward operator that a backward launch belongs to. torch.h has the part
 * for context "python".
 */
#ifndef EXT_AUTOGRAD_H
#define EXT_AUTOGRAD_H

#include "torch/torch.h"

/* False until PyTorch has been imported, its symbols are found and its nodes are understood. */
bool autograd_is_followed(void);

/*
 * For context "shadow": the context of a launch, or of a scope that is entered (`work_out` is not
 * NULL), in the node that the thread evaluates, as a provider of scopes returns it.
 */
uint32_t autograd_find_scope(uint32_t context, uint64_t entered_in, uint64_t *work_out);

/* Adds functions to the module. */
int autograd_init(PyObject *module);

#endif
