/* Taking what records cost off the durations and starts of executions (decode.h). */
#ifndef INSTRUMENT_DECODE_COST_H
#define INSTRUMENT_DECODE_COST_H

#include "instrument/decode.h"

/* Of a unit that has executions, which are in order and stay so. False: out of memory. */
bool decode_take_cost_off(struct decoder *decoder, const struct decode_unit *unit);

#endif
