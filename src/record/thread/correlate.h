/*
 * The correlation table: where a launch belongs, kept under the number the vendor gave it until the
 * launch's record comes. The launching thread pays one store.
 *
 * A slot is the number modulo the table's size. If a record has not come by the time its slot is
 * wanted again, the entry moves to an overflow map, under a lock: rare, and nothing is lost.
 */
#ifndef RECORD_THREAD_CORRELATE_H
#define RECORD_THREAD_CORRELATE_H

#include <stdbool.h>

#include <libproton/proton.h>

#include "base/err.h"
#include "record/thread/thread_trace.h"

struct correlation {
	struct proton_context where;
	bool is_named;  /* `where` ends with the kernel already: a launch hook named it */
	bool is_shared; /* many records carry this number (a graph): it is not used up by one */
	/* The launch's event in traces, or NULL. Taken: valid until this thread takes another. */
	const struct trace_event *launch;
};

/* Makes the table; idempotent. */
int correlate_init(struct proton_error *err);
/* On the launching thread. `number` counts up from call to call. */
void correlate_put(uint32_t number, struct correlation correlation);
/* On the vendor's thread. False if nothing is known of `number`. Takes it out unless shared. */
bool correlate_take(uint32_t number, struct correlation *out);
/* After the last session: forgets everything. */
void correlate_clear(void);

#endif
