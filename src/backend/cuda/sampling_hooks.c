/* The hooks of PC sampling: none until it has been used. */
#include "backend/cuda/sampling_hooks.h"

static const struct sampling_hooks none;

_Atomic(const struct sampling_hooks *) sampling_hooks = &none;
