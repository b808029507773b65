/*
 * Kernels with records that take more than the budget, with a fake driver: libproton says once that
 * the kernel should be compiled again, and what it prints about that.
 */
#include "unit/fakes.h"
#include "unit/intra/instrumented.h"

#include <pthread.h>

#define FUNCTION 0x1234
#define STREAM 7
#define RECORDS 64u
#define AGAIN                                                                                      \
	"proton: mm: its records took 7.2 % of its time, more than the budget of 5 %; it was "     \
	"compiled again with budget=3"
#define OVER                                                                                       \
	"proton: mm: its records took 7.2 % of its time, more than the budget of 5 %; set "        \
	"budget=3 or select fewer kinds in auto="

static struct instrument_layout layout;
/* In a launch, 64 records of 21 cycles are 7.2 % of the others. */
static uint32_t cycles = 20000;

static int start(const char *mode)
{
	int session;

	if (!getenv("PROTON_CUDA_PATH"))
		SKIP("no fake libraries: run by `meson test`");
	session = instrumented_start("tree", mode);
	layout = (struct instrument_layout){
		.unit_count = 1,
		.warps_per_unit = 1,
		.warp_count = 1,
		.ring_bytes = RECORDS * INSTRUMENT_RECORD_BYTES,
		.cta_stride = 1,
	};
	layout.cta_bytes = instrumented_cta_bytes(&layout);
	layout_scope(&layout, "loop@k.py:1", 11);
	layout_code(&layout, 0, INSTRUMENT_SCOPE);
	instrumented_add(&layout, FUNCTION, "mm");
	rec_begin_saying();
	return session;
}

static void write_warp(uint8_t *cta)
{
	uint64_t clock = 100000;
	struct instrument_unit_header header = {
		.magic = INSTRUMENT_MAGIC,
		.processor = 3,
		.start_ns = 1000000,
		.end_ns = 1000000 + cycles / 2,
		.start_clock = clock,
		.end_clock = clock + cycles,
		.count = RECORDS,
	};

	for (uint32_t i = 0; i < RECORDS; i++) {
		struct instrument_record record = {(uint32_t)clock + cycles / 100 * i,
						   1u << 24 | 10};

		memcpy(cta + layout_ring_at(&layout, 0) + i * sizeof(record), &record,
		       sizeof(record));
	}
	memcpy(cta + layout_header_at(&layout, 0), &header, sizeof(header));
}

/* Returns the result of proton_instrument_launched(). */
static uint32_t launch(void)
{
	uint64_t address = proton_instrument_buffer(layout.cta_bytes, 128, STREAM);

	if (address)
		write_warp((uint8_t *)(uintptr_t)address);
	return proton_instrument_launched(FUNCTION, STREAM);
}

/* The sum of what `count` launches return. */
static uint32_t launches(uint32_t count)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < count; i++)
		sum += launch();
	return sum;
}

static void flush(int session)
{
	CHECK_OK(proton_deactivate(session, true, NULL), (struct proton_error){0});
	CHECK_OK(proton_activate(session, NULL), (struct proton_error){0});
}

static void finish(void)
{
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
	layout_fini(&layout);
}

TEST(a_smaller_budget_is_returned_once_enough_was_measured)
{
	int session = start("default:auto=loops");

	CHECK_EQ(launches(4), 0);
	flush(session); /* 80,000 cycles are not enough */
	CHECK_EQ(launch(), 0);
	flush(session);
	CHECK_EQ(launch(), 3);
	CHECK_EQ(launches(9), 0);
	proton_instrument_again_begin();
	proton_instrument_again_end(FUNCTION, true);
	CHECK_EQ(rec_printed(AGAIN), 1);
	flush(session);
	CHECK_EQ(launches(9), 0);
	finish();
	CHECK_EQ(rec_printed(OVER), 0);
	/* The next session measures again, for example in a graph that has the old kernel. */
	session = start("default:auto=loops");
	CHECK_EQ(launches(5), 0);
	flush(session);
	CHECK_EQ(launch(), 3);
	finish();
	CHECK_EQ(rec_printed(OVER), 1);
}

TEST(a_kernel_that_was_not_replaced_is_reported)
{
	int session = start("default:auto=loops");

	launches(5);
	flush(session);
	CHECK_EQ(rec_printed(OVER), 0); /* it is about to be compiled again */
	CHECK_EQ(launch(), 3);
	proton_instrument_again_begin();
	proton_instrument_again_end(FUNCTION, false);
	CHECK_EQ(rec_printed(OVER) + rec_printed(AGAIN), 0);
	flush(session);
	CHECK_EQ(rec_printed(OVER), 1);
	CHECK_EQ(launch(), 0);
	finish();
	CHECK_EQ(rec_printed(OVER), 1);
}

TEST(a_caller_may_ignore_it)
{
	int session = start("default:auto=loops");

	launches(5);
	flush(session);
	CHECK_EQ(launch(), 3);
	flush(session);
	finish();
	CHECK_EQ(rec_printed(OVER), 1);
}

TEST(modes_in_which_nothing_is_asked_for)
{
	static const char *const modes[] = {"", "mma", "default:auto=loops:budget=off",
					    "default:auto=loops:budget=1",
					    "default:auto=loops:budget=8"};

	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
		int session = start(modes[i]);

		launches(6);
		flush(session);
		CHECK_EQ(launches(3), 0);
		finish();
		CHECK_EQ(rec_printed("proton: mm: its records"), strstr(modes[i], "=1") ? 1 : 0);
	}
}

/* 1344 of 3000 cycles are 81.2 % of the others: 40 * 40 / 81.2 = 19.7 */
TEST(large_budgets_are_rounded_to_few_different_ones)
{
	int session = start("default:auto=loops:budget=40");

	cycles = 3000;
	launches(34);
	flush(session);
	CHECK_EQ(launch(), 16);
	finish();
}

TEST(captured_launches_ask_for_nothing)
{
	void (*set_capture)(uint64_t stream, int status);
	int session = start("default:auto=loops");

	fake_find(&set_capture, fake_open("PROTON_CUDA_PATH"), "fake_set_capture");
	launches(5);
	flush(session);
	set_capture(STREAM, 1);
	CHECK_EQ(launches(3), 0);
	set_capture(STREAM, 0);
	CHECK_EQ(launch(), 3);
	finish();
}

static void *launch_many(void *sum)
{
	*(uint32_t *)sum = launches(200);
	return NULL;
}

TEST(one_of_several_threads_is_asked)
{
	pthread_t threads[4];
	uint32_t sums[4];
	uint32_t sum = 0;
	int session = start("default:auto=loops");

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, launch_many, &sums[i]);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		sum += sums[i];
	}
	flush(session);
	CHECK_EQ(sum + launch(), 3);
	proton_instrument_again_begin();
	proton_instrument_again_end(FUNCTION, true);
	finish();
	CHECK_EQ(rec_printed(AGAIN), 1);
}
