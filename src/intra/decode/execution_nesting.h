/* Nesting of executions: finds the parent of each, and closes scopes without a recorded end. */
#ifndef INTRA_DECODE_EXECUTION_NESTING_H
#define INTRA_DECODE_EXECUTION_NESTING_H

#include "intra/decode/ring_records.h"

/*
 * Sorts the unit's executions, which begin at index `first` and come from `ring`, and sets their
 * parents. False if out of memory.
 */
bool decode_execution_nesting(struct decoder *decoder, uint32_t first,
			      const struct decode_ring *ring);

#endif
