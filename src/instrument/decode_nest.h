/* Which execution lies in which, and those of which no record tells the end. */
#ifndef INSTRUMENT_DECODE_NEST_H
#define INSTRUMENT_DECODE_NEST_H

#include "instrument/decode_ring.h"

/*
 * Puts the unit's executions, which begin with `first` and come from `ring`, in their order, and
 * finds the one that each lies in. False: out of memory.
 */
bool decode_nest(struct decoder *decoder, uint32_t first, const struct decode_ring *ring);

#endif
