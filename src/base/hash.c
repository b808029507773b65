/* Random key of the hash functions. */
#include "base/hash.h"

#include <sys/auxv.h>
#include <time.h>

_Atomic uint64_t hash_secret_word;

#ifdef HASH_FIXED_SECRET /* fuzzers: one input, one path through the program */

static uint64_t draw_secret(void)
{
	return HASH_FIXED_SECRET;
}

#else

/*
 * The key comes from the 16 random bytes that the kernel passes to every program (AT_RANDOM). That
 * needs no system call, which a sandbox could refuse, and cannot fail. libc derives its stack
 * protector from the same bytes; the folded product of both halves does not reveal them. A forked
 * child inherits the key together with the tables.
 */
static uint64_t draw_secret(void)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr) */
	const void *random = (const void *)getauxval(AT_RANDOM);
	uint64_t halves[2] = {0};
	__uint128_t product;

	if (random) {
		memcpy(halves, random, sizeof(halves));
	} else {
		struct timespec now;

		clock_gettime(CLOCK_MONOTONIC, &now);
		halves[0] = (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec;
		halves[1] = (uintptr_t)&now;
	}
	product = (__uint128_t)(halves[0] ^ 0xa0761d6478bd642fULL) *
		  (halves[1] ^ 0xe7037ed1a0b428dbULL);
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

#endif

uint64_t hash_secret_make(void)
{
	uint64_t none = 0;
	uint64_t made = draw_secret();

	if (!made)
		made = 1;
	/* relaxed: no other data depends on the word; the first thread to store it wins */
	if (atomic_compare_exchange_strong_explicit(&hash_secret_word, &none, made,
						    memory_order_relaxed, memory_order_relaxed))
		return made;
	return none;
}
