/* A map from names in a text of LLVM IR to numbers: labels to blocks, functions to their index. */
#ifndef INTRA_LLVM_IR_NAMES_H
#define INTRA_LLVM_IR_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "intra/slice.h"

#define IR_NAME_NONE UINT32_MAX

struct name_slot {
	struct slice name;
	uint32_t number;
};

/* All zero: empty, and without room. */
struct ir_names {
	struct name_slot *slots;
	uint32_t slot_count;
};

/* Room for `count` names. False when memory is out. */
bool ir_names_init(struct ir_names *map, uint32_t count);
/* Empty again, with the room that it has. */
void ir_names_clear(struct ir_names *map);
void ir_names_fini(struct ir_names *map);

/* The name's number; IR_NAME_NONE. */
uint32_t ir_names_find(const struct ir_names *map, struct slice name);
/* The text of the name must stay. False when it is there already, or is not to be found again. */
bool ir_names_add(struct ir_names *map, struct slice name, uint32_t number);

#endif
