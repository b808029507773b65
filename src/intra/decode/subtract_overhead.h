/* Taking what records cost off the durations and starts of executions (decoder.h). */
#ifndef INTRA_DECODE_SUBTRACT_OVERHEAD_H
#define INTRA_DECODE_SUBTRACT_OVERHEAD_H

#include "intra/decode/decoder.h"

/* Of a unit that has executions, which are in order and stay so. False: out of memory. */
bool decode_subtract_overhead(struct decoder *decoder, const struct decode_unit *unit);

#endif
