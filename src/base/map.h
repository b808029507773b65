/*
 * A map from u64 keys to non-zero u32 values whose readers take no lock. Writers are serialised by
 * the caller. Key 0 is not allowed.
 *
 * Growing makes a new table and gives the old one's memory, not its address range, back to the
 * system: a reader still probing the old table then sees free slots, misses, and asks again
 * under the writers' lock. A miss therefore means "not there" only to a caller that holds that
 * lock. Where keys are removed, a hit without the lock may be the value of another key, too: the
 * caller has to compare.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

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
	uint64_t used; /* slots that are not free: those of removed keys among them */
};

/* The value of `key`, 0 if it is not there. */
static inline uint32_t map_find(struct map *map, uint64_t key)
{
	/* acquire: pairs with the release in map_insert's grow, so the slots' zeros are visible */
	struct map_table *table = atomic_load_explicit(&map->table, memory_order_acquire);

	if (!table)
		return 0;
	for (uint64_t i = hash_u64(key) & table->mask;; i = (i + 1) & table->mask) {
		/* acquire, twice: pair with the releases in put(), whatever key it is for */
		uint64_t found = atomic_load_explicit(&table->slots[i].key, memory_order_acquire);

		if (found == key)
			return atomic_load_explicit(&table->slots[i].value, memory_order_acquire);
		if (!found)
			return 0;
	}
}

/* Adds a key that is not there yet. False when memory is out. */
bool map_insert(struct map *map, uint64_t key, uint32_t value);
/* Takes a key out, if it is there. A probe under way may still find it. */
void map_remove(struct map *map, uint64_t key);

#endif
