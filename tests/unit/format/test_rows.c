/* format/rows: the histogram's buckets are in order, agree with their starts and end correctly. */
#include "unit/tap.h"

#include "format/rows.h"

TEST(bucket_starts_rise)
{
	for (uint32_t i = 1; i < HISTOGRAM_BUCKETS; i++)
		CHECK_LT(histogram_bucket_start_ns(i - 1), histogram_bucket_start_ns(i));
	CHECK_U64(histogram_bucket_start_ns(0), 32);
	CHECK_U64(histogram_bucket_start_ns(1), 48);
	CHECK_U64(histogram_bucket_start_ns(2), 64);
}

TEST(a_start_belongs_to_its_bucket_and_the_value_before_it_does_not)
{
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		CHECK_EQ(histogram_bucket(histogram_bucket_start_ns(i)), i);
		if (i > 0)
			CHECK_EQ(histogram_bucket(histogram_bucket_start_ns(i) - 1), i - 1);
	}
}

TEST(buckets_never_fall_as_durations_rise)
{
	uint32_t last = 0;

	for (uint64_t ns = 0; ns < 100000; ns++) {
		uint32_t bucket = histogram_bucket(ns);

		CHECK_LE(last, bucket);
		CHECK_LE(bucket, last + 1);
		last = bucket;
	}
	for (uint64_t ns = 100000; ns < UINT64_MAX / 2; ns += ns / 97) {
		uint32_t bucket = histogram_bucket(ns);

		CHECK_LE(last, bucket);
		last = bucket;
	}
}

TEST(the_end_buckets_take_values_beyond_them)
{
	CHECK_EQ(histogram_bucket(0), 0);
	CHECK_EQ(histogram_bucket(1), 0);
	CHECK_EQ(histogram_bucket(31), 0);
	CHECK_EQ(histogram_bucket(UINT64_MAX), HISTOGRAM_BUCKETS - 1);
	CHECK_EQ(histogram_bucket(histogram_bucket_start_ns(63) * 2), HISTOGRAM_BUCKETS - 1);
}

/* The file is mapped without conversion: these numbers are the format, see docs/format.md. */
TEST(ids_in_the_file_never_change)
{
	CHECK_EQ(TABLE_STRINGS, 0);
	CHECK_EQ(TABLE_FRAMES, 1);
	CHECK_EQ(TABLE_NODES, 2);
	CHECK_EQ(TABLE_METRICS, 3);
	CHECK_EQ(TABLE_VALUES, 4);
	CHECK_EQ(TABLE_KERNELS, 5);
	CHECK_EQ(TABLE_HISTOGRAMS, 6);
	CHECK_EQ(TABLE_VECTORS, 7);
	CHECK_EQ(TABLE_DEVICES, 8);
	CHECK_EQ(TABLE_INFO, 9);
	CHECK_EQ(TABLE_COUNTERS, 10);
	CHECK_EQ(TABLE_EPOCHS, 11);
	CHECK_EQ(TABLE_LANES, 12);
	CHECK_EQ(TABLE_EVENTS, 13);
	CHECK_EQ(TABLE_SAMPLES, 14);
	CHECK_EQ(TABLE_LAUNCHES, 15);
	CHECK_EQ(TABLE_RANKS, 23);
	CHECK_EQ(TABLE_SPREADS, 24);
	CHECK_EQ(TABLE_VALUE_SPREADS, 25);
	CHECK_EQ(TABLE_COLUMNS, 26);
	CHECK_EQ(TABLE_CELLS, 27);
	CHECK_EQ(LANE_THREAD, 1);
	CHECK_EQ(LANE_STREAM, 2);
	CHECK_EQ(EVENT_NONE, 0);
	CHECK_EQ(EVENT_SCOPE, 1);
	CHECK_EQ(EVENT_LAUNCH, 2);
	CHECK_EQ(EVENT_KERNEL, 3);
	CHECK_EQ(EVENT_COPY, 4);
	CHECK_EQ(EVENT_SET, 5);
	CHECK_EQ(EVENT_OF_GRAPH, 1);
	CHECK_EQ(EVENT_NAMED, 2);
	CHECK_EQ(EVENT_OF_MEMORY, 4);
	CHECK_EQ(FRAME_ROOT, 0);
	CHECK_EQ(FRAME_NAME, 1);
	CHECK_EQ(FRAME_SOURCE, 2);
	CHECK_EQ(FRAME_KERNEL, 3);
	CHECK_EQ(METRIC_EXCLUSIVE, 1);
	CHECK_EQ(METRIC_PROPERTY, 2);
	CHECK_EQ(sizeof(PROFILE_FILE_MAGIC), 9);
}
