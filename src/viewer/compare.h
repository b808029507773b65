/*
 * Several profiles beside each other, node by node: two for a difference, many for the spread over
 * ranks. Every number is derived from each profile by itself, as if it were shown alone, and then
 * compared; nodes are the same if their paths are.
 */
#ifndef VIEWER_COMPARE_H
#define VIEWER_COMPARE_H

#include "viewer/input.h"
#include "viewer/view.h"

/*
 * FILE against BASE: per metric before, after, change (after - before) and the change in percent of
 * the value before, then whether the frame is new or gone; sorted by the size of the first change.
 * A frame that one of them does not have counts as 0 where numbers add up. Takes both profiles.
 */
int compare_two(struct view *view, struct profile *base, struct profile *file,
		const struct options *options, struct proton_error *err);

/*
 * Each file by itself: per metric the mean, least or most over the files, or with MERGE_SPREAD all
 * three, their spread (100 * (most - least) / mean) and the file that has the most. One file is in
 * memory at a time. E_INVALID also if no file could be read.
 */
int compare_many(struct view *view, struct input *input, const struct options *options,
		 struct proton_error *err);

#endif
