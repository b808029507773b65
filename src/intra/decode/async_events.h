/* Asynchronous work, whose start and end may be records of different units (decoder.h). */
#ifndef INTRA_DECODE_ASYNC_EVENTS_H
#define INTRA_DECODE_ASYNC_EVENTS_H

#include "intra/decode/decoder.h"

/* Half of an asynchronous execution, or one of several ends of it. */
struct decode_async_event {
	uint64_t clock;
	uint32_t sequence;
	uint16_t scope;
	uint8_t unit;
	bool is_end;
	/* Set by decode_async_events(). */
	uint32_t mate;      /* of a start its earliest end, of an end what it ends; DECODE_NONE */
	uint32_t execution; /* of a start: its index */
};

/* Makes executions of the CTA's events, when all of its units have been read. False: no memory. */
bool decode_async_events(struct decoder *decoder);

#endif
