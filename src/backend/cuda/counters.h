/*
 * Hardware counters of kernels, measured on a few launches of each: docs/design/counters.md. Such a
 * launch is in a range of CUPTI's range profiler, during which no other thread launches. Its record
 * has no true time, and is dropped.
 *
 * counters.c decides which launches are measured, range_session.c has CUPTI's calls, counter_sets.c
 * the counters, counter_kernels.c the values of each kernel.
 */
#pragma once

#include <stdbool.h>

#include "record/backend.h"

/* After callbacks and records have begun. Ranges may cost this share of the time. */
void counters_start(double share);
/* Ends the ranges. Later calls of launches are counted still, until CUPTI is left. */
void counters_stop(void);
/*
 * True if this process has used the range profiler. CUPTI is not left then: leaving was only tried
 * with records and PC sampling.
 */
bool counters_were_used(void);
/* CUPTI was left. */
void counters_leave(void);
/* Adds the values of finished work to the profile. */
void counters_flush(void);
/* At intervals: reads full images. */
void counters_on_round(void);
/* The backend has stopped. */
void counters_clear(void);
void counters_forked(void);
void counters_describe(backend_add_fn add, void *user);
