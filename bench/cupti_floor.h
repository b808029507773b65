/*
 * The floor: the minimum overhead of any profiler with correlated kernel records. Bare CUPTI with
 * kernel records on, one store in the launch callback, and records that are only counted.
 */
#pragma once

#include <stdbool.h>

void floor_start(void);
/*
 * Can it run before a session of this process? It uses CUPTI's first interface, which then excludes
 * the second one until the process ends, so not with PROTON_CUPTI_INTERFACE=2.
 */
bool floor_is_possible(void);
/* Nothing stays subscribed or enabled. */
void floor_stop(void);
/* The number of records so far. */
unsigned long floor_recorded(void);

/*
 * cupti_floor_samples.c: samples PCs of the current context continuously, one per 2^`period`
 * cycles, after floor_start(). CUPTI's thread sleeps `sleep_ms` after each decoding, and a thread
 * reads what was decoded every `interval_ms`; 0: never; negative: the context is enabled, but not
 * started.
 */
void floor_sample(unsigned period, unsigned sleep_ms, int interval_ms);
void floor_sample_stop(void);
/* Since the last call: samples, those of no user code, ns in reads, times a buffer was full. */
void floor_sampled(unsigned long taken[4]);
