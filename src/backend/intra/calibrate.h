/*
 * Measuring what a record costs on a device: a kernel of ours, with the records that the pass puts
 * into any other, and nothing besides.
 */
#ifndef BACKEND_INTRA_CALIBRATE_H
#define BACKEND_INTRA_CALIBRATE_H

#include "base/err.h"
#include "intra/decode/decoder.h"

/* So long is waited for the device, on which other work may be under way. */
#define CALIBRATE_LIMIT_NS 1000000000ull

/*
 * On the current context's device, between driver_enter() and driver_leave(); one caller at a time.
 * E_UNSUPPORTED, with the call that failed; E_NOMEM.
 */
int calibrate(uint64_t limit_ns, struct decode_overhead *out, struct proton_error *err);
/* After fork(), in the child. */
void calibrate_forget(void);

#endif
