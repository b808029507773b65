/* Checks that time grows with a text, not with its square, however fast the machine is. */
#pragma once

#include "unit/tap.h"

#include "base/buf.h"

#define GROWTH_BYTES 250000u
#define GROWTH_ATTEMPTS 10
#define GROWTH_RUNS (TAP_IS_SANITIZED ? 1 : 3) /* in each attempt */
#define GROWTH_SLACK_NS 10000000.0             /* of clocks, caches and page faults */
/* 4 is linear, 16 quadratic; AddressSanitizer's allocator is slower with more memory. */
#define GROWTH_MAX (TAP_IS_SANITIZED ? 12 : 8)

/* The time of this thread alone: other programs may take the processor from it. */
static double growth_time_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

static double growth_run_ns(int which, size_t bytes,
			    void (*write_text)(struct out *out, int which, size_t bytes),
			    void (*run)(const char *text, size_t length, int which))
{
	double min_ns = INFINITY;
	struct out out;
	size_t length;

	out_init(&out, -1);
	write_text(&out, which, bytes);
	char *text = out_take(&out, &length);
	out_fini(&out);
	for (int i = 0; i < GROWTH_RUNS; i++) {
		double begin_ns = growth_time_ns();

		run(text, length, which);
		min_ns = fmin(min_ns, growth_time_ns() - begin_ns);
	}
	free(text);
	return min_ns;
}

/*
 * Four times the text takes less than sixteen times as long, which work by pairs would. Other
 * programs only make a measurement longer, so the minimum of several counts: with 12 of them, one
 * measurement was 10 times as long.
 */
static void check_growth(int count, void (*write_text)(struct out *out, int which, size_t bytes),
			 void (*run)(const char *text, size_t length, int which))
{
	for (int which = 0; which < count; which++) {
		double small_ns = INFINITY;
		double large_ns = INFINITY;
		int i;

		for (i = 0; i < GROWTH_ATTEMPTS; i++) {
			size_t bytes = GROWTH_BYTES;

			small_ns = fmin(small_ns, growth_run_ns(which, bytes, write_text, run));
			large_ns = fmin(large_ns, growth_run_ns(which, 4 * bytes, write_text, run));
			if (large_ns <= GROWTH_MAX * small_ns + GROWTH_SLACK_NS)
				break;
		}
		if (i == GROWTH_ATTEMPTS)
			FAIL("text %d took %.2f ms, and %.2f ms when it was four times as long",
			     which, small_ns / 1e6, large_ns / 1e6);
	}
}
