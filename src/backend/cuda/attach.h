/* Attaching to CUPTI and leaving it: docs/design/other-tools.md has safe orders and their costs. */
#pragma once

#include "backend/cuda/cuda_mode.h"
#include "backend/cuda/windows.h"
#include "record/backend.h"

/* Wanted records, beside the kernels. */
struct attach_wishes {
	bool memory;
	struct cuda_mode mode;
};

/* Begins to record. On failure CUPTI is released. */
int attach_begin(const struct attach_wishes *wishes, struct proton_error *err);
/*
 * Ends recording, after a flush. CUPTI is left if that is safe, and worth the GPU memory that
 * attaching again costs; else it stays attached, which is printed once where it costs much.
 */
void attach_end(const struct attach_wishes *wishes);
/*
 * Ends a window, after a flush: records end, and CUPTI is left if that is safe and `leaves`.
 * `*end_out`: launches after that time have no records. False: records stay on.
 */
bool attach_pause(const struct attach_wishes *wishes, bool leaves, struct window_edge *end_out);
/* The GPU memory that attaching has kept in this process, or will have kept `and_next` time. */
uint64_t attach_memory_bytes(bool and_next);
/*
 * False if a single thread that cannot be held replays graphs: records stay on while its session is
 * deactivated, because that thread can leave CUPTI when it ends the session, but only if no graph
 * was replayed without records.
 */
bool attach_may_rest(void);
/* After an end: leaves CUPTI if it has stayed attached. False if it is attached still. */
bool attach_leave(void);
/* In the child of a fork, which calls nothing of CUPTI. */
void attach_forked(void);
void attach_describe(backend_add_fn add, void *user);
