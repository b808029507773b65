/* Random key of the hash functions. */
#include "base/hash.h"

#include <stdlib.h>
#include <sys/auxv.h>

_Atomic uint64_t hash_secret_word;

#ifdef HASH_FIXED_SECRET /* fuzzers: one input, one path through the program */

static uint64_t draw_secret(void)
{
	return HASH_FIXED_SECRET;
}

#else

/*
 * The key comes from the 16 random bytes that the kernel passes to every program (AT_RANDOM). That
 * needs no system call, which a sandbox could refuse, and cannot fail. libc derives its stack
 * protector from the same bytes; the folded product of both halves does not reveal them. A forked
 * child inherits the key together with the tables.
 */
static uint64_t draw_secret(void)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr) */
	const void *random = (const void *)getauxval(AT_RANDOM);
	uint64_t halves[2] = {0};

	if (random) /* every Linux since 2.6.29 has it */
		memcpy(halves, random, sizeof(halves));
	__uint128_t product = (__uint128_t)(halves[0] ^ 0xa0761d6478bd642fULL) *
			      (halves[1] ^ 0xe7037ed1a0b428dbULL);
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

#endif

uint64_t hash_secret_make(void)
{
	uint64_t none = 0;
	uint64_t made = draw_secret();

	if (!made)
		made = 1;
	/* relaxed: no other data depends on the word; the first thread to store it wins */
	if (atomic_compare_exchange_strong_explicit(&hash_secret_word, &none, made,
						    memory_order_relaxed, memory_order_relaxed))
		return made;
	return none;
}

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
