/*
 * The background thread: waits for launches to end, copies their buffers back, decodes them, hands
 * the results on and zeroes the buffers for the next. Launching threads only put into its queue.
 */
#ifndef BACKEND_INSTRUMENT_COLLECT_H
#define BACKEND_INSTRUMENT_COLLECT_H

#include "backend/instrument/pool.h"
#include "instrument/mode.h"

/* Starts the thread. E_NOMEM. */
int collect_start(const struct instrument_mode *mode, struct proton_error *err);
/* The launch that fills `buffer` has been made; its event is recorded. Never waits for a device. */
void collect_put(struct buffer *buffer);
/* A launch that became part of a graph: looked at by each collect_flush(). */
void collect_put_graph(struct buffer *buffer);
/* Waits until everything put so far has been handed on, and reports what went wrong. */
void collect_flush(void);
/* Flushes and ends the thread. */
void collect_stop(void);
void collect_forget(void);

#endif
