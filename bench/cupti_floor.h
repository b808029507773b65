/*
 * The floor: the minimum overhead of any profiler with correlated kernel records. Bare CUPTI with
 * kernel records on, one store in the launch callback, and records that are only counted.
 */
#ifndef BENCH_CUPTI_FLOOR_H
#define BENCH_CUPTI_FLOOR_H

void floor_start(void);
/* Nothing stays subscribed or enabled. */
void floor_stop(void);
/* The number of records so far. */
unsigned long floor_recorded(void);

#endif
