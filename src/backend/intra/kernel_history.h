/*
 * What the launches of a kernel in a context have come to in this run, for all threads that read
 * them.
 */
#ifndef BACKEND_INTRA_KERNEL_HISTORY_H
#define BACKEND_INTRA_KERNEL_HISTORY_H

#include <pthread.h>

#include "backend/intra/context_totals.h"
#include "backend/intra/role_totals.h"

/* A thread that has read a launch adds it while it holds the lock. */
struct kernel_history {
	struct kernel_history *next; /* of the same bucket */
	const struct kernel *kernel;
	struct proton_context where;
	pthread_mutex_t lock;
	struct context_totals sums;
	struct role_totals warps;
};

/* Found or made; valid until the run has ended. NULL: out of memory. */
struct kernel_history *kernel_history_of(const struct kernel *kernel, struct proton_context where);
/* A run has ended, and every reading with it. */
void kernel_history_clear(void);
/* In the child of a fork. */
void kernel_history_forget(void);

#endif
