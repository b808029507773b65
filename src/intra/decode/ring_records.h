/*
 * The ring of one unit: its latest records, oldest first, each with its clock in 64 bits, and the
 * executions that they are the starts and ends of.
 */
#ifndef INTRA_DECODE_RING_RECORDS_H
#define INTRA_DECODE_RING_RECORDS_H

#include "intra/decode/decoder.h"

struct decode_ring {
	const struct instrument_layout *layout;
	const uint8_t *bytes;
	uint32_t capacity; /* records, without the slack */
	uint32_t slack;
	uint32_t count;
	uint32_t first; /* logical position of the oldest that is there */
	uint64_t start_clock;
	uint64_t end_clock;
	/* Set by decode_ring_records(). */
	uint64_t oldest;     /* when the oldest record that is left was made, where some are not */
	uint32_t open_count; /* executions that wait for an END: DECODE_OPEN */
};

/* What `sequence` is of a START without an END; no record has that number. */
#define DECODE_OPEN UINT32_MAX

/*
 * Adds what the records say to the decoder's executions and events; what has no pair, or no kernel
 * would have written, to its totals. STARTs without an END stay among the executions, with their
 * start and DECODE_OPEN. False: out of memory.
 */
bool decode_ring_records(struct decoder *decoder, struct decode_ring *ring, uint8_t unit);

#endif
