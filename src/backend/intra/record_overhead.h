/* What a record costs on a device, for modes that take it off. */
#ifndef BACKEND_INTRA_RECORD_OVERHEAD_H
#define BACKEND_INTRA_RECORD_OVERHEAD_H

#include "base/err.h"
#include "intra/decode/decoder.h"
#include "intra/mode.h"

/* A run with `mode` begins: reads $PROTON_INSTRUMENT_COST. E_INVALID. */
int record_overhead_start(const struct instrument_mode *mode, struct proton_error *err);
/*
 * On the device of the current context, from any thread that is between driver_enter() and
 * driver_leave(): as the user says, else measured once for each chip in the life of the process.
 */
struct decode_overhead record_overhead_here(void);
/* After fork(), in the child. */
void record_overhead_forget(void);

#endif
