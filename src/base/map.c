/* Hash map with lock-free readers: insertion, growth and removal. */
#include "base/map.h"

#include <sys/mman.h>
#include <unistd.h>

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

/* True if it took a free slot, false if it took the slot of a removed key. */
static bool put_slot(struct map_table *table, uint64_t key, uint32_t value)
{
	uint64_t i = hash_u64(key) & table->mask;

	while (atomic_load_explicit(&table->slots[i].key, memory_order_relaxed) &&
	       atomic_load_explicit(&table->slots[i].value, memory_order_relaxed))
		i = (i + 1) & table->mask;
	bool is_free = !atomic_load_explicit(&table->slots[i].key, memory_order_relaxed);
	/* A lookup of the removed key finds this value until the new key is stored. */
	atomic_store_explicit(&table->slots[i].value, value, memory_order_release);
	atomic_store_explicit(&table->slots[i].key, key, memory_order_release);
	return is_free;
}

static bool is_used(const struct map_table *table, uint64_t i)
{
	return atomic_load_explicit(&table->slots[i].key, memory_order_relaxed) != 0;
}

static bool is_removed(const struct map_table *table, uint64_t i)
{
	return is_used(table, i) &&
	       !atomic_load_explicit(&table->slots[i].value, memory_order_relaxed);
}

/* Releases the memory of a table that readers may still be probing; its header must survive. */
static void table_retire(struct map_table *table)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE); /* 4 to 64 KB */
	uintptr_t end = (uintptr_t)table + table_bytes(table->mask + 1);
	uintptr_t start = ((uintptr_t)table + sizeof(*table) + page - 1) & ~(page - 1);

	if (start < end)
		madvise((char *)table + (start - (uintptr_t)table), end - start, MADV_DONTNEED);
}

bool map_insert(struct map *map, uint64_t key, uint32_t value)
{
	struct map_table *table = atomic_load_explicit(&map->table, memory_order_relaxed);

	if (!table || map->used >= (table->mask + 1) / 3 * 2) {
		/* If most used slots belong to removed keys, the same number of slots is enough. */
		uint64_t before = table ? table->mask + 1 : FIRST_SLOTS / 2;
		uint64_t slots = table && map->count < before / 3 ? before : 2 * before;
		struct map_table *grown = table_new(slots);

		if (!grown)
			return false;
		for (uint64_t i = 0; table && i <= table->mask; i++)
			if (is_used(table, i) && !is_removed(table, i))
				put_slot(grown,
					 atomic_load_explicit(&table->slots[i].key,
							      memory_order_relaxed),
					 atomic_load_explicit(&table->slots[i].value,
							      memory_order_relaxed));
		atomic_store_explicit(&map->table, grown, memory_order_release);
		if (table)
			table_retire(table);
		table = grown;
		map->used = map->count;
	}
	map->used += put_slot(table, key, value);
	map->count++;
	return true;
}

void map_remove(struct map *map, uint64_t key)
{
	struct map_table *table = atomic_load_explicit(&map->table, memory_order_relaxed);
	uint64_t i = hash_u64(key);

	if (!table || !map_find(map, key))
		return;
	i &= table->mask;
	while (atomic_load_explicit(&table->slots[i].key, memory_order_relaxed) != key)
		i = (i + 1) & table->mask;
	atomic_store_explicit(&table->slots[i].value, 0, memory_order_relaxed);
	map->count--;
	/* A probe ends at a free slot. So removed slots directly before a free one can be freed. */
	if (is_used(table, (i + 1) & table->mask))
		return;
	for (; is_removed(table, i); i = (i - 1) & table->mask) {
		atomic_store_explicit(&table->slots[i].key, 0, memory_order_relaxed);
		map->used--;
	}
}
