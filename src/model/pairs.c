/* Hash table keyed by pairs of indices. */
#include "model/pairs.h"

#include <stdlib.h>

#include "base/hash.h"

#define FIRST_SLOTS 64u

void pairs_fini(struct pairs *pairs)
{
	free(pairs->slots);
	*pairs = (struct pairs){0};
}

static struct pair_slot *slot_of(const struct pairs *pairs, uint64_t pair)
{
	size_t mask = pairs->slot_count - 1;
	size_t i = (size_t)hash_u64(pair) & mask;

	while (pairs->slots[i].value && pairs->slots[i].pair != pair)
		i = (i + 1) & mask;
	return &pairs->slots[i];
}

static bool grow(struct pairs *pairs)
{
	struct pairs old = *pairs;
	size_t wanted = old.slot_count ? old.slot_count * 2 : FIRST_SLOTS;

	if (old.count < old.slot_count / 2)
		return true;
	pairs->slots = calloc(wanted, sizeof(*pairs->slots));
	if (!pairs->slots) {
		pairs->slots = old.slots;
		return false;
	}
	pairs->slot_count = wanted;
	for (size_t i = 0; i < old.slot_count; i++) {
		if (old.slots[i].value)
			*slot_of(pairs, old.slots[i].pair) = old.slots[i];
	}
	free(old.slots);
	return true;
}

uint32_t pairs_find(const struct pairs *pairs, uint32_t a, uint32_t b)
{
	return pairs->slot_count ? slot_of(pairs, (uint64_t)a << 32 | b)->value : 0;
}

bool pairs_add(struct pairs *pairs, uint32_t a, uint32_t b, uint32_t value)
{
	uint64_t pair = (uint64_t)a << 32 | b;

	if (!grow(pairs))
		return false;
	*slot_of(pairs, pair) = (struct pair_slot){pair, value};
	pairs->count++;
	return true;
}
