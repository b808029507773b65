/* Critical path of a CTA, from the segments of its units (segments.h). */
#ifndef INTRA_WARPS_CRITICAL_PATH_H
#define INTRA_WARPS_CRITICAL_PATH_H

#include "intra/warps/segments.h"

/*
 * Adds the cycles of everything on the path; their sum is the time from warps->from to warps->to.
 */
void warps_critical_path(struct warps *warps, struct warps_sums *sums);

#endif
