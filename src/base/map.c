/* A map whose readers take no lock. See map.h. */
#include "base/map.h"

#include <stddef.h>
#include <sys/mman.h>

#define FIRST_SLOTS 1024u

static size_t table_bytes(uint64_t slots)
{
	return sizeof(struct map_table) + slots * sizeof(struct map_slot);
}

static struct map_table *table_new(uint64_t slots)
{
	struct map_table *table = mmap(NULL, table_bytes(slots), PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (table == MAP_FAILED)
		return NULL;
	table->mask = slots - 1;
	return table;
}

static void put(struct map_table *table, uint64_t key, uint32_t value)
{
	uint64_t i = hash_u64(key) & table->mask;

	while (atomic_load_explicit(&table->slots[i].key, memory_order_relaxed))
		i = (i + 1) & table->mask;
	atomic_store_explicit(&table->slots[i].value, value, memory_order_relaxed);
	atomic_store_explicit(&table->slots[i].key, key, memory_order_release);
}

/* Gives back the memory of a table that readers may still be probing; its header must survive. */
static void table_retire(struct map_table *table)
{
	const uintptr_t page = 4096;
	uintptr_t end = (uintptr_t)table + table_bytes(table->mask + 1);
	uintptr_t start = ((uintptr_t)table + sizeof(*table) + page - 1) & ~(page - 1);

	if (start < end)
		madvise((char *)table + (start - (uintptr_t)table), end - start, MADV_DONTNEED);
}

bool map_insert(struct map *map, uint64_t key, uint32_t value)
{
	struct map_table *table = atomic_load_explicit(&map->table, memory_order_relaxed);

	if (!table || map->count >= (table->mask + 1) / 3 * 2) {
		uint64_t slots = table ? (table->mask + 1) * 2 : FIRST_SLOTS;
		struct map_table *grown = table_new(slots);

		if (!grown)
			return false;
		for (uint64_t i = 0; table && i <= table->mask; i++) {
			uint64_t old =
				atomic_load_explicit(&table->slots[i].key, memory_order_relaxed);

			if (old)
				put(grown, old,
				    atomic_load_explicit(&table->slots[i].value,
							 memory_order_relaxed));
		}
		atomic_store_explicit(&map->table, grown, memory_order_release);
		if (table)
			table_retire(table);
		table = grown;
	}
	put(table, key, value);
	map->count++;
	return true;
}
