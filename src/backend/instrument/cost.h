/* What a record costs on a device, for modes that take it off. */
#ifndef BACKEND_INSTRUMENT_COST_H
#define BACKEND_INSTRUMENT_COST_H

#include "base/err.h"
#include "instrument/decode.h"
#include "instrument/mode.h"

/* A run with `mode` begins: reads $PROTON_INSTRUMENT_COST. E_INVALID. */
int cost_start(const struct instrument_mode *mode, struct proton_error *err);
/* On the device of the current context. The user's word comes before what we know of the chip. */
struct decode_cost cost_here(void);

#endif
