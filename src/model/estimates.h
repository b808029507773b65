/*
 * Estimates from windows: docs/design/windows.md. The recorder gives each node with kernels a
 * vector, the metric ESTIMATES_METRIC: its gains in each group of windows, times the
 * windows' weights. The root's vector describes the windows themselves.
 */
#pragma once

#include "model/profile.h"

#define ESTIMATES_METRIC "time_windows (ns)"
/* Names of the interval, and of the executions that were recorded. */
#define ESTIMATES_INTERVAL "time_ci (ns)"
#define ESTIMATES_SAMPLES "samples"
#define ESTIMATES_GROUPS 16u

/* Words of a recorded vector. */
enum {
	ESTIMATES_COUNT_FIRST, /* executions in the first window */
	ESTIMATES_COUNT,       /* in the others, times their weights */
	ESTIMATES_FIRST,       /* time in the first window, which has group 0; then in each group */
	ESTIMATES_WORDS = ESTIMATES_FIRST + 1 + ESTIMATES_GROUPS,
	/* The root has other words at these places. */
	ESTIMATES_ACTIVE = ESTIMATES_COUNT_FIRST, /* time that the session was active */
	ESTIMATES_RECORDED = ESTIMATES_COUNT,     /* part of it in windows */
};

/*
 * In a profile that was recorded in windows: times and counts of kernels become estimates of the
 * whole run. The vector of a node then has one word for each group: the root of the sum of their
 * squares is half of the 95 % interval, and sums of such vectors are vectors of sums. Nothing if
 * that was done before, or if there were no windows.
 */
void estimates_settle(struct profile *profile);
/*
 * Half of the interval of each node, or with `is_inclusive` of each subtree; NaN: unknown. Free it;
 * NULL: the profile has no intervals, or out of memory.
 */
double *estimates_halves(const struct profile *profile, bool is_inclusive);
