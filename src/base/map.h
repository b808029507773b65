/*
 * Hash map with lock-free readers, from u64 keys to non-zero u32 values. The caller serializes
 * writers. Key 0 is not allowed. base/hash.h is smaller and faster for one thread.
 *
 * Growing makes a new table and returns the old table's memory, but not its address range, to the
 * system. A reader that still probes the old table sees free slots, misses, and asks again under
 * the writers' lock. A miss is authoritative only for a caller that holds that lock. If keys are
 * removed, a hit without the lock may return the value of another key; the caller has to compare.
 */
#pragma once

#include "base/hash.h"

struct map_slot {
	_Atomic uint64_t key;
	_Atomic uint32_t value;
};

struct map_table {
	uint64_t mask;
	struct map_slot slots[];
};

struct map {
	_Atomic(struct map_table *) table;
	uint64_t count;
	uint64_t used; /* slots that are not free: keys, and removed keys */
};

/* The value of `key`, or 0 if the map does not contain it. */
static inline uint32_t map_find(struct map *map, uint64_t key)
{
	/* acquire: pairs with the release in map_insert(), which publishes a table of zeros */
	struct map_table *table = atomic_load_explicit(&map->table, memory_order_acquire);

	if (!table)
		return 0;
	for (uint64_t i = hash_u64(key) & table->mask;; i = (i + 1) & table->mask) {
		/* acquire, twice: pair with the releases in put(), for any key */
		uint64_t found = atomic_load_explicit(&table->slots[i].key, memory_order_acquire);

		if (found == key)
			return atomic_load_explicit(&table->slots[i].value, memory_order_acquire);
		if (!found)
			return 0;
	}
}

/* Adds a key that the map does not contain yet. False if out of memory. */
bool map_insert(struct map *map, uint64_t key, uint32_t value);
/* Removes a key, if present. A probe under way may still find it. */
void map_remove(struct map *map, uint64_t key);
