/*
 * Keyed hash functions for bytes and integers, used by tables in memory. The key is random and made
 * once per process: no file can be crafted to put all its names or numbers into one slot. Such a
 * hash is never stored, and no result depends on the order of slots.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

extern _Atomic uint64_t hash_secret_word; /* 0: not made yet */

/* Makes the key, once, in whichever thread comes first. */
uint64_t hash_secret_make(void);

static inline uint64_t hash_secret(void)
{
	/* relaxed: no other data depends on the word */
	uint64_t secret = atomic_load_explicit(&hash_secret_word, memory_order_relaxed);

	return __builtin_expect(secret != 0, 1) ? secret : hash_secret_make();
}

/* An odd factor derived from the key. */
static inline uint64_t hash_factor(uint64_t secret)
{
	return (secret << 29 | secret >> 35) | 1;
}

/* The finalizer of MurmurHash3 (public domain), fmix64, with a secret in place of one constant. */
static inline uint64_t hash_mix(uint64_t x, uint64_t secret)
{
	x ^= secret;
	x ^= x >> 33;
	x *= hash_factor(secret);
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53ULL;
	x ^= x >> 33;
	return x;
}

/* Hash of an integer; a bijection. */
static inline uint64_t hash_u64(uint64_t x)
{
	return hash_mix(x, hash_secret());
}

/* 8 bytes a step, folded through a 64x64->128 bit product; the shape of wyhash (public domain). */
static inline uint64_t hash_bytes(const void *bytes, size_t length)
{
	const unsigned char *p = bytes;
	uint64_t secret = hash_secret();
	uint64_t factor = hash_factor(secret);
	uint64_t h = secret ^ length * 0x9e3779b97f4a7c15ULL;
	uint64_t word;

	while (length >= 8) {
		memcpy(&word, p, 8);
		__uint128_t product = (__uint128_t)(h ^ word) * factor;
		h = (uint64_t)product ^ (uint64_t)(product >> 64);
		p += 8;
		length -= 8;
	}
	word = 0;
	memcpy(&word, p, length);
	return hash_mix(h ^ word, secret);
}

/* FNV-1a, 64 bits, without a key: the same in every process, for names and fields of files. */
static inline uint64_t hash_stored(const void *bytes, size_t length)
{
	const unsigned char *p = bytes;
	uint64_t hash = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ p[i]) * 0x100000001b3ull;
	return hash;
}

/*
 * Hash table from u64 hashes to non-zero u32 values, for one thread at a time. Entries are not
 * removed. hash_u64() and hash_pair() are bijections: one value belongs to such a hash. Several
 * values may have one hash_bytes(): the caller compares the contents. base/map.h is for concurrent
 * readers.
 */

/* A slot with value 0 is free. It is packed: a third of a large profile's memory is hash tables. */
struct __attribute__((packed, aligned(4))) hash_slot {
	uint64_t hash;
	uint32_t value;
};

_Static_assert(sizeof(struct hash_slot) == 12, "slots are packed");

/* Initialized with zeros. */
struct hash_table {
	struct hash_slot *slots;
	size_t slot_count; /* a power of two, or 0 */
	size_t count;
};

void hash_table_fini(struct hash_table *table);
/* Removes all entries; keeps the capacity. */
void hash_table_clear(struct hash_table *table);
/* Makes space for `count` more entries. False if out of memory. */
bool hash_table_reserve(struct hash_table *table, size_t count);
/* Adds an entry; an earlier one with the same hash stays. False if out of memory. */
bool hash_table_add(struct hash_table *table, uint64_t hash, uint32_t value);

static inline uint64_t hash_pair(uint32_t a, uint32_t b)
{
	return hash_u64((uint64_t)a << 32 | b);
}

/* The values of a hash: begins at *at = hash, and returns 0 after the last one. */
static inline uint32_t hash_table_next(const struct hash_table *table, uint64_t hash, uint64_t *at)
{
	while (table->slot_count) {
		const struct hash_slot *slot = &table->slots[(*at)++ & (table->slot_count - 1)];

		if (!slot->value || slot->hash == hash)
			return slot->value;
	}
	return 0;
}

/* The value of a hash, 0 if there is none. */
static inline uint32_t hash_table_find(const struct hash_table *table, uint64_t hash)
{
	return hash_table_next(table, hash, &(uint64_t){hash});
}
