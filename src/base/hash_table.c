/* Hash table from u64 keys to u32 values: open addressing with linear probing. */
#include "base/hash_table.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 64u

void hash_table_fini(struct hash_table *table)
{
	free(table->slots);
	*table = (struct hash_table){0};
}

void hash_table_clear(struct hash_table *table)
{
	if (table->slots)
		memset(table->slots, 0, table->slot_count * sizeof(*table->slots));
	table->count = 0;
}

static void put_slot(struct hash_table *table, struct hash_slot entry)
{
	uint64_t at = entry.hash;

	while (table->slots[at & (table->slot_count - 1)].value)
		at++;
	table->slots[at & (table->slot_count - 1)] = entry;
}

bool hash_table_reserve(struct hash_table *table, size_t count)
{
	struct hash_table grown = {.slot_count = table->slot_count, .count = table->count};

	if (!grown.slot_count)
		grown.slot_count = FIRST_SLOTS;
	while (grown.slot_count - grown.slot_count / 4 < table->count + count)
		grown.slot_count *= 2;
	if (grown.slot_count == table->slot_count)
		return true;
	grown.slots = calloc(grown.slot_count, sizeof(*grown.slots));
	if (!grown.slots)
		return false;
	for (size_t i = 0; i < table->slot_count; i++)
		if (table->slots[i].value)
			put_slot(&grown, table->slots[i]);
	free(table->slots);
	*table = grown;
	return true;
}

bool hash_table_add(struct hash_table *table, uint64_t hash, uint32_t value)
{
	if (!hash_table_reserve(table, 1))
		return false;
	put_slot(table, (struct hash_slot){hash, value});
	table->count++;
	return true;
}
