/*
 * Running totals of a kernel's launches in one context, in the current run, shared by all reader
 * threads. After each launch the profile gets what the launch adds, and properties of the total.
 */
#pragma once

#include <pthread.h>

#include "backend/intra/launch_totals.h"
#include "backend/intra/role_totals.h"

struct device;

/* A reader thread holds the lock while it adds a launch. */
struct kernel_history {
	struct kernel_history *next; /* in the same bucket */
	struct proton_context where;
	pthread_mutex_t lock;
	struct launch_totals sum; /* of all launches */
	uint32_t *frames;         /* by scope; NULL: no launch yet */
	uint64_t units;           /* sampled so far */
	struct role_totals roles;
};

/* Finds or creates the totals; valid until the run ends. NULL if out of memory. */
struct kernel_history *kernel_history_of(const struct kernel *kernel, struct proton_context where);
/*
 * Adds a complete launch, of which `units` warps were sampled on `device`, and sets the contexts of
 * the nodes in `launch`. It stands for `weight` launches, of which the others had other scopes.
 * False if out of memory; then the launch is lost. The caller holds the lock.
 */
bool kernel_history_add(struct kernel_history *history, struct launch_totals *launch,
			uint64_t units, uint64_t weight, const struct device *device);
/* The prices of automatic scopes at the nodes of kernels, for modes with a budget. */
void kernel_history_report_prices(void);
/* At the end of a run, when no reader thread is active. */
void kernel_history_clear(void);
/* After fork(), in the child. */
void kernel_history_forget(void);
