/* Open-addressing hash table for names in LLVM IR. */
#include "intra/llvm/ir_names.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define PROBE_MAX 1024u /* maximum steps; half of the slots are free */

bool ir_names_init(struct ir_names *map, uint32_t count)
{
	map->slot_count = 16;
	while (map->slot_count < count * 2)
		map->slot_count *= 2;
	map->slots = calloc(map->slot_count, sizeof(*map->slots));
	return map->slots;
}

void ir_names_clear(struct ir_names *map)
{
	memset(map->slots, 0, map->slot_count * sizeof(*map->slots));
}

void ir_names_fini(struct ir_names *map)
{
	free(map->slots);
	*map = (struct ir_names){0};
}

/* The slot of the name, or the free slot for it; NULL after PROBE_MAX steps. */
static struct name_slot *slot_of(const struct ir_names *map, struct slice name)
{
	uint32_t at = (uint32_t)hash_bytes(name.at, name.length);

	for (uint32_t i = 0; i < PROBE_MAX && i < map->slot_count; i++, at++) {
		struct name_slot *slot = &map->slots[at & (map->slot_count - 1)];

		if (!slot->name.at || slices_equal(slot->name, name))
			return slot;
	}
	return NULL;
}

uint32_t ir_names_find(const struct ir_names *map, struct slice name)
{
	const struct name_slot *slot = slot_of(map, name);

	return slot && slot->name.at ? slot->number : IR_NAME_NONE;
}

bool ir_names_add(struct ir_names *map, struct slice name, uint32_t number)
{
	struct name_slot *slot = slot_of(map, name);

	if (!slot || slot->name.at)
		return false;
	*slot = (struct name_slot){name, number};
	return true;
}
