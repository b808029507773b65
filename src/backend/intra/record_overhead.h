/*
 * Record overhead of a device, for modes that subtract it. Calibration runs a kernel that has the
 * same records as any instrumented kernel and does nothing else.
 */
#pragma once

#include "base/err.h"
#include "intra/decode/decoder.h"
#include "intra/mode.h"
#include "record/store/devices.h"

/* Maximum time to wait for a device that may be busy. */
#define CALIBRATE_LIMIT_NS 1000000000ull

/*
 * Measures on the current context's device. Call between driver_own_begin() and driver_own_end(),
 * one caller at a time. False if it failed: E_UNSUPPORTED with the call, E_NOMEM.
 */
bool calibrate(uint64_t limit_ns, struct decode_overhead *out, struct proton_error *err);
/* Starts a run with `mode`: reads $PROTON_INSTRUMENT_COST. E_INVALID. */
int record_overhead_start(const struct instrument_mode *mode, struct proton_error *err);
/*
 * Overhead on the current context's device (NULL: unknown), as set by the user, else calibrated
 * once per chip and process. Call between driver_own_begin() and driver_own_end(), from any thread.
 */
struct decode_overhead record_overhead_on(const struct device *device);
/* After fork(), in the child. */
void record_overhead_forget(void);
