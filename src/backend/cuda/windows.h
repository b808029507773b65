/*
 * Windows in which kernels are recorded: when the next one opens or closes, and what is done in
 * between. docs/design/windows.md. The functions are called by one caller of backend_use.c at a
 * time.
 */
#pragma once

#include "backend/cuda/cuda_mode.h"
#include "record/backend.h"

/* The time at which a window opens or closes, and the steps of the program until then. */
struct window_edge {
	uint64_t ns;
	uint64_t steps;
};

/* With the first session; the first window opens with windows_open(). `move` opens or closes. */
void windows_start(const struct windows_mode *mode, void (*move)(void));
/* Ends the thread that calls `move`. */
void windows_stop(void);

/* False if attaching again would keep too much GPU memory: there are no more windows. */
bool windows_may_open(void);
/* Records are on. */
void windows_open(void);
/* True if leaving CUPTI until the next window costs less. `kernels`: of graphs, in the window. */
bool windows_should_leave(uint64_t kernels);
/* Records have ended, and all have arrived; launches after that time have none. */
void windows_close(const struct window_edge *end);
/* The window could not be opened or closed, or needs not: another try follows. */
void windows_wait(void);

void windows_describe(backend_add_fn add, void *user);

/* For tests: as if that time had passed; moves the window if it is time. */
void windows_skip(uint64_t ns);
