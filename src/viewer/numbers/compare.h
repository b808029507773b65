/*
 * Several profiles beside each other, node by node: two sides of a difference, or the spread over
 * ranks. Every number is derived from each profile by itself, as if it were shown alone, and then
 * compared; nodes are the same if their paths are.
 */
#ifndef VIEWER_NUMBERS_COMPARE_H
#define VIEWER_NUMBERS_COMPARE_H

#include "viewer/query/arrange.h"
#include "viewer/query/input.h"

/*
 * Runs of FILE against runs of BASE: per metric the means before and after, the change (after -
 * before) and the change in percent of the value before, with several runs also its confidence
 * interval and a verdict (repeats.h), then whether the frame is new or gone; sorted by the size of
 * the first change. A frame that one of them does not have counts as 0 where numbers add up. With
 * --merge sum, each side is one profile made of all its files. E_INVALID with "" as text: messages
 * were printed.
 */
int compare_runs(struct view *view, struct input *base, struct input *input,
		 const struct options *options, struct proton_error *err);

/*
 * E_INVALID: a sum over more files on one side than on the other would be compared, or sums where
 * means are the default. Before loading, and again when files may have been left out.
 */
int compare_check_sums(const struct options *options, const struct input *base,
		       const struct input *input, struct proton_error *err);

/*
 * Each file by itself: per metric the mean, least or most over the files, or with MERGE_SPREAD all
 * three, their spread (100 * (most - least) / mean) and the file that has the most. One file is in
 * memory at a time. E_INVALID also if no file could be read.
 */
int compare_many(struct view *view, struct input *input, const struct options *options,
		 struct proton_error *err);

#endif
