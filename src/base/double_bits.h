/* The bits of a double, as files and vectors of words have them. */
#ifndef BASE_DOUBLE_BITS_H
#define BASE_DOUBLE_BITS_H

#include <stdint.h>
#include <string.h>

static inline uint64_t bits_of_double(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static inline double double_of_bits(uint64_t bits)
{
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

#endif
