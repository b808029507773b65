/* base/hash_table: lookup, growth, several values of one hash. */
#include "unit/tap.h"

#include "base/hash.h"

TEST(an_empty_table_finds_nothing)
{
	struct hash_table table = {0};

	CHECK_EQ(hash_table_find(&table, 0), 0);
	CHECK_EQ(hash_table_find(&table, 7), 0);
	hash_table_fini(&table);
}

TEST(entries_are_found_after_growth)
{
	struct hash_table table = {0};

	for (uint32_t i = 1; i <= 10000; i++) {
		CHECK_EQ(hash_table_find(&table, hash_pair(i, i / 3)), 0);
		CHECK(hash_table_add(&table, hash_pair(i, i / 3), i));
		CHECK_LT(table.count, table.slot_count);
	}
	for (uint32_t i = 1; i <= 10000; i++) {
		CHECK_EQ(hash_table_find(&table, hash_pair(i, i / 3)), i);
		CHECK_EQ(hash_table_find(&table, hash_pair(i, i / 3 + 1)), 0);
	}
	hash_table_clear(&table);
	CHECK_EQ(hash_table_find(&table, hash_pair(3, 1)), 0);
	hash_table_fini(&table);
}

TEST(all_values_of_a_hash_are_visited)
{
	struct hash_table table = {0};
	uint64_t at = UINT64_MAX; /* the probe wraps around */
	uint64_t sum = 0;
	uint32_t value;

	for (uint32_t i = 1; i <= 100; i++)
		CHECK(hash_table_add(&table, i % 2 ? UINT64_MAX : i, i));
	while ((value = hash_table_next(&table, UINT64_MAX, &at)) != 0) {
		CHECK_EQ(value % 2, 1);
		sum += value;
	}
	CHECK_EQ(sum, 2500);
	hash_table_fini(&table);
}

TEST(reserved_space_is_enough)
{
	struct hash_table table = {0};

	CHECK(hash_table_reserve(&table, 1000));
	const struct hash_slot *slots = table.slots;
	for (uint32_t i = 1; i <= 1000; i++)
		CHECK(hash_table_add(&table, hash_u64(i), i));
	CHECK_PTR(table.slots, slots);
	hash_table_fini(&table);
}
