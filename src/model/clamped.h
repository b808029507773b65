/*
 * Sums of what profiles hold. They stay at the end of their range, for a damaged or a very long
 * profile may hold anything.
 */
#ifndef MODEL_CLAMPED_H
#define MODEL_CLAMPED_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

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

/* Adds `count` elements, int64 or double, to as many; both are kept as words. */
static inline void clamped_add_vector(uint64_t *sums, const uint64_t *from, uint64_t count,
				      bool is_double)
{
	for (uint64_t i = 0; i < count; i++) {
		double a;
		double b;

		if (!is_double) {
			sums[i] = (uint64_t)clamped_i64((int64_t)sums[i], (int64_t)from[i]);
			continue;
		}
		memcpy(&a, &sums[i], sizeof(a));
		memcpy(&b, &from[i], sizeof(b));
		a += b;
		memcpy(&sums[i], &a, sizeof(a));
	}
}

#endif
