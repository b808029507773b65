/*
 * Calibration of the record overhead: runs a kernel that has the same records as any instrumented
 * kernel and does nothing else.
 */
#ifndef BACKEND_INTRA_CALIBRATE_H
#define BACKEND_INTRA_CALIBRATE_H

#include "base/err.h"
#include "intra/decode/decoder.h"

/* Maximum time to wait for a device that may be busy. */
#define CALIBRATE_LIMIT_NS 1000000000ull

/*
 * Measures on the current context's device. Call between driver_enter() and driver_leave(), one
 * caller at a time. E_UNSUPPORTED with the call that failed; E_NOMEM.
 */
int calibrate(uint64_t limit_ns, struct decode_overhead *out, struct proton_error *err);
/* After fork(), in the child. */
void calibrate_forget(void);

#endif
