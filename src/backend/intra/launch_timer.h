/*
 * Times of launches by events before and after them, for closed loops. A launch waits for nothing:
 * its time is read by a later one, or never.
 */
#pragma once

#include "backend/intra/closed_loop.h"

/*
 * A launch of this thread on `stream` begins: one of the loop's variant, which is not captured;
 * NULL: not timed. A kernel that another thread launches until the end would be in the time, so
 * such a time is not used.
 */
void launch_timer_begin(struct loop *loop, uint32_t variant, uint64_t stream);
/* That launch was made; without one, nothing happens. */
void launch_timer_end(uint64_t stream);
/* Gives the times of launches that have ended to their loops. */
void launch_timers_read(void);
/* At the end of a run. */
void launch_timers_clear(void);
/* After fork(), in the child. */
void launch_timers_forget(void);
