/* Estimates from windows: each node's gains, by group of windows. With the session's lock. */
#ifndef RECORD_STORE_STORE_WINDOWS_H
#define RECORD_STORE_STORE_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/region.h"

struct store;

/* A window in which kernels are recorded. */
struct record_window {
	uint64_t open_ns;  /* monotonic */
	uint64_t close_ns; /* 0: it is open */
	uint32_t group;    /* of model/estimates.h */
	double weight;     /* the time that it stands for, in units of its length */
	double slowness;   /* the rate of the program's steps over that in windows */
};

/* The sums in a row of kernels when it was counted last. */
struct seen_kernel {
	uint64_t total_ns;
	uint64_t count;
};

/* Part of struct store. */
struct store_windows {
	struct region seen;      /* struct seen_kernel, per row of TABLE_KERNELS */
	struct record_window at; /* the open window; open_ns 0: there is none */
	uint64_t active_ns;      /* time during which the session was active */
	uint64_t since_ns;       /* since when it is active; 0: it is not */
	uint64_t written_ns;     /* part of it that is in the root's vector */
	bool has_any;            /* there was a window */
};

/* A window was opened, or is closed: then all of its records have arrived. */
void store_windows_set(struct store *store, const struct record_window *window);
/* The session has ended. */
void store_windows_finish(struct store *store, uint64_t now_ns);

/* The row of a kernel; NULL: it was never counted. */
static inline struct seen_kernel *store_windows_seen(const struct store_windows *windows,
						     uint32_t kernel)
{
	struct seen_kernel *rows = windows->seen.base;

	return region_holds(&windows->seen, (kernel + 1ull) * sizeof(*rows)) ? &rows[kernel] : NULL;
}

/* A row of kernels is new. */
static inline void store_windows_forget_kernel(const struct store_windows *windows, uint32_t kernel)
{
	struct seen_kernel *seen = store_windows_seen(windows, kernel);

	if (seen)
		*seen = (struct seen_kernel){0};
}

static inline uint64_t store_windows_active(const struct store_windows *windows, uint64_t now_ns)
{
	return windows->active_ns +
	       (windows->since_ns && now_ns > windows->since_ns ? now_ns - windows->since_ns : 0);
}

static inline void store_windows_set_active(struct store_windows *windows, bool is_active,
					    uint64_t now_ns)
{
	windows->active_ns = store_windows_active(windows, now_ns);
	windows->since_ns = is_active ? now_ns : 0;
}

#endif
