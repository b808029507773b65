/* backend/gpu/await_records: waiting for records that never come, with a vendor of the test. */
#include "unit/recorded.h"

#include "backend/gpu/records.h"
#include "base/clock.h"

#define MISSING "lost: kernel record never received"

static unsigned polls;
static uint64_t due_ns; /* when one record arrives; 0: none does */

static int poll_vendor(void)
{
	polls++;
	if (due_ns && clock_monotonic_ns() >= due_ns) {
		await_records_note();
		await_records_note_complete();
		due_ns = 0;
	}
	return 0;
}

static const struct await_vendor vendor = {
	.flush = poll_vendor,
	.name = "fake",
	.cause = "the test does not send any",
};

/* The number of polls of a flush. A poll takes 50 us and more. */
static unsigned flush(uint64_t launched)
{
	polls = 0;
	CHECK_EQ(await_records_flush(launched, 0, true), 0);
	return polls;
}

TEST(flushes_that_wait_in_vain_become_short)
{
	int session = rec_start("a");
	uint64_t launched = 0;

	await_records_start(&vendor);
	for (int i = 0; i < 10; i++)
		flush(++launched);
	/* 20 ms have at most 400 polls of 50 us, and 200 ms about 2,000. */
	for (int i = 0; i < 10; i++)
		CHECK(flush(++launched) <= 410);
	CHECK(await_records_were_missed());
	rec_finalize(session, "none");
}

TEST(a_flush_that_receives_all_records_makes_the_next_ones_patient)
{
	int session = rec_start("a");
	uint64_t launched = 0;

	await_records_start(&vendor);
	for (int i = 0; i < 11; i++)
		flush(++launched);
	due_ns = clock_monotonic_ns(); /* at once */
	CHECK_U64(flush(++launched), 1);
	/* Later than the moment that the flushes before have waited for. */
	due_ns = clock_monotonic_ns() + 60000000u;
	flush(++launched);
	CHECK_U64(due_ns, 0);
	CHECK_U64(rec_counter(session, MISSING), 11);
	rec_finalize(session, "none");
}

TEST(missing_records_are_reported_once_and_all_counted)
{
	int session = rec_start("a");

	await_records_start(&vendor);
	flush(3);
	flush(5);
	flush(5); /* nothing more is missing: no wait */
	CHECK_U64(polls, 1);
	CHECK_U64(rec_counter(session, MISSING), 5);
	rec_finalize(session, "none");
}
