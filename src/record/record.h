/*
 * What a backend needs from the recorder: devices, where a launch belongs, and a place for
 * finished kernels.
 */
#ifndef RECORD_RECORD_H
#define RECORD_RECORD_H

#include <libproton/proton.h>

#include "record/devices.h"

/*
 * Adds one finished kernel, launched at `where`, in every session that was active there.
 * `frame` names it (made by frames_add(FRAME_KERNEL, ...)), 0 when `where` already ends with the
 * kernel. Times are of any one clock, in ns. From any thread.
 */
void record_kernel(struct proton_context where, uint32_t frame, uint32_t device, uint64_t start_ns,
		   uint64_t end_ns);

/* The device that proton_kernel_begin() and _end() record for. */
void record_set_host_device(uint32_t device);

#endif
