/* The critical path of a CTA whose units have been cut into segments (print_warps.h). */
#ifndef INTRA_WARPS_CRITICAL_PATH_H
#define INTRA_WARPS_CRITICAL_PATH_H

#include "intra/warps/segments.h"

/* Adds what it runs through; together that is the time from warps->from to warps->to. */
void warps_critical_path(struct warps *warps, struct warps_sums *sums);

#endif
