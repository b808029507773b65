/* The hooks of PC sampling and counters: none until one of them is used. */
#include "backend/cuda/sampling_hooks.h"

static const struct sampling_hooks none;

_Atomic(const struct sampling_hooks *) sampling_hooks = &none;

void sampling_hooks_set(const struct sampling_hooks *hooks)
{
	atomic_store(&sampling_hooks, hooks ? hooks : &none);
}
