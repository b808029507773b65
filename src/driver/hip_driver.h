/*
 * HIP adapter: HIP with the interface of `struct driver`. Differences:
 *
 * - HIP's contexts are deprecated. A context is a device here, its handle is the ordinal + 1, and
 *   pushing it sets the thread's current device.
 * - hipEventQuery() invalidates the capture of the stream on which the event was recorded, even if
 *   the capture started later. So an event here is two HIP events: one after the launch, and one
 *   after a wait for it on a private stream that is never captured. Only the second is queried.
 *   That stream has the lowest priority, so it shares no hardware queue with streams of normal
 *   priority.
 * - hipDeviceSynchronize() invalidates every capture of the process. Waiting for a context waits
 *   for the default stream and the streams that synchronize with it.
 * - A failed call leaves its error for the next hipGetLastError(), which PyTorch calls after its
 *   launches. So errors are cleared here.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct driver;

/* True if libamdhip64 is loaded, or the machine seems to have an AMD GPU. Loads nothing. */
bool hip_driver_is_likely(void);
/* Loads libamdhip64 and fills `out`, once. E_NOLIB, E_UNSUPPORTED. */
int hip_driver_bind(struct driver *out, struct proton_error *err);
/* "gfx942"; empty if unknown. */
void hip_driver_arch(int device, char *arch, size_t capacity);
/* Rate of llvm.readsteadycounter. */
uint64_t hip_driver_timer_khz(int device);
/* After fork(), in the child. */
void hip_driver_forget(void);
