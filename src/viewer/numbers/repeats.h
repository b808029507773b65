/*
 * Repeated runs: mean and median of a number, and whether it differs between two sets of runs.
 *
 * The change of the mean has a 95 % confidence interval after Welch (B. L. Welch, "The
 * generalization of Student's problem when several different population variances are involved",
 * Biometrika 34, 1947). With n runs, mean m and sample variance v on each side (1: base, 2: file):
 *
 *   change   = m2 - m1
 *   error^2  = v1/n1 + v2/n2
 *   df       = error^4 / ((v1/n1)^2 / (n1 - 1) + (v2/n2)^2 / (n2 - 1))
 *   interval = change -+ t(0.975, df) * error
 *
 * It is deterministic and works from 2 runs on each side. A rank test (Mann-Whitney) cannot reach
 * 95 % with fewer than 4 runs on each side, and most builds repeat 3 to 5 times.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define REPEATS_CONFIDENCE 0.95

struct repeats {
	size_t count;    /* runs; 0: no value, and the rest is NAN */
	double mean;     /* exactly the value if all runs have the same */
	double median;   /* for an even count: the mean of the two middle values */
	double variance; /* sample variance; NAN for one run */
};

/* Sorts `values`. `zeros`: further runs with the value 0. */
struct repeats repeats_of(double *values, size_t count, size_t zeros);

/* The interval of after - before; false: fewer than 2 runs on one side, or infinite values. */
bool repeats_interval(const struct repeats *before, const struct repeats *after, double *low_out,
		      double *high_out);

/*
 * Student's t for 95 % (two-sided). Between two integers `df` the result is never too small: up to
 * 19 % too large between 1 and 2, and at most 2 % above.
 */
double repeats_student_t(double df);

enum verdict {
	VERDICT_NOISE, /* the interval contains 0 */
	VERDICT_SLOWER,
	VERDICT_FASTER,
	VERDICT_HIGHER, /* for a metric that is not a time */
	VERDICT_LOWER,
};

extern const char *const verdict_words[];
enum verdict verdict_of(double low, double high, bool is_time);
/* The difference of two values as large as `scale`; 0 if rounding alone can cause it. */
double difference_without_noise(double difference, double scale);
/* True if a higher value of the metric means slower. */
bool verdict_is_time(const char *metric);
