/*
 * HIP under the names and rules of `struct driver`. What differs:
 *
 * - Contexts are deprecated: a context is a device, its handle the ordinal + 1, and what is pushed
 *   is the thread's current device.
 * - hipEventQuery() of an event invalidates the capture of the stream it was recorded on, whenever
 *   that began. An event here is two: one behind the launch, and one behind a wait for it on a
 *   stream of ours, which nobody captures; only the second is asked. That stream has the least
 *   priority, so that it shares no hardware queue with streams of the usual one.
 * - hipDeviceSynchronize() invalidates every capture of the process. Waiting for a context waits
 *   for the default stream and for those that wait for it.
 * - A call that fails leaves its error for whoever calls hipGetLastError() next, which PyTorch does
 *   behind its launches: it is taken back.
 */
#ifndef BACKEND_INTRA_GPU_DRIVER_HIP_H
#define BACKEND_INTRA_GPU_DRIVER_HIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* True if libamdhip64 is in the process, or this machine looks as if it could be. Loads nothing. */
bool driver_hip_is_likely(void);
/* Finds libamdhip64 and fills `driver`. E_NOLIB, E_UNSUPPORTED. */
int driver_hip_bind(struct proton_error *err);
/* "gfx942", empty if it cannot be had. */
void driver_hip_arch(int device, char *arch, size_t capacity);
/* The rate of what llvm.readsteadycounter reads. */
uint64_t driver_hip_timer_khz(int device);
/* After fork(), in the child. */
void driver_hip_forget(void);

#endif
