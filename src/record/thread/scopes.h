/* Open scopes of the calling thread. */
#ifndef RECORD_THREAD_SCOPES_H
#define RECORD_THREAD_SCOPES_H

#include <libproton/proton.h>

#include "record/store/trace_event.h"

/*
 * The serial of the scope entry that the token means now, on the calling thread; 0: none. A token
 * may recur after its scope has ended, its serial does not.
 */
uint32_t scopes_serial(uint64_t token);
/* The calling thread's innermost event for metrics at `where`; NULL if there is none. */
const struct trace_event *scopes_open_event(struct proton_context where);

#endif
