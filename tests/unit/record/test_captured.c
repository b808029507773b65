/* Open captures of the process: the end of one ends no other. */
#include "unit/tap.h"

#include "record/thread/captured.h"

TEST(the_end_of_a_capture_that_began_unseen_ends_no_other)
{
	captured_begin(5);
	captured_end(7);
	CHECK(captured_any_open());
	captured_end(5);
	CHECK(!captured_any_open());
}

TEST(a_capture_with_an_unseen_end_is_replaced_by_the_next_of_its_key)
{
	captured_begin(5);
	captured_begin(5);
	captured_end(5);
	CHECK(!captured_any_open());
}

TEST(an_end_without_a_key_ends_one)
{
	captured_begin(5);
	captured_begin(6);
	captured_end(0);
	CHECK(captured_any_open());
	captured_end(0);
	captured_end(0);
	CHECK(!captured_any_open());
}

TEST(more_captures_than_can_be_known_end)
{
	for (uint64_t key = 1; key <= 100; key++)
		captured_begin(key);
	CHECK(captured_any_open());
	for (uint64_t key = 1; key <= 100; key++)
		captured_end(key);
	CHECK(!captured_any_open());
}

static void *begin_and_end(void *data)
{
	for (int i = 0; i < 20000; i++) {
		captured_begin((uintptr_t)data);
		captured_end((uintptr_t)data);
		captured_end(99); /* unseen */
	}
	return NULL;
}

TEST(threads_that_capture_at_a_time_are_counted_exactly)
{
	pthread_t threads[4];

	for (uintptr_t i = 0; i < 4; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, begin_and_end, (void *)(i + 1)), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK(!captured_any_open());
	captured_begin(1);
	CHECK(captured_any_open());
	captured_clear();
	CHECK(!captured_any_open());
}
