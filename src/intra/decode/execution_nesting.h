/* Which execution lies in which, and those of which no record tells the end. */
#ifndef INTRA_DECODE_EXECUTION_NESTING_H
#define INTRA_DECODE_EXECUTION_NESTING_H

#include "intra/decode/ring_records.h"

/*
 * Puts the unit's executions, which begin with `first` and come from `ring`, in their order, and
 * finds the one that each lies in. False: out of memory.
 */
bool decode_execution_nesting(struct decoder *decoder, uint32_t first,
			      const struct decode_ring *ring);

#endif
