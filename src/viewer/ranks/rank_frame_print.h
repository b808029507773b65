/* --ranks-of as text, CSV and JSON. */
#ifndef VIEWER_RANKS_RANK_FRAME_PRINT_H
#define VIEWER_RANKS_RANK_FRAME_PRINT_H

#include "viewer/print/report_table.h"
#include "viewer/ranks/rank_numbers.h"

struct rank_time {
	uint32_t rank;
	uint32_t host; /* string of the profile */
	uint64_t time_ns;
};

struct rank_frame {
	struct rank_row row;     /* in ns */
	struct rank_time *times; /* the largest first; none: only the spread is known */
	size_t count, capacity;
	bool has_column;
};

struct rank_frames {
	const struct profile *profile;
	struct rank_frame *items;
	size_t count;
	size_t more;           /* frames that match, too */
	size_t rows;           /* ranks in a list; 0: the default */
	enum name_style names; /* in text */
};

/*
 * Writes a struct rank_frames. Text: a histogram and the extreme ranks. CSV: a line per frame and
 * rank. JSON: columns of ranks, hosts and times.
 */
void rank_frame_write(const void *frames, struct report *report);

#endif
