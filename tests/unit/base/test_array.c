/* base/array: growth keeps the elements, and sizes that overflow are rejected. */
#include "unit/tap.h"

#include "base/array.h"

TEST(array_starts_from_nothing_and_doubles)
{
	uint32_t *items = NULL;
	size_t capacity = 0;

	CHECK(array_reserve(&items, &capacity, 1, sizeof(*items)));
	CHECK_EQ(capacity, 16);
	CHECK(array_reserve(&items, &capacity, 17, sizeof(*items)));
	CHECK_EQ(capacity, 32);
	CHECK(array_reserve(&items, &capacity, 1000, sizeof(*items)));
	CHECK_EQ(capacity, 1024);
	free(items);
}

TEST(array_does_not_grow_while_it_has_space)
{
	char *items = NULL;
	size_t capacity = 0;

	CHECK(array_reserve(&items, &capacity, 10, 1));
	char *before = items;
	CHECK(array_reserve(&items, &capacity, 16, 1));
	CHECK_PTR(items, before);
	CHECK(array_reserve(&items, &capacity, 0, 1));
	CHECK_EQ(capacity, 16);
	free(items);
}

TEST(array_fills_new_elements_with_zeros_and_keeps_the_others)
{
	uint32_t *items = NULL;
	size_t capacity = 0;

	CHECK(array_reserve_zeros(&items, &capacity, 1, sizeof(*items)));
	memset(items, 0xff, capacity * sizeof(*items));
	CHECK(array_reserve_zeros(&items, &capacity, 50, sizeof(*items)));
	CHECK_EQ(capacity, 64);
	for (size_t i = 0; i < capacity; i++)
		CHECK_U64(items[i], i < 16 ? UINT32_MAX : 0);
	free(items);
}

TEST(array_keeps_its_elements_while_it_grows)
{
	uint64_t *items = NULL;
	size_t capacity = 0;

	for (size_t i = 0; i < 5000; i++) {
		CHECK(array_reserve(&items, &capacity, i + 1, sizeof(*items)));
		items[i] = i * i;
	}
	for (size_t i = 0; i < 5000; i++)
		CHECK_U64(items[i], i * i);
	free(items);
}

TEST(array_rejects_overflow_and_stays_unchanged)
{
	uint64_t *items = NULL;
	size_t capacity = 0;

	CHECK(array_reserve(&items, &capacity, 16, sizeof(*items)));
	uint64_t *before = items;
	CHECK(!array_reserve(&items, &capacity, SIZE_MAX, sizeof(*items)));
	CHECK(!array_reserve(&items, &capacity, SIZE_MAX / 2 + 2, 1));
	/* A power of two that fits as a count, but not in bytes. */
	CHECK(!array_reserve(&items, &capacity, (size_t)1 << 62, sizeof(*items)));
	CHECK_PTR(items, before);
	CHECK_EQ(capacity, 16);
	free(items);
}

TEST(search_counts_the_elements_before_any_key)
{
	static const int sorted[] = {1, 3, 3, 3, 7, 9};

	for (size_t length = 0; length <= ARRAY_LENGTH(sorted); length++) {
		for (int key = 0; key <= 10; key++) {
			size_t below = 0;
			size_t up_to = 0;

			for (size_t i = 0; i < length; i++) {
				below += sorted[i] < key;
				up_to += sorted[i] <= key;
			}
			CHECK_U64(ARRAY_COUNT_BEFORE(length, i, sorted[i] < key), below);
			CHECK_U64(ARRAY_COUNT_BEFORE(length, i, sorted[i] <= key), up_to);
		}
	}
}

TEST(elements_are_added_inserted_and_removed_without_a_capacity)
{
	uint32_t *items = NULL;
	uint32_t count = 0;

	while (count < 100)
		CHECK(ARRAY_INSERT(items, count, count / 2, count));
	for (uint32_t i = 0; i < 100; i++)
		CHECK_EQ(items[i], i < 50 ? 2 * i + 1 : 198 - 2 * i);
	while (count > 10)
		ARRAY_REMOVE(items, count, 5);
	CHECK_EQ(items[4], 9);
	CHECK_EQ(items[5], 8);
	for (uint32_t i = 0; i < 1000; i++)
		CHECK(ARRAY_ADD(items, count, i));
	CHECK_EQ(count, 1010);
	CHECK_EQ(items[9], 0);
	for (uint32_t i = 0; i < 1000; i++)
		CHECK_EQ(items[10 + i], i);
	count = 0; /* the array may shrink now */
	for (uint32_t i = 0; i < 70; i++)
		CHECK(ARRAY_ADD(items, count, i));
	CHECK_EQ(items[69], 69);
	free(items);
}

struct pair {
	int first;
	int second;
};

ARRAY_ORDER(compare_pairs, struct pair,
	    ORDER_OF(b->first, a->first) ?: ORDER_OF(a->second, b->second))
ARRAY_ORDER(compare_pointers, struct pair *const, ORDER_OF((*a)->second, (*b)->second))

TEST(sorting_is_by_the_first_key_that_differs)
{
	static const int seconds[] = {3, 5, 1, 2};
	struct pair pairs[] = {{1, 2}, {2, 5}, {1, 1}, {2, 3}};
	const struct pair *pointers[] = {&pairs[1], &pairs[0]};

	ARRAY_SORT(pairs, ARRAY_LENGTH(pairs), compare_pairs);
	for (size_t i = 0; i < ARRAY_LENGTH(pairs); i++) {
		CHECK_EQ(pairs[i].first, i < 2 ? 2 : 1);
		CHECK_EQ(pairs[i].second, seconds[i]);
	}
	ARRAY_SORT(pointers, ARRAY_LENGTH(pointers), compare_pointers);
	CHECK_PTR(pointers[0], &pairs[0]);
	ARRAY_SORT((struct pair *)NULL, 0, compare_pairs);
}
