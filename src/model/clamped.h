/*
 * Saturating sums of metric values: they stop at the end of their range, because corrupt or very
 * long profiles may contain any value.
 */
#pragma once

#include "base/buf.h"

static inline uint64_t clamped_u64(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static inline uint32_t clamped_u32(uint32_t a, uint32_t b)
{
	uint32_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT32_MAX : sum;
}

static inline int64_t clamped_i64(int64_t a, int64_t b)
{
	int64_t sum;

	if (__builtin_add_overflow(a, b, &sum))
		return a < 0 ? INT64_MIN : INT64_MAX;
	return sum;
}

/* Counter of sums that reached the end of the range; same name as the recorder's. */
#define CLAMPED_COUNTER "lost: integer metric beyond 64 bits"

/* Adds `more` to *sum; true if the result is clamped to the end of the range. */
static inline bool clamped_add(int64_t *sum, int64_t more)
{
	int64_t exact;
	bool is_clamped = __builtin_add_overflow(*sum, more, &exact);

	*sum = clamped_i64(*sum, more);
	return is_clamped;
}

/*
 * Adds `count` elements, int64 or double (stored as words), to as many. Returns how many are
 * clamped.
 */
static inline uint64_t clamped_add_vector(uint64_t *sums, const uint64_t *from, uint64_t count,
					  bool is_double)
{
	uint64_t clamped = 0;

	for (uint64_t i = 0; i < count; i++) {
		if (!is_double) {
			int64_t sum = (int64_t)sums[i];

			clamped += clamped_add(&sum, (int64_t)from[i]);
			sums[i] = (uint64_t)sum;
			continue;
		}
		sums[i] = bits_of_double(double_of_bits(sums[i]) + double_of_bits(from[i]));
	}
	return clamped;
}
