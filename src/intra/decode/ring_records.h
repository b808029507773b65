/*
 * Records of one unit's ring buffer, oldest first, with 64-bit clocks, and the executions made of
 * them.
 */
#ifndef INTRA_DECODE_RING_RECORDS_H
#define INTRA_DECODE_RING_RECORDS_H

#include "intra/decode/decoder.h"

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

/*
 * Adds the unit's executions and events to the decoder, and unpaired or invalid records to its
 * totals. STARTs without an END stay among the executions, with DECODE_OPEN. False if out of
 * memory.
 */
bool decode_ring_records(struct decoder *decoder, struct decode_ring *ring, uint8_t unit);

#endif
