/* record/thread/correlate.c: launches find their records, even in a table that grew. */
#include "record/thread/record_launch.h"

#include "unit/tap.h"

#define TABLE (1u << 20) /* as in correlate.c */
#define BEYOND (1u << 16)

static void put(uint32_t number, bool is_shared)
{
	correlate_put(number, &(struct correlation){
				      .where = {.shadow = number + 1, .source = 7, .sessions = 3},
				      .is_shared = is_shared,
			      });
}

static void init(void)
{
	struct proton_error err = {0};

	CHECK_EQ(correlate_init(&err), PROTON_OK);
	correlate_clear();
}

/* True if the ID is known and its data is right. */
static bool take(uint32_t number)
{
	struct correlation found;

	if (!correlate_take(number, &found))
		return false;
	CHECK_U64(found.where.shadow, number + 1);
	CHECK_U64(found.where.source, 7);
	CHECK_U64(found.where.sessions, 3);
	return true;
}

TEST(a_launch_is_taken_once_and_a_shared_one_as_often_as_asked)
{
	init();
	put(5, false);
	put(6, true);
	CHECK(take(5) && !take(5));
	CHECK(take(6) && take(6));
	CHECK(!take(7) && !take(0));
	correlate_clear();
	CHECK(!take(6));
}

/* Looking up a removed ID must not search the table: else this takes minutes, not a second. */
TEST(three_million_launches_may_precede_their_records)
{
	const uint32_t count = 3000000;
	const uint32_t oldest = count - TABLE - BEYOND + 1; /* that is still known */
	uint32_t wrong = 0;

	init();
	for (uint32_t i = 1; i <= count; i++)
		put(i, false);
	for (uint32_t i = 1; i <= count; i++)
		wrong += take(i) != (i >= oldest);
	CHECK_U64(wrong, 0);
	for (uint32_t i = oldest; i <= count; i++)
		wrong += take(i);
	CHECK_U64(wrong, 0);
	correlate_clear();
}

TEST(a_shared_launch_stays_known_beyond_the_table)
{
	init();
	put(9, true);
	for (uint32_t i = 10; i < 10 + TABLE + 1000; i++)
		put(i, false);
	CHECK(take(9) && take(9));
	/* Until that many others have followed it. */
	for (uint32_t i = 10 + TABLE + 1000; i < 10 + TABLE + BEYOND; i++)
		put(i, false);
	CHECK(!take(9));
	correlate_clear();
}

/* Not every ID belongs to a launch, and all of these hash to one slot. */
TEST(correlation_ids_may_be_far_apart)
{
	const uint32_t count = 2000;

	init();
	for (uint32_t i = 1; i <= count; i++)
		put(i * BEYOND, false);
	for (uint32_t i = count; i > 0; i--)
		CHECK(take(i * BEYOND));
	for (uint32_t i = 1; i <= count; i++)
		CHECK(!take(i * BEYOND));
	for (uint32_t i = 1; i <= TABLE + BEYOND + 5000; i++)
		put(i * 7, false);
	for (uint32_t i = 1; i <= TABLE + BEYOND + 5000; i++)
		CHECK_EQ(take(i * 7), i > 5000);
	correlate_clear();
}

/* Correlation IDs start again after 2^32. */
TEST(correlation_ids_may_wrap)
{
	init();
	for (uint32_t i = 0; i < TABLE + 100; i++)
		put(UINT32_MAX - 50 + i, false);
	CHECK(take(UINT32_MAX - 50) && take(UINT32_MAX) && take(49) && take(TABLE));
	CHECK(!take(UINT32_MAX - 51));
	correlate_clear();
}
