/*
 * Times of records: the vendor's library has its own clock, and the recorder uses
 * clock_monotonic_ns(). At most one backend of a GPU vendor uses it at a time.
 */
#ifndef BACKEND_GPU_RECORD_TIMES_H
#define BACKEND_GPU_RECORD_TIMES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

extern _Atomic uint64_t record_times_offset_ns; /* added to the library's times; wraps */

/* The library uses the recorder's clock. */
static inline void record_times_are_ours(void)
{
	atomic_store_explicit(&record_times_offset_ns, 0, memory_order_relaxed);
}

/*
 * Compares both clocks. `read` gives the library's time now, or returns false; then the library
 * counts like `clock`.
 */
void record_times_measure(bool (*read)(uint64_t *now_ns), clockid_t clock);

/* Converts the time of a record; 0 stays "unknown". */
static inline uint64_t record_times_convert(uint64_t their_ns)
{
	return their_ns ? their_ns + atomic_load_explicit(&record_times_offset_ns,
							  memory_order_relaxed)
			: 0;
}

#endif
