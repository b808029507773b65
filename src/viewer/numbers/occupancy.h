/* Occupancy: how many CTAs of a launch fit on a multiprocessor (NVIDIA), and why no more. */
#ifndef VIEWER_NUMBERS_OCCUPANCY_H
#define VIEWER_NUMBERS_OCCUPANCY_H

#include <stdbool.h>
#include <stdint.h>

#include "format/rows.h"

struct occupancy {
	uint32_t ctas;     /* at the same time on a multiprocessor */
	double share;      /* their warps, of the maximum */
	const char *limit; /* "registers", "shared memory"; NULL: threads or CTAs */
};

/* False: the limits of the architecture ("90") are not known, or the launch cannot run there. */
bool occupancy_of(const char *arch, const struct launch_config *config, struct occupancy *out);

#endif
