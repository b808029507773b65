/*
 * --trend: one row per stored run, in the given order, with a metric of the selected kernels and
 * its change against the median of the runs before.
 */
#ifndef VIEWER_NUMBERS_TREND_H
#define VIEWER_NUMBERS_TREND_H

#include "viewer/query/input.h"
#include "viewer/viewer_options.h"

/* The exit status. */
int trend_run(const struct options *options, struct input *input);

#endif
