/* Device clock: converting global timer values to the host clock. */
#include "unit/tap.h"

#include "backend/intra/device_clock.h"

#define MS 1000000
#define LATENCY 4000 /* time from the launch to the first instruction on an idle device */
#define AHEAD 7000000000ull

static struct device_clock place;

/*
 * The offset after a launch between `before` and `after` that ran from `first` to `last` by the
 * global timer, which is AHEAD; relative to AHEAD.
 */
static int64_t observe(uint64_t before, uint64_t first, uint64_t last, uint64_t after)
{
	struct intra_unit units[] = {
		{.start_ns = AHEAD + first + 10, .end_ns = AHEAD + last},
		{.start_ns = AHEAD + first, .end_ns = AHEAD + last - 10},
	};
	struct trace_builder builder = {.units = units, .unit_count = 2};

	return device_clock_offset(&place, before, after, &builder) + (int64_t)AHEAD;
}

TEST(offset_is_bounded_by_launch_and_end)
{
	/* Between -3 and 2 ms: the launch latency is added to the minimum. */
	CHECK_EQ(observe(10 * MS, 13 * MS, 18 * MS, 20 * MS), -3 * MS + LATENCY);
	/* The second launch gives at least -1; the first still gives at most 2. */
	CHECK_EQ(observe(30 * MS, 31 * MS, 32 * MS, 40 * MS), -1 * MS + LATENCY);
	/* The third leaves a range of 2000 ns and 1900 of drift: the middle is used. */
	CHECK_EQ(observe(50 * MS, 55 * MS, 60 * MS, 59 * MS + 2000), -1 * MS - 1900 + 1950);
	CHECK_EQ(place.offset_at_ns, 59 * MS + 2000);
}

TEST(bounds_widen_as_clocks_drift)
{
	/* From -1 to 1 us. */
	CHECK_EQ(observe(10 * MS, 10 * MS + 1000, 11 * MS, 11 * MS + 1000), 0);
	CHECK_EQ(place.offset_max_ns - place.offset_min_ns, 2000);
	/* After 10 ms both bounds are 1 us wider, no matter how little the launch itself tells. */
	observe(12 * MS, 20 * MS, 20 * MS + 1000, 21 * MS + 1000);
	CHECK_EQ(place.offset_min_ns + (int64_t)AHEAD, -1000 - 1000);
	CHECK_EQ(place.offset_max_ns + (int64_t)AHEAD, 1000 + 1000);
	/* After a second, 100 us wider. */
	observe(900 * MS, 1000 * MS, 1001 * MS, 1021 * MS + 1000);
	CHECK_EQ(place.offset_min_ns + (int64_t)AHEAD, -2000 - 100000);
	CHECK_EQ(place.offset_max_ns + (int64_t)AHEAD, 2000 + 100000);
	/* A launch seen before the previous one adds no drift. */
	observe(900 * MS, 1000 * MS, 1001 * MS, 1020 * MS);
	CHECK_EQ(place.offset_min_ns + (int64_t)AHEAD, -2000 - 100000);
}

TEST(bounds_are_replaced_after_a_clock_was_set)
{
	CHECK_EQ(observe(10 * MS, 10 * MS + 1000, 11 * MS, 11 * MS + 1000), 0);
	CHECK_EQ(observe(20 * MS, 70 * MS, 75 * MS, 30 * MS), -50 * MS + LATENCY);
	CHECK_EQ(place.offset_max_ns + (int64_t)AHEAD, -45 * MS);
	CHECK_EQ(observe(40 * MS, 10 * MS, 15 * MS, 50 * MS), 30 * MS + LATENCY);
}

TEST(launch_without_times_changes_nothing)
{
	struct trace_builder none = {0};
	int64_t offset = observe(10 * MS, 10 * MS + 1000, 11 * MS, 11 * MS + 1000);

	CHECK_EQ(device_clock_offset(&place, 90 * MS, 91 * MS, &none) + (int64_t)AHEAD, offset);
	CHECK_EQ(place.offset_at_ns, 11 * MS + 1000);
}
