/* Histogram of durations in cycles; format/rows.h has the one of kernel times. */
#ifndef BACKEND_INTRA_CYCLE_HISTOGRAM_H
#define BACKEND_INTRA_CYCLE_HISTOGRAM_H

#include <stdint.h>

/*
 * Exact below 32 cycles, then 32 buckets per power of two, so a percentile is off by at most 3 %.
 */
#define CYCLE_SUB_LOG2 5u
#define CYCLE_SUB (1u << CYCLE_SUB_LOG2)
#define CYCLE_BUCKETS (CYCLE_SUB * (45u - CYCLE_SUB_LOG2 + 1u)) /* to 2^45: hours */

static inline uint32_t cycle_bucket(uint64_t cycles)
{
	uint32_t log2;
	uint32_t index;

	if (cycles < CYCLE_SUB)
		return (uint32_t)cycles;
	log2 = 63u - (uint32_t)__builtin_clzll(cycles);
	index = (log2 - CYCLE_SUB_LOG2 + 1) * CYCLE_SUB +
		(uint32_t)(cycles >> (log2 - CYCLE_SUB_LOG2) & (CYCLE_SUB - 1));
	return index < CYCLE_BUCKETS ? index : CYCLE_BUCKETS - 1;
}

static inline uint64_t cycle_bucket_middle(uint32_t index)
{
	uint32_t log2 = index / CYCLE_SUB + CYCLE_SUB_LOG2 - 1;
	uint64_t width;

	if (index < CYCLE_SUB * 2)
		return index;
	width = 1ull << (log2 - CYCLE_SUB_LOG2);
	return (1ull << log2) + (index % CYCLE_SUB) * width + width / 2;
}

#endif
