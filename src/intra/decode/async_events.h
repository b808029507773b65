/*
 * Async events: asynchronous operations whose start and end may be recorded by different units
 * (decoder.h).
 */
#ifndef INTRA_DECODE_ASYNC_EVENTS_H
#define INTRA_DECODE_ASYNC_EVENTS_H

#include "intra/decode/decoder.h"

/* A start or an end of an async event. An event may have several ends. */
struct decode_async_event {
	uint64_t clock;
	uint32_t sequence;
	uint16_t scope;
	uint8_t unit;
	bool is_end;
	/* Set by decode_async_events(). */
	uint32_t mate;      /* of a start: its earliest end; of an end: its start; or DECODE_NONE */
	uint32_t execution; /* of a start: index of its execution */
};

/*
 * Makes executions of the CTA's events after all its units have been read. False if out of memory.
 */
bool decode_async_events(struct decoder *decoder);

#endif
