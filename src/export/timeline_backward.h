/*
 * Arrows from scopes to the backward kernels of PyTorch below them, in SCOPE, <backward>
 * (docs/guide/pytorch.md).
 *
 * A profile does not tell which run of the scope a backward kernel belongs to. It is certain if the
 * scope ran once since its previous backward kernels: then an arrow leads to the first of the
 * kernels that follow. Otherwise there is no arrow.
 */
#ifndef EXPORT_TIMELINE_BACKWARD_H
#define EXPORT_TIMELINE_BACKWARD_H

#include <stdbool.h>
#include <stddef.h>

#include "model/profile.h"

/* Rows of events. */
struct backward_arrow {
	uint32_t kernel;
	uint32_t scope;
};

struct timeline_backward {
	struct backward_arrow *arrows; /* in the order of kernels */
	uint32_t *scopes;              /* the same in their order, to be looked up */
	size_t count;
};

/* Release with timeline_backward_fini(). False: out of memory. */
bool timeline_backward_init(struct timeline_backward *backward, const struct profile *profile);
void timeline_backward_fini(struct timeline_backward *backward);

/* The scope event of the arrow to a kernel event; 0: none. */
uint32_t timeline_backward_scope(const struct timeline_backward *backward, uint32_t kernel);
/* True if an arrow begins at the scope event. */
bool timeline_backward_is_start(const struct timeline_backward *backward, uint32_t scope);

#endif
