/* Time spent in callbacks, without the time of reading the clock. In each fake that includes it. */
#ifndef TESTS_FAKE_CALLBACK_TIME_H
#define TESTS_FAKE_CALLBACK_TIME_H

#include <stdatomic.h>

#include "base/clock.h"
#include "fake/fake_cupti.h"

static _Atomic uint64_t callback_time_ns;
static _Atomic bool callback_time_is_on; /* after the first question */
static _Atomic uint64_t callback_time_clock_ns;

static inline uint64_t callback_time_begin(void)
{
	return atomic_load_explicit(&callback_time_is_on, memory_order_relaxed)
		       ? clock_monotonic_ns()
		       : 0;
}

static inline void callback_time_end(uint64_t start_ns)
{
	uint64_t clock_ns = atomic_load_explicit(&callback_time_clock_ns, memory_order_relaxed);
	uint64_t spent_ns;

	if (!start_ns)
		return;
	spent_ns = clock_monotonic_ns() - start_ns;
	atomic_fetch_add_explicit(&callback_time_ns, spent_ns > clock_ns ? spent_ns - clock_ns : 0,
				  memory_order_relaxed);
}

FAKE_EXPORT uint64_t fake_take_callback_ns(void)
{
	uint64_t min_ns = UINT64_MAX;

	for (int i = 0; i < 64; i++) {
		uint64_t start_ns = clock_monotonic_ns();
		uint64_t spent_ns = clock_monotonic_ns() - start_ns;

		min_ns = spent_ns < min_ns ? spent_ns : min_ns;
	}
	atomic_store(&callback_time_clock_ns, min_ns);
	atomic_store(&callback_time_is_on, true);
	return atomic_exchange(&callback_time_ns, 0);
}

#endif
