/* viewer/repeats and viewer/gate: means of runs, intervals, and gates on them. */
#include "unit/tap.h"

#include "viewer/numbers/gate.h"
#include "viewer/numbers/repeats.h"
#include "viewer/query/filter.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct proton_error err;

static bool is_near(double a, double b)
{
	return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

TEST(mean_median_and_variance_of_runs)
{
	double values[] = {5, 1, 4, 2};
	struct repeats repeats = repeats_of(values, 4, 0);

	CHECK(repeats.count == 4);
	CHECK(repeats.mean == 3 && repeats.median == 3);
	CHECK(is_near(repeats.variance, 10.0 / 3));
}

TEST(runs_without_a_value_count_as_zero_for_additive_metrics)
{
	double values[] = {6, -3, 9};
	double same[] = {-3, 0, 0, 6, 9};
	struct repeats sparse = repeats_of(values, 3, 2);
	struct repeats dense = repeats_of(same, 5, 0);

	CHECK(sparse.count == 5 && sparse.mean == dense.mean);
	CHECK(sparse.median == 0 && dense.median == 0);
	CHECK(is_near(sparse.variance, dense.variance));
	CHECK(repeats_of(NULL, 0, 3).mean == 0 && repeats_of(NULL, 0, 3).variance == 0);
}

TEST(equal_runs_have_exactly_their_value_and_no_variance)
{
	double values[] = {0.1, 0.1, 0.1};

	CHECK(repeats_of(values, 3, 0).mean == 0.1);
	CHECK(repeats_of(values, 3, 0).variance == 0);
}

TEST(no_runs_have_no_value_and_one_run_no_variance)
{
	double value = 4;

	CHECK(repeats_of(NULL, 0, 0).count == 0 && isnan(repeats_of(NULL, 0, 0).mean));
	CHECK(repeats_of(&value, 1, 0).mean == 4 && isnan(repeats_of(&value, 1, 0).variance));
}

TEST(the_quantiles_are_those_of_the_tables_and_never_too_small_between)
{
	/* Quantiles from numeric integration of the density. */
	static const double exact[][2] = {{1, 12.70620}, {1.2, 8.64883}, {1.5, 6.01666},
					  {2, 4.30265},  {2.5, 3.57465}, {3.5, 2.94009},
					  {10, 2.22814}, {30, 2.04227},  {35, 2.03011},
					  {100, 1.98397}};

	for (size_t i = 0; i < COUNT(exact); i++) {
		double t = repeats_student_t(exact[i][0]);

		CHECK(t > exact[i][1] - 1e-4);
		CHECK(t < exact[i][1] * (exact[i][0] > 1 && exact[i][0] < 2    ? 1.19
					 : exact[i][0] > 2 && exact[i][0] < 30 ? 1.02
									       : 1.0001));
	}
	CHECK(repeats_student_t(NAN) > 12.7 && repeats_student_t(0.5) > 12.7);
	CHECK(repeats_student_t(1e300) > 1.9599 && repeats_student_t(1e300) < 1.96);
	for (double df = 1; df < 40; df += 0.01)
		CHECK(repeats_student_t(df) >= repeats_student_t(df + 0.01) - 1e-4);
}

TEST(the_interval_is_that_of_welch)
{
	double base[] = {10, 12, 11, 13, 12};
	double file[] = {14, 15, 13, 16};
	struct repeats before = repeats_of(base, 5, 0);
	struct repeats after = repeats_of(file, 4, 0);
	double low, high;

	/* By hand: change 2.9, variances 1.3 and 5/3, df 6.2127, t between that of 6 and of 7. */
	CHECK(repeats_interval(&before, &after, &low, &high));
	CHECK(is_near((low + high) / 2, 2.9));
	CHECK(high - low > 2 * 2.36 * sqrt(0.26 + 5.0 / 12));
	CHECK(high - low < 2 * 2.447 * sqrt(0.26 + 5.0 / 12));
	CHECK(verdict_of(low, high, true) == VERDICT_SLOWER);
	CHECK(verdict_of(low, high, false) == VERDICT_HIGHER);
	CHECK(verdict_of(-high, -low, true) == VERDICT_FASTER);
	CHECK(verdict_of(-high, -low, false) == VERDICT_LOWER);
}

TEST(one_run_or_infinite_values_have_no_interval)
{
	double two[] = {1, 2};
	double one[] = {1};
	double endless[] = {1, INFINITY};
	struct repeats many = repeats_of(two, 2, 0);
	struct repeats single = repeats_of(one, 1, 0);
	struct repeats infinite = repeats_of(endless, 2, 0);
	double low, high;

	CHECK(!repeats_interval(&many, &single, &low, &high));
	CHECK(!repeats_interval(&single, &many, &low, &high));
	CHECK(!repeats_interval(&many, &infinite, &low, &high));
}

TEST(runs_without_variance_differ_exactly_or_not_at_all)
{
	double three[] = {3, 3};
	double four[] = {4, 4, 4};
	struct repeats before = repeats_of(three, 2, 0);
	struct repeats after = repeats_of(four, 3, 0);
	double low, high;

	CHECK(repeats_interval(&before, &after, &low, &high) && low == 1 && high == 1);
	CHECK(repeats_interval(&before, &before, &low, &high));
	CHECK(verdict_of(low, high, true) == VERDICT_NOISE);
}

/* ------------------------------------------------------------------ gates */

static struct gate_result checked(const char *text, double before, double after, double low,
				  double high)
{
	static char label[] = "time/ms";
	struct gate_numbers numbers = {label, &before, &after, &low, &high, true};
	struct profile *profile = profile_new();
	uint8_t state = NODE_SHOWN;
	struct gate_result result, counts;
	struct gate gate;

	CHECK_OK(gate_parse(&gate, text, &err), err);
	CHECK_OK(gate_check(&gate, profile, &state, &numbers, &result, &err), err);
	counts = (struct gate_result){.failed = result.failed, .within_noise = result.within_noise};
	CHECK(result.finding_count == counts.failed + counts.within_noise);
	gate_result_fini(&result);
	gate_fini(&gate);
	profile_free(profile);
	return counts;
}

#define FAILS(text, change, low, high) (checked(text, 100, 100 + (change), low, high).failed == 1)
#define IS_NOISE(text, change, low, high)                                                          \
	(checked(text, 100, 100 + (change), low, high).within_noise == 1)

TEST(a_change_beyond_the_limit_fails_unless_it_is_within_noise)
{
	CHECK(FAILS("time > +5%", 6, 2, 10));
	CHECK(!FAILS("time > +5%", 6, -1, 13));
	CHECK(IS_NOISE("time > +5%", 6, -1, 13));
	CHECK(!FAILS("time > +5%", 4, 3, 5) && !IS_NOISE("time > +5%", 4, 3, 5));
	CHECK(FAILS("time/ms > +5", 6, 2, 10));
	CHECK(IS_NOISE("time/ms > +5", 6, 0, 12));
	CHECK(FAILS("time < -5%", -6, -7, -5));
	CHECK(IS_NOISE("time < -5%", -6, -14, 2));
	CHECK(FAILS("time > +5%", 6, NAN, NAN));
}

TEST(noise_does_not_excuse_a_gate_that_an_unchanged_value_fails)
{
	CHECK(FAILS("time > -10%", -1, -3, 1));
	CHECK(!FAILS("time > -10%", -11, -13, -9));
	CHECK(FAILS("time >= +0%", 0, -3, 3));
	CHECK(FAILS("time < +10%", 1, -3, 5));
	CHECK(IS_NOISE("time > +0%", 1, -3, 5));
}

TEST(values_are_judged_by_their_mean)
{
	CHECK(FAILS("time/ms > 105", 6, -1, 13));
	CHECK(!FAILS("time/ms > 106", 6, -1, 13));
	CHECK(FAILS("time/ms >= 106", 6, -1, 13));
}

TEST(a_time_has_a_unit_unless_it_is_compared_in_percent)
{
	static const char *const bad[] = {"time > 3", "Time < 3", "avg_time >= +3", "cpu_time > 1",
					  "p99_time > 1 in x"};
	static const char *const good[] = {"time/ms > 3", "time > +5%",    "time (ns) > 3",
					   "tokens > 3",  "TIME < -5%",    "util < 0.5",
					   "flops > 1",   "p50_time > +5%"};
	struct gate gate;

	for (size_t i = 0; i < COUNT(bad); i++) {
		CHECK(gate_parse(&gate, bad[i], &err) == PROTON_E_INVALID);
		CHECK(strstr(err.text, "has no unit; write ") && strstr(err.text, "/ms (or /s, "));
		gate_fini(&gate);
	}
	for (size_t i = 0; i < COUNT(good); i++) {
		CHECK_OK(gate_parse(&gate, good[i], &err), err);
		gate_fini(&gate);
	}
}
