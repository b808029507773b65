/*
 * The background threads: they wait for launches to end, copy their buffers back, decode them, hand
 * the results on and clear the buffers for the next. Launching threads only put into their queue.
 * The first of them is started for the first launch, others when launches that have ended wait.
 */
#ifndef BACKEND_INTRA_LAUNCH_QUEUE_H
#define BACKEND_INTRA_LAUNCH_QUEUE_H

#include "backend/intra/device_buffers.h"
#include "intra/mode.h"

/* A run with `mode` begins. E_INVALID. */
int launch_queue_start(const struct instrument_mode *mode, struct proton_error *err);
/* The launch that fills `buffer` has been made; its event is recorded. Never waits for a device. */
void launch_queue_put(struct buffer *buffer);
/* A launch that became part of a graph: looked at by each launch_queue_flush(). */
void launch_queue_put_graph(struct buffer *buffer);
/* Waits until everything put so far has been handed on, and reports what went wrong. */
void launch_queue_flush(void);
/* Flushes and ends the threads. */
void launch_queue_stop(void);
void launch_queue_forget(void);

#endif
