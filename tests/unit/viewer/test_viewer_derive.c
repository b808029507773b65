/* viewer/derive, metrics, util, peaks, nearest, number_format: numbers by the formulas. */
#include "unit/tap.h"

#include "base/strings.h"
#include "unit/viewer_build.h"
#include "viewer/numbers/utilization.h"
#include "viewer/print/number_format.h"
#include "viewer/query/derive.h"
#include "viewer/query/filter.h"

static struct proton_error err;

/* scope ( one, two ) on an H100; a third kernel on an RTX 4090; a timed scope. */
struct fixture {
	struct profile *profile;
	struct metrics metrics;
	uint8_t *state;
	uint32_t scope, one, two, three;
};

static struct fixture set_up(void)
{
	struct fixture f = {.profile = profile_new()};

	f.scope = build_node(f.profile, 0, "scope");
	f.one = build_node(f.profile, f.scope, "one");
	f.two = build_node(f.profile, f.scope, "two");
	f.three = build_node(f.profile, 0, "three");
	build_kernel(f.profile, f.one, "CUDA", 1, 10, 204800);
	build_kernel(f.profile, f.two, "CUDA", 1, 2, 100000);
	build_kernel(f.profile, f.three, "CUDA", 0, 1, 204800);
	build_number(f.profile, f.one, "flops8", 0, 1e11);
	build_number(f.profile, f.one, "bytes", 0, 1e8);
	build_number(f.profile, f.three, "flops8", 0, 1e10);
	build_number(f.profile, f.three, "bytes", 0, 1e7);
	build_number(f.profile, f.two, "flops", 0, 5e9);
	build_number(f.profile, f.scope, "cpu_time (ns)", METRIC_EXCLUSIVE, 600000);
	build_number(f.profile, f.scope, "Loss/Step", METRIC_PROPERTY, 0.5);
	build_device(f.profile, "CUDA", 0, "89", 2625000, 10501000, 384, 128);
	build_device(f.profile, "CUDA", 1, "90", 1980000, 2619000, 6144, 132);
	CHECK(!f.profile->out_of_memory);
	f.state = filter_prune(f.profile);
	metrics_init(&f.metrics, f.profile);
	return f;
}

static void tear_down(struct fixture *f)
{
	metrics_fini(&f->metrics);
	free(f->state);
	profile_free(f->profile);
}

static double value(struct fixture *f, const char *name, uint32_t node)
{
	struct metric_column column;

	CHECK_OK(derive_column(&f->metrics, name, &column, &err), err);
	CHECK(column.values != NULL);
	double result = column.values[node];
	metric_column_fini(&column);
	return result;
}

static void check_value(struct fixture *f, const char *name, uint32_t node, double expected)
{
	double actual = value(f, name, node);

	if (isnan(expected))
		CHECK(isnan(actual));
	else
		CHECK_NEAR(actual, expected, 1e-12 * fabs(expected));
}

TEST(times_are_inclusive_in_every_unit)
{
	struct fixture f = set_up();

	check_value(&f, "time/s", 0, 509600e-9);
	check_value(&f, "time/ms", f.scope, 0.3048);
	check_value(&f, "time/us", f.one, 204.8);
	check_value(&f, "time/ns", f.three, 204800);
	check_value(&f, "time", f.scope, 304800);
	check_value(&f, "count", f.scope, 12);
	check_value(&f, "avg_time/us", f.one, 20.48);
	check_value(&f, "avg_time/us", f.scope, 25.4);
	check_value(&f, "min_time/us", f.scope, 10.24);
	check_value(&f, "max_time/us", 0, 409.6);
	check_value(&f, "time/%", f.scope, 100.0 * 304800 / 509600);
	tear_down(&f);
}

TEST(cpu_time_is_exclusive_and_averaged_over_kernels)
{
	struct fixture f = set_up();

	check_value(&f, "cpu_time/us", f.scope, 600);
	check_value(&f, "cpu_time/us", 0, NAN);
	check_value(&f, "avg_cpu_time/us", f.scope, 50);
	check_value(&f, "cpu_time/%", f.scope, 100);
	tear_down(&f);
}

TEST(rates_divide_rolled_up_work_by_rolled_up_time)
{
	struct fixture f = set_up();

	check_value(&f, "flop8/s", f.one, 1e11 / 204800e-9);
	check_value(&f, "gflop8/s", f.scope, 1e11 / 304800e-9 / 1e9);
	check_value(&f, "tflop8/s", 0, 1.1e11 / 509600e-9 / 1e12);
	check_value(&f, "flop/s", f.two, 5e9 / 100000e-9);
	check_value(&f, "gbyte/s", 0, 1.1e8 / 509600e-9 / 1e9);
	check_value(&f, "flop8/s", f.two, 0);
	tear_down(&f);
}

TEST(work_without_time_has_no_rate)
{
	struct profile *profile = profile_new();
	uint32_t captured = build_node(profile, 0, "captured");
	uint32_t ran = build_node(profile, 0, "ran");
	struct fixture f = {.profile = profile};

	build_number(profile, captured, "bytes", 0, 100);
	build_kernel(profile, ran, "CUDA", 0, 1, 50);
	metrics_init(&f.metrics, profile);
	check_value(&f, "byte/s", captured, NAN);
	check_value(&f, "byte/s", ran, 0);
	check_value(&f, "byte/s", 0, 100 / 50e-9);
	tear_down(&f);
}

TEST(util_is_of_the_node_itself_and_its_device)
{
	struct fixture f = set_up();

	CHECK_NEAR(value(&f, "util", f.one), 0.247044, 1e-6);
	CHECK_NEAR(value(&f, "util", f.three), 0.147830, 1e-6);
	check_value(&f, "util", f.two, 0); /* operations without a width do not count */
	check_value(&f, "util", f.scope, NAN);
	check_value(&f, "util", 0, NAN);
	tear_down(&f);
}

/* The minimum time that a device needs for the given 8-bit operations and bytes. */
static void check_minimum(const char *type, const char *arch, uint64_t clock_khz,
			  uint64_t memory_clock_khz, uint64_t bus_width_bits, uint64_t processors,
			  double flops8, double bytes, double flop_time_s, double byte_time_s)
{
	struct profile *profile = profile_new();
	uint32_t node = build_node(profile, 0, "k");
	struct metrics metrics;
	struct util util;

	build_kernel(profile, node, type, 3, 1, 204800);
	build_device(profile, type, 3, arch, clock_khz, memory_clock_khz, bus_width_bits,
		     processors);
	build_number(profile, node, "flops8", 0, flops8);
	build_number(profile, node, "bytes", 0, bytes);
	metrics_init(&metrics, profile);
	util_init(&util, &metrics);
	CHECK_NEAR(util_min_flop_time_s(&util, node), flop_time_s, 0.02 * flop_time_s);
	CHECK_NEAR(util_min_byte_time_s(&util, node), byte_time_s, 1e-5 * byte_time_s);
	util_fini(&util);
	metrics_fini(&metrics);
	profile_free(profile);
}

TEST(peaks_are_those_of_the_architecture)
{
	check_minimum("CUDA", "80", 1410000, 1215000, 5120, 108, 6.24e10, 1.5552e6, 1e-4, 1e-6);
	check_minimum("CUDA", "89", 2625000, 10501000, 384, 128, 1e10, 1e7, 3.0276e-5, 9.91969e-6);
	check_minimum("CUDA", "90", 1980000, 2619000, 6144, 132, 1e11, 1e8, 5.0595e-5, 2.48584e-5);
	check_minimum("CUDA", "100", 1700000, 3996000, 8192, 148, 1e11, 1e7, 2.4259e-5,
		      1.221925e-6);
	check_minimum("HIP", "gfx90a", 1700000, 0, 0, 104, 1e10, 1e7, 5.5e-5, 3.125e-6);
	check_minimum("HIP", "gfx942", 2100000, 0, 0, 304, 1e11, 1e8, 3.8e-5, 1e8 / 5.3e12);
	check_minimum("HIP", "gfx950:xnack-", 2200000, 0, 0, 256, 1e12, 1e9, 2.17e-4, 1.25e-4);
}

/* Peak rates from vendors for a device with that many SMs at that clock, in Tflop/s. */
static void check_rates(const char *type, const char *arch, uint64_t clock_khz, uint64_t units,
			const double tflop_per_s[PEAK_WIDTHS])
{
	struct profile *profile = profile_new();
	struct peaks peaks;

	build_device(profile, type, 0, arch, clock_khz, 1000000, 256, units);
	CHECK(peaks_find(profile, &profile->devices[0], &peaks));
	for (size_t w = 0; w < PEAK_WIDTHS; w++)
		CHECK_NEAR(peaks.flop_per_s[w] / 1e12, tflop_per_s[w], tflop_per_s[w] * 0.06);
	CHECK(peaks.byte_per_s > 0);
	profile_free(profile);
}

TEST(rates_are_those_of_the_vendor_for_a_device)
{
	check_rates("CUDA", "70", 1530000, 80, (double[]){62.7, 62.7, 125, 15.7, 7.8});
	check_rates("CUDA", "75", 1590000, 40, (double[]){260, 130, 65, 8.1, 0.25});
	check_rates("CUDA", "86", 1740000, 84, (double[]){599, 299, 150, 37.4, 0.58});
	check_rates("CUDA", "87", 1300000, 16, (double[]){170, 85, 42.6, 21.3, 0.083});
	check_rates("CUDA", "103", 1920000, 160, (double[]){15000, 5000, 2500, 1250, 1.23});
	check_rates("CUDA", "110", 1575000, 20, (double[]){1035, 517, 258, 129, 0.126});
	check_rates("CUDA", "120", 2407000, 170, (double[]){1676, 838, 419, 104.8, 1.64});
	check_rates("CUDA", "121", 2500000, 48, (double[]){500, 250, 125, 31, 0.48});
	check_rates("HIP", "gfx908", 1502000, 120, (double[]){184.6, 184.6, 184.6, 46.1, 11.5});
	check_rates("HIP", "gfx1100", 2500000, 96, (double[]){245.6, 122.8, 122.8, 61.4, 1.92});
	check_rates("HIP", "gfx1101", 2430000, 60, (double[]){149.3, 74.65, 74.65, 37.3, 1.17});
	check_rates("HIP", "gfx1200", 3130000, 32, (double[]){410, 205, 103, 25.6, 0.4});
	check_rates("HIP", "gfx1201", 2970000, 64, (double[]){779, 389, 195, 48.7, 0.76});
}

TEST(user_defined_peaks_replace_built_in_ones)
{
	struct profile *profile = profile_new();
	struct peaks peaks;

	build_device(profile, "CPU", 0, "x86_64", 0, 0, 0, 8);
	CHECK_EQ(peaks_set_own("flops16=2e12,", &err), PROTON_E_INVALID);
	CHECK_EQ(peaks_set_own("flops3=2e12", &err), PROTON_E_INVALID);
	CHECK_EQ(peaks_set_own("bytes=0", &err), PROTON_E_INVALID);
	CHECK_OK(peaks_set_own("flops16=2e12,bytes=3e9", &err), err);
	CHECK(peaks_find(profile, &profile->devices[0], &peaks));
	CHECK_NEAR(peaks.flop_per_s[2], 2e12, 0);
	CHECK_NEAR(peaks.byte_per_s, 3e9, 0);
	CHECK(isnan(peaks.flop_per_s[1]));
	profile_free(profile);
}

TEST(an_unknown_architecture_has_no_peaks)
{
	struct profile *profile = profile_new();
	struct peaks peaks;

	build_device(profile, "CUDA", 0, "9", 1980000, 2619000, 6144, 132);
	build_device(profile, "CUDA", 1, "900", 1980000, 2619000, 6144, 132);
	build_device(profile, "HIP", 0, "90", 1980000, 2619000, 6144, 132);
	build_device(profile, "CPU", 0, "x86_64", 0, 0, 0, 8);
	for (size_t i = 0; i < profile->device_count; i++)
		CHECK(!peaks_find(profile, &profile->devices[i], &peaks));
	build_device(profile, "cuda", 2, "90", 1755000, 2619000, 6144, 114);
	CHECK(peaks_find(profile, &profile->devices[profile->device_count - 1], &peaks));
	CHECK_NEAR(peaks.flop_per_s[0], 1513e12, 1); /* no 4-bit units */
	CHECK_NEAR(peaks.flop_per_s[1], 1513e12, 1);
	CHECK_NEAR(peaks.flop_per_s[2], 1513e12 / 2, 1);
	CHECK_NEAR(peaks.flop_per_s[4], 1513e12 / 8, 1);
	profile_free(profile);
}

TEST(a_node_on_two_devices_is_judged_by_its_time_on_each)
{
	struct profile *profile = profile_new();
	uint32_t node = build_node(profile, 0, "k");
	struct metrics metrics;
	struct util util;

	build_kernel(profile, node, "CUDA", 0, 1, 3000);
	build_kernel(profile, node, "CUDA", 1, 1, 1000);
	build_device(profile, "CUDA", 0, "80", 0, 0, 0, 0); /* 624e12 */
	build_device(profile, "CUDA", 1, "89", 0, 0, 0, 0); /* 330.3e12 */
	build_number(profile, node, "flops8", 0, 1e9);
	metrics_init(&metrics, profile);
	util_init(&util, &metrics);
	CHECK_NEAR(util_of_node(&util, node), 1e9 / (3e-6 * 624e12 + 1e-6 * 330.3e12), 1e-12);
	util_fini(&util);
	metrics_fini(&metrics);
	profile_free(profile);
}

TEST(raw_names_ignore_case_and_unit)
{
	struct fixture f = set_up();

	CHECK(metrics_find(&f.metrics, "TIME") == metrics_find(&f.metrics, "time (ns)"));
	CHECK(metrics_find(&f.metrics, "Time (ms)") == metrics_find(&f.metrics, "time"));
	CHECK(metrics_find(&f.metrics, "CPU_time") != NULL);
	CHECK(metrics_find(&f.metrics, "tim") == NULL);
	CHECK(metrics_find(&f.metrics, "") == NULL);
	check_value(&f, "loss/step", f.scope, 0.5);
	check_value(&f, "loss/step", 0, NAN);
	CHECK_NEAR(metrics_unit_ns("x (us)"), 1e3, 0);
	CHECK_NEAR(metrics_unit_ns("x (s)"), 1e9, 0);
	CHECK_NEAR(metrics_unit_ns("x (ns)"), 1, 0);
	CHECK_NEAR(metrics_unit_ns("(ms)"), 1, 0);
	tear_down(&f);
}

static const char *refusal(struct fixture *f, const char *name)
{
	struct metric_column column;

	CHECK_EQ(derive_column(&f->metrics, name, &column, &err), PROTON_E_INVALID);
	return err.text;
}

TEST(an_unknown_metric_is_rejected_with_similar_names)
{
	struct fixture f = set_up();

	CHECK_HAS(refusal(&f, "tiem/ms"), "metric tiem/ms is not found (near: time/ms");
	CHECK_HAS(refusal(&f, "flop16/s"), "the profile has no flops16");
	CHECK_HAS(refusal(&f, "time/fortnight"),
		  "Unsupported unit fortnight in metric time/fortnight");
	CHECK_HAS(refusal(&f, "bytes/s"), "byte/s");
	CHECK_HAS(refusal(&f, "nothing/%"), "is not found");
	CHECK_HAS(refusal(&f, "device_id/%"), "is not numeric");
	CHECK_HAS(refusal(&f, "/"), "is not found");
	tear_down(&f);
}

TEST(only_what_can_be_derived_is_listed)
{
	struct fixture f = set_up();
	bool has_flop8 = false;
	bool has_flop16 = false;
	struct report report = {.format = REPORT_CSV};
	struct out out;
	char *line, *rest;

	out_init(&out, -1);
	report.out = &out;
	derive_write_list(&f.metrics, &report);
	out_byte(&out, '\0');
	rest = out.bytes;
	while ((line = strsep(&rest, "\n")) != NULL) {
		struct metric_column column;
		const char *name = strsep(&line, ",");

		if (!line || strcmp(line, "derived") != 0)
			continue;
		has_flop8 |= strcmp(name, "gflop8/s") == 0;
		has_flop16 |= strstr(name, "flop16") != NULL;
		CHECK_OK(derive_column(&f.metrics, name, &column, &err), err);
		CHECK_STR(column.name, name);
		metric_column_fini(&column);
	}
	CHECK(has_flop8);
	CHECK(!has_flop16);
	out_fini(&out);
	tear_down(&f);
}

TEST(distance_counts_edits)
{
	CHECK_EQ(edit_distance("time", "time", 3), 0);
	CHECK_EQ(edit_distance("tme", "time", 3), 1);
	CHECK_EQ(edit_distance("tiem", "time", 3), 1);
	CHECK_EQ(edit_distance("bytes/s", "byte/s", 3), 1);
	CHECK_EQ(edit_distance("", "abc", 3), 3);
	CHECK_EQ(edit_distance("abc", "xyzw", 3), 4);
	CHECK_EQ(edit_distance("abcdefgh", "zyxwvuts", 3), 4);
}

static const char *formatted(double largest, bool is_integer, double number)
{
	static char text[NUMBER_FORMAT_BYTES];

	text[number_format_write(text, number_format_for(largest, is_integer), number)] = '\0';
	return text;
}

TEST(numbers_have_about_five_digits_in_a_column)
{
	CHECK_STR(formatted(100, false, 100), "100.00");
	CHECK_STR(formatted(100, false, 3.14159), "3.14");
	CHECK_STR(formatted(0.016449, false, 0.016449), "0.016449");
	CHECK_STR(formatted(123456.789, false, 123456.789), "123456.79");
	CHECK_STR(formatted(195312500000.0, false, 48828125000.0), "48828125000");
	CHECK_STR(formatted(17, true, 4), "4");
	CHECK_STR(formatted(3e17, true, 3e17), "3.0000e+17");
	CHECK_STR(formatted(2.5e-9, false, 2.5e-9), "2.5000e-09");
	CHECK_STR(formatted(100, false, 0), "0");
	CHECK_STR(formatted(100, false, 0.0004), "4e-04"); /* not 0.00 */
	CHECK_STR(formatted(100, false, -12.5), "-12.50");
	CHECK_STR(formatted(100, false, NAN), "-");
	CHECK_STR(formatted(100, false, INFINITY), "-");
}

/* Numbers of all sizes, halves of the last decimal, and their neighbors. */
TEST(numbers_are_rounded_as_by_printf)
{
	uint64_t random = 1;

	for (int i = 0; i < 300000; i++) {
		struct number_format style = {.decimals = i % 12};
		char text[NUMBER_FORMAT_BYTES], expected[512];
		double number;

		random = random * 6364136223846793005u + 1442695040888963407u;
		number = (double)(random >> 24) * pow(10, (int)(random >> 10 & 15) - 14);
		if (i % 3 == 0)
			number = (trunc(number) + 0.5) * pow(10, -style.decimals);
		if (i % 3 == 1)
			number = -nextafter(number, i % 2 ? 0 : INFINITY);
		style.tiny = 0.5 * pow(10, -style.decimals);
		if (fabs(number) < style.tiny || (!style.decimals && number == trunc(number)))
			continue;
		snprintf(expected, sizeof(expected), "%.*f", style.decimals, number);
		text[number_format_write(text, style, number)] = '\0';
		if (strcmp(text, expected) != 0)
			CHECK_STR(text, expected);
	}
}
