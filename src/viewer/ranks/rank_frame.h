/*
 * --ranks-of: the kernel times of all ranks in a frame. They come from the column of a merged file,
 * from the profiles of the ranks, or, if there are neither, from the spread of the frame.
 */
#ifndef VIEWER_RANKS_RANK_FRAME_H
#define VIEWER_RANKS_RANK_FRAME_H

#include "viewer/query/input.h"
#include "viewer/viewer_options.h"

/* Returns the exit status. */
int rank_frame_run(const struct options *options, struct input *input);

#endif
