/* backend/gpu/launches: which launches are waited for, and which belong to no session. */
#include "unit/recorded.h"

#include "backend/gpu/launches.h"
#include "backend/gpu/records.h"
#include "record/names/frames.h"
#include "record/thread/record_launch.h"

static struct proton_error err;
static int session;

static void start(void)
{
	CHECK_OK(correlate_init(&err), err);
	session = rec_start("launches");
	launches_start();
}

static void stop(void)
{
	launches_stop();
	rec_finalize(session, "none");
	launches_clear();
}

static struct launch_call kernel(uint32_t correlation)
{
	return (struct launch_call){
		.correlation = correlation, .kind = LAUNCH_KERNEL, .records = LAUNCH_ONE};
}

static void call(struct launch_call call, bool is_captured, bool has_failed)
{
	launches_begin(&call);
	if (is_captured)
		launches_set_captured();
	launches_end(&call, has_failed);
}

TEST(launches_with_their_own_record_are_waited_for)
{
	struct launch_call copy = kernel(15);
	struct launch_call replay = {
		.correlation = 14, .kind = LAUNCH_GRAPH, .records = LAUNCH_MANY};

	start();
	call(kernel(10), false, false);
	CHECK_U64(launches_count(), 1);
	CHECK_EQ(launches_last_shared(), 0);
	call(kernel(11), true, false);
	call(kernel(12), false, true);
	call(replay, false, false);
	CHECK_EQ(launches_last_shared(), 14);
	copy.records = LAUNCH_ANY;
	call(copy, false, false);
	CHECK_U64(launches_count(), 1);
	CHECK_EQ(launches_last_shared(), 15); /* with a record or without */
	call(kernel(16), false, false);
	CHECK_U64(launches_count(), 2);
	stop();
	CHECK_U64(launches_count(), 0);
	CHECK_EQ(launches_last_shared(), 0);
}

TEST(a_captured_or_failed_launch_leaves_no_context)
{
	struct correlation found;

	start();
	for (uint32_t i = 0; i < 3; i++)
		call(kernel(20 + i), i == 1, i == 2);
	CHECK(correlate_take(20, &found));
	CHECK(!proton_context_is_empty(found.where));
	CHECK(!correlate_take(21, &found));
	CHECK(!correlate_take(22, &found));
	stop();
}

TEST(more_work_of_a_call_is_waited_for_while_a_session_records_it)
{
	struct correlation found;

	start();
	launches_add(30);
	CHECK_U64(launches_count(), 1);
	CHECK(correlate_take(30, &found));
	CHECK(!proton_context_is_empty(found.where));
	CHECK_OK(proton_deactivate(session, false, &err), err);
	launches_add(31);
	call(kernel(32), false, false);
	CHECK_U64(launches_count(), 1);
	stop();
}

TEST(launches_before_the_first_call_of_the_sessions_are_older)
{
	start();
	CHECK(launches_is_older(1) && launches_is_older(UINT32_MAX));
	call(kernel(0xfffffff0u), false, false);
	call(kernel(5), false, false); /* numbers wrap around */
	CHECK(launches_is_older(0xffffffefu));
	CHECK(!launches_is_older(0xfffffff0u));
	CHECK(!launches_is_older(5));
	stop();
	CHECK(launches_is_older(1) && launches_is_older(6));
	start();
	launches_add(7);
	CHECK(launches_is_older(6));
	CHECK(!launches_is_older(7));
	stop();
}

TEST(the_size_of_buffers_is_whole_pages_between_limits)
{
	static const struct {
		const char *text;
		size_t bytes;
	} sizes[] = {
		{"", 4u << 20},   {"0", 4u << 20},  {"-1", 4u << 20},
		{"x", 4u << 20},  {"1", 65536},     {"65535", 65536},
		{"65536", 65536}, {"65537", 69632}, {"8388608", 8u << 20},
	};

	unsetenv("TRITON_PROFILE_BUFFER_SIZE");
	CHECK_U64(records_buffer_bytes(), 4u << 20);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		setenv("TRITON_PROFILE_BUFFER_SIZE", sizes[i].text, 1);
		CHECK_U64(records_buffer_bytes(), sizes[i].bytes);
	}
}

/* The first thousand calls are timed ever more rarely, and stand for all. */
TEST(timed_calls_stand_for_the_others)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i <= 10 * LAUNCHES_SAMPLE_PERIOD; i++)
		sum += launches_sample_weight(i);
	CHECK_U64(sum, 10 * LAUNCHES_SAMPLE_PERIOD);
	CHECK_EQ(launches_sample_weight(0), 0);
	CHECK_EQ(launches_sample_weight(1), 1);
	CHECK_EQ(launches_sample_weight(2), 1);
	CHECK_EQ(launches_sample_weight(3), 0);
	CHECK_EQ(launches_sample_weight(LAUNCHES_SAMPLE_PERIOD), LAUNCHES_SAMPLE_PERIOD / 2);
	CHECK_EQ(launches_sample_weight(2 * LAUNCHES_SAMPLE_PERIOD), LAUNCHES_SAMPLE_PERIOD);
}

static const char *name_of(uint32_t frame)
{
	uint32_t length;

	CHECK(frame != FRAME_NONE);
	return frames_text(frames_get(frame)->name, &length);
}

TEST(copies_and_memsets_of_unknown_kinds_have_names)
{
	start();
	for (int again = 0; again < 2; again++) {
		CHECK_STR(name_of(memory_operations_copy_frame(1, MEMORY_PINNED, MEMORY_DEVICE)),
			  "Memcpy HtoD (Pinned -> Device)");
		CHECK_STR(name_of(memory_operations_copy_frame(COPY_KINDS, MEMORY_KINDS,
							       MEMORY_KINDS)),
			  "Memcpy ? (Unknown -> Unknown)");
		CHECK_STR(name_of(memory_operations_copy_frame(COPY_KINDS - 1, MEMORY_KINDS - 1,
							       MEMORY_ARRAY)),
			  "Memcpy PtoP (Managed Static -> Array)");
		CHECK_STR(name_of(memory_operations_set_frame(MEMORY_KINDS)), "Memset (Unknown)");
		CHECK_STR(name_of(memory_operations_set_frame(MEMORY_KINDS - 1)),
			  "Memset (Managed Static)");
	}
	stop();
}
