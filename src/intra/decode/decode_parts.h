/* The parts of decoding a CTA, in the order in which decoder.c calls them. */
#pragma once

#include "intra/decode/decoder.h"

/* Records of one unit's ring buffer, oldest first, with 64-bit clocks. */
struct decode_ring {
	const struct instrument_layout *layout;
	const uint8_t *bytes;
	uint32_t capacity; /* records, without the slack area */
	uint32_t slack;
	uint32_t count;
	uint32_t first; /* index of the oldest remaining record */
	uint64_t start_clock;
	uint64_t end_clock;
	/* Set by decode_ring_records(). */
	uint64_t oldest; /* if records were overwritten: when the oldest remaining one was made */
	uint32_t open_count; /* executions without an END so far: DECODE_OPEN */
};

/* `sequence` of a START without an END; not the number of any record. */
#define DECODE_OPEN UINT32_MAX

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

/* All return false if out of memory. */

/*
 * Adds the unit's executions and events to the decoder, and unpaired or invalid records to its
 * totals. STARTs without an END stay among the executions, with DECODE_OPEN.
 */
bool decode_ring_records(struct decoder *decoder, struct decode_ring *ring, uint8_t unit);
/*
 * Sorts the unit's executions, which begin at index `first` and come from `ring`, sets their
 * parents, and closes scopes without a recorded end.
 */
bool decode_execution_nesting(struct decoder *decoder, uint32_t first,
			      const struct decode_ring *ring);
/*
 * Subtracts the record overhead from the durations and starts of a unit's sorted executions, which
 * stay sorted.
 */
bool decode_subtract_overhead(struct decoder *decoder, const struct decode_unit *unit);
/* Instead of these: adds the sums of unit `index`, with its words at `bytes`, to decoder->sums. */
bool decode_unit_sums(struct decoder *decoder, uint8_t index, const uint8_t *bytes);
/* Makes executions of the CTA's events after all its units have been read. */
bool decode_async_events(struct decoder *decoder);
