/* Name table for LLVM IR text: labels to blocks, functions to indices. */
#ifndef INTRA_LLVM_IR_NAMES_H
#define INTRA_LLVM_IR_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/slice.h"

#define IR_NAME_NONE UINT32_MAX

/* All zero: empty, without capacity. */
struct ir_names {
	struct hash_table index; /* by content; entry + 1 */
	struct ir_name {
		struct slice name;
		uint32_t number;
	} * names;
	uint32_t capacity;
};

/* Allocates space for `count` names. False if out of memory. */
bool ir_names_init(struct ir_names *map, uint32_t count);
/* Removes all names; keeps the capacity. */
void ir_names_clear(struct ir_names *map);
void ir_names_fini(struct ir_names *map);

/* The number of the name, or IR_NAME_NONE. */
uint32_t ir_names_find(const struct ir_names *map, struct slice name);
/* Adds a name, which is not copied. False if it exists already or there is no space. */
bool ir_names_add(struct ir_names *map, struct slice name, uint32_t number);

#endif
