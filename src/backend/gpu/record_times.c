/* Comparison of a vendor's clock with the recorder's. */
#include "backend/gpu/records.h"

#include "base/clock.h"

_Atomic uint64_t record_times_offset_ns;

/* The best of several tries: the shortest interval around the library's time. */
void record_times_measure(bool (*read)(uint64_t *now_ns), clockid_t clock)
{
	uint64_t offset_ns = clock_monotonic_ns() - clock_read_ns(clock);
	uint64_t best_ns = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		uint64_t before_ns = clock_monotonic_ns();
		uint64_t theirs_ns = 0;
		uint64_t taken_ns;

		if (!read(&theirs_ns) || !theirs_ns)
			break;
		taken_ns = clock_monotonic_ns() - before_ns;
		if (taken_ns < best_ns) {
			best_ns = taken_ns;
			offset_ns = before_ns + taken_ns / 2 - theirs_ns;
		}
	}
	atomic_store_explicit(&record_times_offset_ns, offset_ns, memory_order_relaxed);
}
