/* Running totals per (kernel, context) of the current run, shared by all reader threads. */
#ifndef BACKEND_INTRA_KERNEL_HISTORY_H
#define BACKEND_INTRA_KERNEL_HISTORY_H

#include <pthread.h>

#include "backend/intra/context_totals.h"
#include "backend/intra/role_totals.h"

/* A reader thread holds the lock while it adds a launch. */
struct kernel_history {
	struct kernel_history *next; /* in the same bucket */
	const struct kernel *kernel;
	struct proton_context where;
	pthread_mutex_t lock;
	struct context_totals totals;
	struct role_totals roles;
};

/* Finds or creates the totals; valid until the run ends. NULL if out of memory. */
struct kernel_history *kernel_history_of(const struct kernel *kernel, struct proton_context where);
/* At the end of a run, when no reader thread is active. */
void kernel_history_clear(void);
/* After fork(), in the child. */
void kernel_history_forget(void);

#endif
