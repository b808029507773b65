/* Statistics of repeated runs: mean, median, variance and the confidence interval of a change. */
#include "viewer/numbers/repeats.h"

#include <math.h>

#include "base/array.h"

#define ROUNDING 1e-12 /* share of a sum that the order of additions may change */

const char *const verdict_words[] = {
	[VERDICT_NOISE] = "within noise", [VERDICT_SLOWER] = "slower", [VERDICT_FASTER] = "faster",
	[VERDICT_HIGHER] = "higher",      [VERDICT_LOWER] = "lower",
};

ARRAY_ORDER(ascending, double, ORDER_OF(*a, *b))

/* The sorted values, with the zeros between the negative and the positive ones. */
static double value_at(const double *values, size_t negative, size_t zeros, size_t index)
{
	if (index < negative)
		return values[index];
	return index < negative + zeros ? 0 : values[index - zeros];
}

struct repeats repeats_of(double *values, size_t count, size_t zeros)
{
	struct repeats repeats = {count + zeros, NAN, NAN, NAN};
	size_t runs = count + zeros;
	size_t negative = 0;
	double squares = 0, sum = 0;

	if (!runs)
		return repeats;
	ARRAY_SORT(values, count, ascending);
	while (negative < count && values[negative] < 0)
		negative++;
	repeats.median = (value_at(values, negative, zeros, (runs - 1) / 2) +
			  value_at(values, negative, zeros, runs / 2)) /
			 2;
	double min = value_at(values, negative, zeros, 0);
	for (size_t i = 0; i < count; i++)
		sum += values[i];
	/* A sum of equal values, divided by their count, may differ from them in the last digit. */
	repeats.mean = min == value_at(values, negative, zeros, runs - 1) ? min
									  : sum / (double)runs;
	for (size_t i = 0; i < count; i++)
		squares += (values[i] - repeats.mean) * (values[i] - repeats.mean);
	squares += (double)zeros * repeats.mean * repeats.mean;
	if (runs > 1)
		repeats.variance = squares / (double)(runs - 1);
	return repeats;
}

/* ------------------------------------------------------------------ Student's t */

/* For 1, 2, ... degrees of freedom, from a table of the distribution. */
static const double student_t[] = {
	12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
	2.2010,  2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
	2.0796,  2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
};

double repeats_student_t(double df)
{
	size_t below = ARRAY_LENGTH(student_t);

	if (!(df > 1))
		return student_t[0];
	/* The expansion for many degrees of freedom (Abramowitz and Stegun, 26.7.5). */
	if (df >= (double)below)
		return 1.95996 + 2.37227 / df + 2.82250 / (df * df) + 2.5558 / (df * df * df);
	below = (size_t)df;
	/* Linear in 1/df. The curve is convex there, so the interval is never too narrow. */
	double share = (1 / (double)below - 1 / df) / (1 / (double)below - 1 / (double)(below + 1));
	return student_t[below - 1] + share * (student_t[below] - student_t[below - 1]);
}

bool repeats_interval(const struct repeats *before, const struct repeats *after, double *low_out,
		      double *high_out)
{
	double change = after->mean - before->mean;
	double error = 0;

	if (before->count < 2 || after->count < 2)
		return false;
	double first = before->variance / (double)before->count;
	double second = after->variance / (double)after->count;
	if (first + second > 0) {
		double df = (first + second) * (first + second) /
			    (first * first / (double)(before->count - 1) +
			     second * second / (double)(after->count - 1));

		error = repeats_student_t(df) * sqrt(first + second);
	}
	if (!isfinite(change) || !isfinite(error))
		return false;
	*low_out = change - error;
	*high_out = change + error;
	return true;
}

double difference_without_noise(double difference, double scale)
{
	return fabs(difference) <= ROUNDING * fabs(scale) ? 0 : difference;
}

bool verdict_is_time(const char *metric)
{
	return strcasestr(metric, "time") || strcasestr(metric, "cycles") ||
	       strcasestr(metric, "slowest/");
}

enum verdict verdict_of(double low, double high, bool is_time)
{
	if (low <= 0 && high >= 0)
		return VERDICT_NOISE;
	if (is_time)
		return low > 0 ? VERDICT_SLOWER : VERDICT_FASTER;
	return low > 0 ? VERDICT_HIGHER : VERDICT_LOWER;
}
