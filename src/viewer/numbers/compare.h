/*
 * Comparison of profiles node by node: the two sides of --diff, or statistics over several files.
 * Every value is derived within its own profile and then compared. Nodes with the same path are the
 * same node.
 */
#ifndef VIEWER_NUMBERS_COMPARE_H
#define VIEWER_NUMBERS_COMPARE_H

#include "viewer/query/input.h"
#include "viewer/query/view.h"

/*
 * --diff: runs of FILE against runs of BASE. The columns of each metric are the means before and
 * after, the change (after - before) and the change in percent of the value before; with several
 * runs also its confidence interval and a verdict (repeats.h). The last column tells new and gone
 * frames. Rows are sorted by the magnitude of the first change. A frame that one side lacks counts
 * as 0 for additive metrics. With --merge sum, each side is the sum of its files. E_INVALID with an
 * empty message: messages were printed.
 */
int compare_runs(struct view *view, struct input *base, struct input *input,
		 const struct options *options, struct proton_error *err);

/*
 * E_INVALID: the options compare sums of different numbers of files, or sums by default where means
 * are the default. Called after loading, when it is known which are copies or cannot be read.
 */
int compare_check_sums(const struct options *options, const struct input *base,
		       const struct input *input, struct proton_error *err);

/*
 * --merge: each file by itself. Per metric the mean, minimum or maximum over the files;
 * MERGE_SPREAD has all three, the spread (100 * (max - min) / mean) and the file with the maximum.
 * Only one file is in memory at a time. E_INVALID also if no file could be read.
 */
int compare_many(struct view *view, struct input *input, const struct options *options,
		 struct proton_error *err);

#endif
