/* Hash table from pairs of indices to non-zero numbers. Entries are never removed. */
#ifndef MODEL_PAIRS_H
#define MODEL_PAIRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A slot with value 0 is free. */
struct pair_slot {
	uint64_t pair;
	uint32_t value;
};

/* Initialized with zeros. */
struct pairs {
	struct pair_slot *slots;
	size_t slot_count; /* a power of two, or 0 */
	size_t count;
};

void pairs_fini(struct pairs *pairs);

/* The value of (a, b), 0 if not found. */
uint32_t pairs_find(const struct pairs *pairs, uint32_t a, uint32_t b);
/* Adds a pair that the table does not contain yet. False if out of memory. */
bool pairs_add(struct pairs *pairs, uint32_t a, uint32_t b, uint32_t value);

#endif
