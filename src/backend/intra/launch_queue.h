/*
 * Launch queue and reader threads. Reader threads wait for launches to end, copy their buffers to
 * the host, decode them, add the results to the profile, and clear the buffers for reuse. Launching
 * threads only append to the queue. The first reader thread starts with the first launch, further
 * ones when launches that have ended are waiting.
 */
#pragma once

#include "backend/intra/device_buffers.h"
#include "intra/mode.h"

#define READER_THREADS_MAX 4u

/* Starts a run with `mode`. E_INVALID. */
int launch_queue_start(const struct instrument_mode *mode, struct proton_error *err);
/*
 * Queues a launch that has been made, after an event of CUDA or HIP. Never waits for a device. The
 * buffer of a captured launch is read by each launch_queue_flush() instead.
 */
void launch_queue_put(struct launch *launch);
/* Waits until all launches so far are in the profile, and prints warnings about losses. */
void launch_queue_flush(void);
/* Flushes and ends the reader threads. */
void launch_queue_stop(void);
void launch_queue_forget(void);
