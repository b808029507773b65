/*
 * Launches of a kernel that go into traces, in the order in which they were taken from the queue,
 * whichever thread reads one: so that which of them there is room for does not depend on how fast
 * threads are. A launch waits only for such as were taken before it.
 */
#ifndef BACKEND_INTRA_ORDERED_COMMIT_H
#define BACKEND_INTRA_ORDERED_COMMIT_H

#include "backend/intra/device_buffers.h"

/* The launch in `buffer` has been taken; each of these does nothing if it goes into no trace. */
void commit_take(struct buffer *buffer);
/* Waits until those before it are over. */
void commit_await(const struct buffer *buffer);
/* It is in the traces, or will never be. */
void commit_end(const struct buffer *buffer);
void commit_forget(void);

#endif
