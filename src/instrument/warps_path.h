/* The critical path of a CTA whose units have been cut into segments (warps.h). */
#ifndef INSTRUMENT_WARPS_PATH_H
#define INSTRUMENT_WARPS_PATH_H

#include "instrument/warps.h"

/* Adds what it runs through; together that is the time from warps->from to warps->to. */
void warps_path(struct warps *warps, struct warps_sums *sums);

#endif
