/* Record overhead of a device, for modes that subtract it. */
#ifndef BACKEND_INTRA_RECORD_OVERHEAD_H
#define BACKEND_INTRA_RECORD_OVERHEAD_H

#include "base/err.h"
#include "intra/decode/decoder.h"
#include "intra/mode.h"
#include "record/store/devices.h"

/* Starts a run with `mode`: reads $PROTON_INSTRUMENT_COST. E_INVALID. */
int record_overhead_start(const struct instrument_mode *mode, struct proton_error *err);
/*
 * Overhead on the current context's device (NULL: unknown), as set by the user, else calibrated
 * once per chip and process. Call between driver_enter() and driver_leave(), from any thread.
 */
struct decode_overhead record_overhead_on(const struct device *device);
/* After fork(), in the child. */
void record_overhead_forget(void);

#endif
