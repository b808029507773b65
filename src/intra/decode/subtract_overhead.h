/* Subtraction of record overhead from the durations and starts of executions (decoder.h). */
#ifndef INTRA_DECODE_SUBTRACT_OVERHEAD_H
#define INTRA_DECODE_SUBTRACT_OVERHEAD_H

#include "intra/decode/decoder.h"

/* For a unit with sorted executions, which stay sorted. False if out of memory. */
bool decode_subtract_overhead(struct decoder *decoder, const struct decode_unit *unit);

#endif
