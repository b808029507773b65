/* Name table for LLVM IR text. */
#include "intra/llvm/ir_names.h"

#include <stdlib.h>
#include <string.h>

bool ir_names_init(struct ir_names *map, uint32_t count)
{
	*map = (struct ir_names){.capacity = count};
	map->names = calloc(count + 1, sizeof(*map->names));
	if (map->names && hash_table_reserve(&map->index, count))
		return true;
	ir_names_fini(map);
	return false;
}

void ir_names_clear(struct ir_names *map)
{
	hash_table_clear(&map->index);
}

void ir_names_fini(struct ir_names *map)
{
	free(map->names);
	hash_table_fini(&map->index);
	*map = (struct ir_names){0};
}

uint32_t ir_names_find(const struct ir_names *map, struct slice name)
{
	uint64_t hash = hash_bytes(name.at, name.length);
	uint64_t at = hash;
	uint32_t found;

	while ((found = hash_table_next(&map->index, hash, &at)) != 0)
		if (slices_equal(map->names[found - 1].name, name))
			return map->names[found - 1].number;
	return IR_NAME_NONE;
}

bool ir_names_add(struct ir_names *map, struct slice name, uint32_t number)
{
	uint32_t count = (uint32_t)map->index.count;

	if (count >= map->capacity || ir_names_find(map, name) != IR_NAME_NONE)
		return false;
	map->names[count] = (struct ir_name){name, number};
	return hash_table_add(&map->index, hash_bytes(name.at, name.length), count + 1);
}
