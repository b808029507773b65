/* A map from names in a text of LLVM IR to numbers: labels to blocks, functions to their index. */
#ifndef INTRA_LLVM_IR_NAMES_H
#define INTRA_LLVM_IR_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slice {
	const char *at;
	size_t length;
};

#define NAME_NONE UINT32_MAX

struct name_slot {
	struct slice name;
	uint32_t number;
};

/* All zero: empty, and without room. */
struct name_map {
	struct name_slot *slots;
	uint32_t slot_count;
};

/* Room for `count` names. False when memory is out. */
bool name_map_init(struct name_map *map, uint32_t count);
/* Empty again, with the room that it has. */
void name_map_clear(struct name_map *map);
void name_map_fini(struct name_map *map);

/* The name's number; NAME_NONE. */
uint32_t name_map_find(const struct name_map *map, struct slice name);
/* The text of the name must stay. False when it is there already, or is not to be found again. */
bool name_map_add(struct name_map *map, struct slice name, uint32_t number);

bool slices_equal(struct slice a, struct slice b);

#endif
