/* Distributions of durations in cycles. */
#ifndef BACKEND_INSTRUMENT_HISTOGRAM_H
#define BACKEND_INSTRUMENT_HISTOGRAM_H

#include <stdint.h>

/*
 * Exact below 32 cycles, then 32 buckets per power of two, so that a percentile is off by 3 % at
 * most.
 */
#define HISTOGRAM_SUB_LOG2 5u
#define HISTOGRAM_SUB (1u << HISTOGRAM_SUB_LOG2)
#define HISTOGRAM_BUCKETS (HISTOGRAM_SUB * (45u - HISTOGRAM_SUB_LOG2 + 1u)) /* to 2^45: hours */

static inline uint32_t histogram_bucket(uint64_t cycles)
{
	uint32_t log2;
	uint32_t index;

	if (cycles < HISTOGRAM_SUB)
		return (uint32_t)cycles;
	log2 = 63u - (uint32_t)__builtin_clzll(cycles);
	index = (log2 - HISTOGRAM_SUB_LOG2 + 1) * HISTOGRAM_SUB +
		(uint32_t)(cycles >> (log2 - HISTOGRAM_SUB_LOG2) & (HISTOGRAM_SUB - 1));
	return index < HISTOGRAM_BUCKETS ? index : HISTOGRAM_BUCKETS - 1;
}

/* The middle of a bucket. */
static inline uint64_t histogram_cycles(uint32_t index)
{
	uint32_t log2 = index / HISTOGRAM_SUB + HISTOGRAM_SUB_LOG2 - 1;
	uint64_t width;

	if (index < HISTOGRAM_SUB * 2)
		return index;
	width = 1ull << (log2 - HISTOGRAM_SUB_LOG2);
	return (1ull << log2) + (index % HISTOGRAM_SUB) * width + width / 2;
}

#endif
