/* Hashing of bytes and integers for the tables in memory; never stored in a file. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A bijective mixer: the finaliser of MurmurHash3 (public domain), fmix64. */
static inline uint64_t hash_u64(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdULL;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53ULL;
	x ^= x >> 33;
	return x;
}

/* 8 bytes a step, folded through a 64x64->128 bit product; the shape of wyhash (public domain). */
static inline uint64_t hash_bytes(const void *bytes, size_t length)
{
	const unsigned char *p = bytes;
	uint64_t h = 0x9e3779b97f4a7c15ULL ^ length;
	uint64_t word;

	while (length >= 8) {
		__uint128_t product;

		memcpy(&word, p, 8);
		product = (__uint128_t)(h ^ word) * 0xa0761d6478bd642fULL;
		h = (uint64_t)product ^ (uint64_t)(product >> 64);
		p += 8;
		length -= 8;
	}
	word = 0;
	memcpy(&word, p, length);
	return hash_u64(h ^ word);
}

#endif
