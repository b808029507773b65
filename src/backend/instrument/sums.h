/*
 * Launches added up, by kernel and context, for all threads: after each launch the profile is told
 * what it adds and what is known by now.
 */
#ifndef BACKEND_INSTRUMENT_SUMS_H
#define BACKEND_INSTRUMENT_SUMS_H

#include "backend/instrument/tally.h"

/*
 * The launch is complete, `units` of its warps were sampled on `device`: takes what `tally` has
 * counted, and sets its nodes' contexts. False: out of memory, and it is lost.
 */
bool sums_take(struct tally *tally, uint64_t units, uint32_t device);
/* A run has ended. */
void sums_clear(void);
/* In the child of a fork. */
void sums_forget(void);

#endif
