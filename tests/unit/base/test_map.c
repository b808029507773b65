/* base/map: inserted keys are found, even by readers that run while it grows. */
#include "unit/tap.h"

#include "base/map.h"

#define KEYS 200000u

/* Keys of many shapes: small, strided, high bits only. */
static uint64_t key_of(uint32_t i)
{
	switch (i % 3) {
	case 0:
		return i + 1;
	case 1:
		return (uint64_t)(i + 1) << 32;
	default:
		return (uint64_t)(i + 1) << 16 | 0x8000000000000001ull;
	}
}

TEST(an_empty_map_holds_nothing)
{
	static struct map map;

	CHECK_EQ(map_find(&map, 1), 0);
	CHECK_EQ(map_find(&map, UINT64_MAX), 0);
}

TEST(inserted_keys_are_found_and_no_others)
{
	static struct map map;

	for (uint32_t i = 0; i < KEYS; i++)
		CHECK(map_insert(&map, key_of(i), i + 1));
	CHECK_U64(map.count, KEYS);
	for (uint32_t i = 0; i < KEYS; i++)
		CHECK_EQ(map_find(&map, key_of(i)), i + 1);
	for (uint32_t i = KEYS; i < 2 * KEYS; i++)
		CHECK_EQ(map_find(&map, key_of(i)), 0);
}

TEST(keys_that_come_and_go_take_no_more_slots)
{
	static struct map map;
	const struct map_table *table = NULL;

	for (uint32_t i = 0; i < 1000; i++)
		CHECK(map_insert(&map, key_of(i), i + 1));
	for (uint32_t i = 1000; i < 20 * KEYS; i++) {
		CHECK(map_insert(&map, key_of(i), i + 1));
		map_remove(&map, key_of(i - 1000 + i % 7));
		map_remove(&map, key_of(i - 1000 - 7)); /* those the line above skipped */
		CHECK_EQ(map_find(&map, key_of(i)), i + 1);
		if (i == KEYS)
			table = map.table;
	}
	CHECK_LE(map.count, 1020);
	CHECK(map.count > 900);
	CHECK_LE(table->mask, 4096);
	CHECK_LE(map.table->mask, 4096);
	for (uint32_t i = 20 * KEYS - 900; i < 20 * KEYS; i++)
		CHECK_EQ(map_find(&map, key_of(i)), i + 1);
	for (uint32_t i = 1000; i < 20 * KEYS - 2000; i++)
		CHECK_EQ(map_find(&map, key_of(i)), 0);
	map_remove(&map, key_of(3)); /* gone already */
}

TEST(random_inserts_and_removes_agree_with_an_array)
{
	static struct map map;
	static uint32_t expected[3000];
	uint64_t live = 0;
	uint32_t seed = 1;

	for (uint32_t n = 0; n < 2000000; n++) {
		uint32_t i = (seed = seed * 1664525 + 1013904223) >> 8;
		uint32_t key = i % 3000;

		CHECK_EQ(map_find(&map, key_of(key)), expected[key]);
		if (expected[key]) {
			map_remove(&map, key_of(key));
			expected[key] = 0;
			live--;
		} else {
			CHECK(map_insert(&map, key_of(key), n + 1));
			expected[key] = n + 1;
			live++;
		}
		CHECK_U64(map.count, live);
	}
}

static struct map shared_map;
static _Atomic uint32_t inserted;

/* While the map grows, a miss may be wrong; a hit may not. */
static void *read_on(void *wrong)
{
	uint32_t seed = (uint32_t)(uintptr_t)&seed;

	for (;;) {
		uint32_t count = atomic_load_explicit(&inserted, memory_order_acquire);
		uint32_t i = count ? (seed = seed * 1664525 + 1013904223) % count : 0;
		uint32_t value = map_find(&shared_map, key_of(i));

		if (value && value != i + 1)
			atomic_store((_Atomic uint32_t *)wrong, value);
		if (count == KEYS)
			return NULL;
	}
}

TEST(readers_never_see_a_wrong_value_while_it_grows)
{
	_Atomic uint32_t wrong = 0;
	pthread_t threads[3];

	for (size_t i = 0; i < 3; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, read_on, &wrong), 0);
	for (uint32_t i = 0; i < KEYS; i++) {
		CHECK(map_insert(&shared_map, key_of(i), i + 1));
		atomic_store_explicit(&inserted, i + 1, memory_order_release);
	}
	for (size_t i = 0; i < 3; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	CHECK_EQ(wrong, 0);
	for (uint32_t i = 0; i < KEYS; i++)
		CHECK_EQ(map_find(&shared_map, key_of(i)), i + 1);
}
