/* A hash table from pairs of indices to numbers that are not 0. Nothing is ever removed. */
#ifndef MODEL_PAIRS_H
#define MODEL_PAIRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An entry whose value is 0 is free. */
struct pair_slot {
	uint64_t pair;
	uint32_t value;
};

/* Begins as zeros. */
struct pairs {
	struct pair_slot *slots;
	size_t slot_count; /* a power of two, or 0 */
	size_t count;
};

void pairs_fini(struct pairs *pairs);

/* The value of (a, b), 0 if there is none. */
uint32_t pairs_find(const struct pairs *pairs, uint32_t a, uint32_t b);
/* Adds a pair that is not there yet. False when memory is out. */
bool pairs_add(struct pairs *pairs, uint32_t a, uint32_t b, uint32_t value);

#endif
