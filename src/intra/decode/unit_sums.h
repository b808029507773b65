/* Sums of one unit: the words that it stored at its end (layout.h), as executions and cycles. */
#ifndef INTRA_DECODE_UNIT_SUMS_H
#define INTRA_DECODE_UNIT_SUMS_H

#include "intra/decode/decoder.h"

/*
 * Adds those of unit `index`, with its words at `bytes`, to decoder->sums. False if out of memory.
 */
bool decode_unit_sums(struct decoder *decoder, uint8_t index, const uint8_t *bytes);

#endif
