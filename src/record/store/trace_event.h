/* Trace event of a thread: the row of an event in each trace that was active at its begin. */
#ifndef RECORD_STORE_TRACE_EVENT_H
#define RECORD_STORE_TRACE_EVENT_H

#include <stdint.h>

#define TRACE_MAX 4u /* maximum number of live traces */

struct trace_event {
	uint32_t count;
	struct {
		uint32_t serial; /* serial of the session */
		uint32_t row;
	} at[TRACE_MAX];
};

/* The event's row in the session of that serial; 0 if it has none. */
static inline uint32_t trace_event_row(const struct trace_event *event, uint32_t serial)
{
	for (uint32_t i = 0; event && i < event->count; i++)
		if (event->at[i].serial == serial)
			return event->at[i].row;
	return 0;
}

#endif
