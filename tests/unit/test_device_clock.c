/* backend/intra/device_clock: how a device's timer is brought onto the clock of the program. */
#include "unit/tap.h"

#include "backend/intra/device_clock.h"

#define MS 1000000
#define LATENCY 4000 /* a device that is idle begins that long after the launch */
#define AHEAD 7000000000ull

static struct device_clock place;

/*
 * The offset after a launch between `before` and `after`, all of it between `first` and `last` on
 * the device, whose timer is AHEAD; relative to that.
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

TEST(a_launch_begins_after_it_was_made_and_ends_before_that_was_seen)
{
	/* Between -3 and 2 ms: so long after its launch as a launch takes. */
	CHECK_EQ(observe(10 * MS, 13 * MS, 18 * MS, 20 * MS), -3 * MS + LATENCY);
	/* A second one says: at least -1; the first one still: at most 2. */
	CHECK_EQ(observe(30 * MS, 31 * MS, 32 * MS, 40 * MS), -1 * MS + LATENCY);
	/* A third one leaves 2000 ns after that and 1900 of drift before: the middle is taken. */
	CHECK_EQ(observe(50 * MS, 55 * MS, 60 * MS, 59 * MS + 2000), -1 * MS - 1900 + 1950);
	CHECK_EQ(place.offset_at_ns, 59 * MS + 2000);
}

TEST(what_was_learned_counts_less_as_the_clocks_drift)
{
	/* From -1 to 1 us. */
	CHECK_EQ(observe(10 * MS, 10 * MS + 1000, 11 * MS, 11 * MS + 1000), 0);
	CHECK_EQ(place.offset_most_ns - place.offset_least_ns, 2000);
	/* After 10 ms 1 us more either way, however little the launch itself tells. */
	observe(12 * MS, 20 * MS, 20 * MS + 1000, 21 * MS + 1000);
	CHECK_EQ(place.offset_least_ns + (int64_t)AHEAD, -1000 - 1000);
	CHECK_EQ(place.offset_most_ns + (int64_t)AHEAD, 1000 + 1000);
	/* After a second 100 us more. */
	observe(900 * MS, 1000 * MS, 1001 * MS, 1021 * MS + 1000);
	CHECK_EQ(place.offset_least_ns + (int64_t)AHEAD, -2000 - 100000);
	CHECK_EQ(place.offset_most_ns + (int64_t)AHEAD, 2000 + 100000);
	/* A launch that was seen before the last one had been adds no drift. */
	observe(900 * MS, 1000 * MS, 1001 * MS, 1020 * MS);
	CHECK_EQ(place.offset_least_ns + (int64_t)AHEAD, -2000 - 100000);
}

TEST(where_a_clock_was_set_it_begins_anew)
{
	CHECK_EQ(observe(10 * MS, 10 * MS + 1000, 11 * MS, 11 * MS + 1000), 0);
	CHECK_EQ(observe(20 * MS, 70 * MS, 75 * MS, 30 * MS), -50 * MS + LATENCY);
	CHECK_EQ(place.offset_most_ns + (int64_t)AHEAD, -45 * MS);
	CHECK_EQ(observe(40 * MS, 10 * MS, 15 * MS, 50 * MS), 30 * MS + LATENCY);
}

TEST(a_launch_without_times_tells_nothing)
{
	struct trace_builder none = {0};
	int64_t offset = observe(10 * MS, 10 * MS + 1000, 11 * MS, 11 * MS + 1000);

	CHECK_EQ(device_clock_offset(&place, 90 * MS, 91 * MS, &none) + (int64_t)AHEAD, offset);
	CHECK_EQ(place.offset_at_ns, 11 * MS + 1000);
}
