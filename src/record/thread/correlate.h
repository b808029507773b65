/*
 * Correlation table: the attribution of a launch, stored under its correlation ID until the
 * launch's record arrives. The cost for the launching thread is one store.
 *
 * The slot is the correlation ID modulo the table's size. If a record has not arrived when its slot
 * is needed again, the entry moves to an overflow buffer, under a lock. That is rare, and nothing
 * is lost.
 */
#ifndef RECORD_THREAD_CORRELATE_H
#define RECORD_THREAD_CORRELATE_H

#include <stdbool.h>

#include <libproton/proton.h>

#include "base/err.h"
#include "record/thread/thread_trace.h"

struct correlation {
	struct proton_context where;
	bool is_named;  /* `where` already ends with the kernel: a launch hook named it */
	bool is_shared; /* several records have this ID (a graph): it stays */
	/* The launch's event in traces, or NULL; valid until the thread's next call. */
	const struct trace_event *launch;
};

/* Makes the table; idempotent. */
int correlate_init(struct proton_error *err);
/* On the launching thread. `number` is the correlation ID, which increases from call to call. */
void correlate_put(uint32_t number, const struct correlation *correlation);
/* On the vendor library's thread. False if `number` is unknown. Removes it unless shared. */
bool correlate_take(uint32_t number, struct correlation *out);
/* After the last session: removes all entries. */
void correlate_clear(void);

#endif
