/* Views of the ranks of a job: --ranks with its tables, gates and comparisons. */
#ifndef VIEWER_RANKS_RANK_VIEW_H
#define VIEWER_RANKS_RANK_VIEW_H

#include "viewer/query/input.h"
#include "viewer/viewer_options.h"

/* --ranks. Returns the exit status. */
int rank_view_run(const struct options *options, struct input *input, struct input *base);

#endif
