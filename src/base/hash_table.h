/*
 * Hash table from u64 hashes to non-zero u32 values, for one thread at a time. Entries are not
 * removed. hash_u64() and hash_pair() are bijections: one value belongs to such a hash. Several
 * values may have one hash_bytes(): the caller compares the contents. base/map.h is for concurrent
 * readers.
 */
#ifndef BASE_HASH_TABLE_H
#define BASE_HASH_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

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

#endif
