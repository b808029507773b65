/* model/rollup: sums over subtrees, exact integers, extremes, devices, names. */
#include "unit/tap.h"

#include "model/rollup.h"

static uint32_t metric(struct profile *profile, const char *name, enum proton_metric_type type,
		       uint16_t flags)
{
	return profile_metric(profile, profile_add_text(profile, name), (uint16_t)type, flags);
}

/* ROOT(0) - a(1) - b(2) - c(3), and ROOT - d(4). */
static struct profile *tree(void)
{
	struct profile *profile = profile_new();
	uint32_t a = profile_node(profile, 0, 0);
	uint32_t b = profile_node(profile, a, 0);

	profile_node(profile, b, 0);
	profile_node(profile, 0, 0);
	return profile;
}

TEST(integers_are_exact_beyond_what_doubles_hold)
{
	struct profile *profile = tree();
	uint32_t flops = metric(profile, "flops", PROTON_METRIC_INT64, 0);
	struct column column;

	profile_value(profile, 1, flops)->as.int64 = (1ll << 53) + 1;
	profile_value(profile, 3, flops)->as.int64 = (1ll << 53) + 2;
	profile_value(profile, 4, flops)->as.int64 = -4;
	CHECK_EQ(rollup_metric(profile, "flops", true, &column, NULL), PROTON_OK);
	CHECK(column.is_inclusive && column.exact);
	CHECK_EQ(column.exact[3], (1ll << 53) + 2);
	CHECK_EQ(column.exact[2], (1ll << 53) + 2);
	CHECK_EQ(column.exact[1], (1ll << 54) + 3);
	CHECK_EQ(column.exact[0], (1ll << 54) - 1);
	CHECK_NEAR(column.value[0], (double)((1ll << 54) - 1), 0);
	column_fini(&column);
	profile_free(profile);
}

TEST(exclusive_columns_are_empty_without_a_value)
{
	struct profile *profile = tree();
	uint32_t bytes = metric(profile, "bytes", PROTON_METRIC_DOUBLE, METRIC_EXCLUSIVE);
	struct column column;

	profile_value(profile, 2, bytes)->as.float64 = 0.25;
	profile_value(profile, 2, bytes)->as.float64 = 0.5;
	CHECK_EQ(rollup_metric(profile, "bytes", false, &column, NULL), PROTON_OK);
	CHECK(!column.is_inclusive && !column.exact);
	CHECK_NEAR(column.value[2], 0.75, 0);
	CHECK(isnan(column.value[0]) && isnan(column.value[1]) && isnan(column.value[3]));
	column_fini(&column);
	CHECK_EQ(rollup_metric(profile, "bytes", true, &column, NULL), PROTON_OK);
	CHECK_NEAR(column.value[0], 0.75, 0);
	CHECK_NEAR(column.value[3], 0, 0);
	column_fini(&column);
	profile_free(profile);
}

TEST(sums_that_overflow_lose_exactness_only)
{
	struct profile *profile = tree();
	uint32_t big = metric(profile, "big", PROTON_METRIC_INT64, 0);
	struct column column;

	profile_value(profile, 3, big)->as.int64 = INT64_MAX;
	profile_value(profile, 4, big)->as.int64 = INT64_MAX;
	CHECK_EQ(rollup_metric(profile, "big", true, &column, NULL), PROTON_OK);
	CHECK(!column.exact);
	CHECK_NEAR(column.value[0], 2 * 9223372036854775807.0, 0);
	column_fini(&column);
	profile_free(profile);
}

TEST(nan_does_not_spread)
{
	struct profile *profile = tree();
	uint32_t odd = metric(profile, "odd", PROTON_METRIC_DOUBLE, 0);
	struct column column;

	profile_value(profile, 3, odd)->as.float64 = NAN;
	profile_value(profile, 4, odd)->as.float64 = 2;
	CHECK_EQ(rollup_metric(profile, "odd", true, &column, NULL), PROTON_OK);
	CHECK_NEAR(column.value[0], 2, 0);
	column_fini(&column);
	profile_free(profile);
}

static struct profile_kernel *kernel(struct profile *profile, uint32_t node, uint32_t device,
				     uint64_t count, uint64_t total, uint64_t min, uint64_t max)
{
	struct profile_kernel *row = profile_kernel(profile, node, device);

	row->count = count;
	row->total_ns = total;
	row->min_ns = min;
	row->max_ns = max;
	return row;
}

TEST(kernels_of_all_devices_roll_up)
{
	struct profile *profile = tree();
	uint32_t cuda = profile_add_text(profile, "CUDA");
	uint32_t one = profile_device(profile, cuda, 0);
	uint32_t two = profile_device(profile, cuda, 1);
	struct column column;

	kernel(profile, 3, one, 2, 30, 10, 20);
	kernel(profile, 3, two, 1, 5, 5, 5);
	kernel(profile, 4, one, 1, 100, 100, 100);
	CHECK_EQ(rollup_metric(profile, "time (ns)", true, &column, NULL), PROTON_OK);
	CHECK_EQ(column.exact[0], 135);
	CHECK_EQ(column.exact[1], 35);
	column_fini(&column);
	rollup_metric(profile, "count", false, &column, NULL);
	CHECK_EQ(column.exact[3], 3);
	CHECK(isnan(column.value[1]));
	column_fini(&column);
	rollup_extreme(profile, true, &column, NULL);
	CHECK_NEAR(column.value[0], 5, 0);
	CHECK_NEAR(column.value[4], 100, 0);
	column_fini(&column);
	rollup_extreme(profile, false, &column, NULL);
	CHECK_NEAR(column.value[0], 100, 0);
	CHECK_NEAR(column.value[1], 20, 0);
	column_fini(&column);
	profile_free(profile);
}

TEST(an_extreme_of_some_kernels_is_unknown)
{
	struct profile *profile = tree();
	uint32_t device = profile_device(profile, profile_add_text(profile, "CUDA"), 0);
	struct column column;

	kernel(profile, 3, device, 2, 30, KERNEL_TIME_UNKNOWN, KERNEL_TIME_UNKNOWN);
	kernel(profile, 2, device, 1, 10, 10, 10);
	kernel(profile, 4, device, 1, 7, 7, 7);
	rollup_extreme(profile, true, &column, NULL);
	CHECK(isnan(column.value[0]) && isnan(column.value[1]) && isnan(column.value[2]));
	CHECK(isnan(column.value[3]));
	CHECK_NEAR(column.value[4], 7, 0);
	column_fini(&column);
	profile_free(profile);
}

TEST(time_and_count_add_kernels_and_metrics)
{
	struct profile *profile = tree();
	uint32_t time = metric(profile, "time (ns)", PROTON_METRIC_INT64, METRIC_EXCLUSIVE);
	uint32_t device = profile_device(profile, profile_add_text(profile, "CUDA"), 0);
	struct column column;

	CHECK(!rollup_is_inclusive(profile, "time (ns)"));
	CHECK(!rollup_has(profile, "count"));
	profile_value(profile, 1, time)->as.int64 = 1000;
	kernel(profile, 3, device, 1, 30, 30, 30);
	CHECK(rollup_is_inclusive(profile, "time (ns)"));
	CHECK(rollup_has(profile, "count"));
	rollup_metric(profile, "time (ns)", true, &column, NULL);
	CHECK_EQ(column.exact[0], 1030);
	CHECK_EQ(column.exact[2], 30);
	column_fini(&column);
	profile_free(profile);
}

TEST(metrics_that_are_not_numbers_are_not_found)
{
	struct profile *profile = tree();
	struct proton_error err;
	struct column column;

	metric(profile, "note", PROTON_METRIC_STRING, 0);
	CHECK(!rollup_has(profile, "note"));
	CHECK_EQ(rollup_metric(profile, "note", true, &column, &err), PROTON_E_RANGE);
	CHECK_STR(err.text, "Metric note is not found.");
	CHECK_EQ(rollup_metric(profile, "time (ns)", true, &column, &err), PROTON_E_RANGE);
	CHECK(!rollup_is_inclusive(profile, "nothing"));
	profile_free(profile);
}

TEST(a_deep_tree_rolls_up)
{
	struct profile *profile = profile_new();
	uint32_t one = metric(profile, "one", PROTON_METRIC_INT64, 0);
	struct column column;
	uint32_t node = 0;

	for (int i = 0; i < 200000; i++) {
		node = profile_node(profile, node, 0);
		profile_value(profile, node, one)->as.int64 = 1;
	}
	rollup_metric(profile, "one", true, &column, NULL);
	CHECK_EQ(column.exact[0], 200000);
	CHECK_EQ(column.exact[100001], 100000);
	column_fini(&column);
	profile_free(profile);
}
