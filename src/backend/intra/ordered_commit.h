/*
 * Trace ordering: launches of a kernel enter a trace in queue order, no matter which reader thread
 * decodes them. So which launches fit into a trace does not depend on the speed of threads. A
 * launch waits only for launches taken before it.
 */
#ifndef BACKEND_INTRA_ORDERED_COMMIT_H
#define BACKEND_INTRA_ORDERED_COMMIT_H

#include "backend/intra/launch.h"

/*
 * The launch was taken from the queue. These functions do nothing for a launch that is not traced.
 */
void commit_take(struct launch *launch);
/* Waits until the launches before it have ended their turns. */
void commit_await(const struct launch *launch);
/* Ends its turn: the launch is in the traces, or never will be. */
void commit_end(const struct launch *launch);
void commit_forget(void);

#endif
