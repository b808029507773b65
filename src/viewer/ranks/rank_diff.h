/* --ranks --diff: frames of two jobs, matched by their path. */
#ifndef VIEWER_RANKS_RANK_DIFF_H
#define VIEWER_RANKS_RANK_DIFF_H

#include "viewer/ranks/rank_report.h"

struct rank_pair {
	char *path;
	struct rank_row before, after; /* `ranks` 0: the frame is not in that job */
};

struct rank_diff {
	const char *metric;
	struct rank_pair *items; /* the largest change of what could go first */
	size_t count;
};

void rank_diff_init(struct rank_diff *diff, const struct rank_rows *before,
		    const struct rank_rows *after);
void rank_diff_fini(struct rank_diff *diff);

/* Writes the comparisons of the view in the format of the report. */
void rank_diff_write(const struct rank_report *view, struct report *report);

#endif
