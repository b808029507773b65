/*
 * CUDA backend: ends of sessions, and flushes, while other threads load modules or capture graphs.
 * The fake ends captures where CUPTI was measured to (tests/fake/cupti_pc_sampling.c).
 */
#include "unit/cuda/replays.h"

#include "base/clock.h"
#include "record/thread/captured.h"

/* A call of another thread that begins, tells so, and ends 10 ms after it may. */
static _Atomic bool is_inside;
static _Atomic bool may_leave;

static void stay_inside(void)
{
	atomic_store(&is_inside, true);
	while (!atomic_load(&may_leave))
		usleep(1000);
	usleep(10000);
}

static void *call_slowly(void *call)
{
	fake.call_around((uint32_t)(uintptr_t)call, stay_inside);
	return NULL;
}

static pthread_t begin_slow_call(uint32_t call)
{
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, call_slowly, (void *)(uintptr_t)call), 0);
	while (!atomic_load(&is_inside))
		usleep(100);
	return thread;
}

TEST(records_end_after_a_module_has_been_loaded)
{
	start();
	launch_function("k", NULL, 1000);
	pthread_t thread = begin_slow_call(CUPTI_CALL_MODULE_LOAD_DATA);
	atomic_store(&may_leave, true);
	end();
	CHECK_EQ(fake.calls("cuptiActivityDisable"), 1);
	CHECK_EQ(fake.calls("cuptiFinalize"), 1);
	pthread_join(thread, NULL);
}

TEST(records_stay_on_if_a_module_takes_long_to_load)
{
	rec_begin_saying();
	start();
	launch_function("k", NULL, 1000);
	pthread_t thread = begin_slow_call(CUPTI_CALL_MODULE_LOAD_DATA);
	end();
	atomic_store(&may_leave, true);
	CHECK_EQ(fake.calls("cuptiActivityDisable"), 0);
	CHECK_EQ(fake.calls("cuptiFinalize"), 0);
	CHECK_EQ(rec_printed("CUPTI's kernel records stay on after recording has ended"), 1);
	pthread_join(thread, NULL);
	start();
	launch_function("k", NULL, 1000);
	end();
	CHECK_EQ(fake.calls("cuptiActivityDisable"), 1);
	CHECK_EQ(fake.calls("cuptiFinalize"), 1);
}

/* A thread that captures: a kernel every 0.5 ms, until the capture has to end. */
static struct {
	pthread_t thread;
	_Atomic bool is_open;
	_Atomic bool must_end;
	_Atomic int kernels;
} capture;

static void *capture_until_end(void *unused)
{
	uint32_t graph = fake.graph_create();

	(void)unused;
	fake.call(CUPTI_CALL_BEGIN_CAPTURE_V2, 0);
	atomic_store(&capture.is_open, true);
	while (!atomic_load(&capture.must_end)) {
		fake.graph_capture_kernel(graph, "node");
		atomic_fetch_add(&capture.kernels, 1);
		usleep(500);
	}
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	atomic_store(&capture.is_open, false);
	return NULL;
}

static void begin_capture(void)
{
	CHECK_EQ(pthread_create(&capture.thread, NULL, capture_until_end, NULL), 0);
	while (!atomic_load(&capture.is_open))
		usleep(100);
}

/* At least one of them begins after the call. */
static void await_captured_kernels(void)
{
	int before = atomic_load(&capture.kernels);

	while (atomic_load(&capture.kernels) < before + 2)
		usleep(500);
}

static void *end_capture_later(void *unused)
{
	usleep(10000);
	atomic_store(&capture.must_end, true);
	return unused;
}

static void end_capture(void)
{
	atomic_store(&capture.must_end, true);
	pthread_join(capture.thread, NULL);
	atomic_store(&capture.must_end, false);
}

/* When calls are reported. */
static void *load_slowly_when_subscribed(void *enabled_before)
{
	while (fake.calls("cuptiActivityEnable") <= (uint32_t)(uintptr_t)enabled_before)
		usleep(100);
	return call_slowly((void *)(uintptr_t)CUPTI_CALL_MODULE_LOAD_DATA);
}

TEST(a_session_that_could_not_begin_to_sample_gives_the_reason)
{
	static const char reason[] =
		"no PCs were sampled: other threads launched kernels or loaded";

	begin_with_context();
	rec_begin_saying();
	/* On a busy machine the thread may begin to load after sampling has begun. */
	for (int i = 0; i < 50 && !rec_printed(reason); i++) {
		void *before = (void *)(uintptr_t)fake.calls("cuptiActivityEnable");
		pthread_t thread;

		atomic_store(&may_leave, false);
		CHECK_EQ(pthread_create(&thread, NULL, load_slowly_when_subscribed, before), 0);
		start_sampling("pcsampling");
		launch_function("k", NULL, 1000);
		end();
		atomic_store(&may_leave, true);
		pthread_join(thread, NULL);
	}
	CHECK_EQ(rec_printed(reason), 1);
}

TEST(a_session_without_the_expected_samples_prints_how_many_they_were)
{
	begin_with_context();
	rec_begin_saying();
	start_sampling("pcsampling");
	launch_function("k", NULL, 1000000000); /* a second */
	end();
	CHECK_EQ(rec_printed("no PC samples arrived, and about"), 1);
}

TEST(sampling_ends_after_a_capture_has)
{
	pthread_t later;

	begin_with_context();
	start_sampling("pcsampling");
	begin_capture();
	CHECK_EQ(pthread_create(&later, NULL, end_capture_later, NULL), 0);
	end();
	CHECK(!atomic_load(&capture.is_open));
	CHECK_U64(fake.pcs_period(&gpu0), 0);
	pthread_join(later, NULL);
	end_capture();
}

static void begin_sampling_within_a_capture(void)
{
	begin_with_context();
	begin_capture();
	start_sampling("pcsampling");
	await_captured_kernels();
}

/* Its beginning is not seen: its nodes are, and its end. */
TEST(sampling_does_not_end_a_capture_that_is_older_than_the_session)
{
	begin_sampling_within_a_capture();
	end();
	CHECK_LT(0, fake.pcs_period(&gpu0)); /* enabled still */
	end_capture();
	start_sampling("pcsampling");
	end();
	CHECK_U64(fake.pcs_period(&gpu0), 0);
}

/*
 * It is refused after Enable, and Disable would end the capture, of which nothing was seen (901 in
 * 2 of 12 storms on a GPU that another process sampled, H200).
 */
TEST(sampling_that_is_refused_ends_no_capture)
{
	begin_with_context();
	rec_begin_saying();
	begin_capture();
	fake.fail("cuptiPCSamplingStart", 1, FAKE_ALWAYS, CUPTI_E_HARDWARE_BUSY);
	start_sampling("pcsampling:windows=5ms/20ms");
	await_captured_kernels();
	end();
	CHECK_EQ(rec_printed("PCs are not sampled"), 1);
	CHECK_LT(0, fake.pcs_period(&gpu0)); /* enabled still */
	end_capture();
	start();
	end();
	CHECK_U64(fake.pcs_period(&gpu0), 0);
}

TEST(a_session_without_samples_says_why_it_cannot_start_after_one_with_them)
{
	struct proton_error err;

	begin_sampling_within_a_capture();
	end();
	CHECK_LT(0, fake.pcs_period(&gpu0)); /* enabled still */
	CHECK_LT(rec_try_start((struct proton_session_options){.backend = "cupti"}, &err), 0);
	CHECK(strstr(err.text, "PC sampling of an earlier session could not be ended yet"));
	end_capture();
	start();
	end();
	CHECK_U64(fake.pcs_period(&gpu0), 0);
}

static void begin_again(void)
{
	start();
}

/*
 * The end of a session hides the end of a launch that made a node, and the start of the next one
 * the beginning of a launch that makes none: after storms on an H200 the capture was open forever.
 */
TEST(a_launch_that_sees_a_session_begin_is_of_no_earlier_capture)
{
	start();
	uint32_t exec = make_graph();
	other_begin(exec);
	other_replay();
	fake.call(CUPTI_CALL_BEGIN_CAPTURE_V2, 0);
	fake.launch(&(struct fake_launch){.call = CUPTI_CALL_LAUNCH_KERNEL,
					  .name = "node",
					  .captures = (uint64_t)fake.graph_create() << 32,
					  .inside = end});
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	CHECK_EQ(fake.calls("cuptiFinalize"), 0);
	CHECK(!captured_any_open());
	fake.launch(&(struct fake_launch){
		.call = CUPTI_CALL_LAUNCH_KERNEL, .name = "k", .inside = begin_again});
	CHECK(!captured_any_open());
	end();
	other_end();
}

TEST(a_capture_that_began_unseen_is_open_until_its_end)
{
	begin_sampling_within_a_capture();
	end_capture();
	end();
	CHECK_U64(fake.pcs_period(&gpu0), 0);
}

/* Of the thread that waits for the context, by what it ran since it began to. */
static _Atomic bool waits;
static _Atomic uint32_t early_captures;

static uint64_t run_time_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void wait_for_capture(void)
{
	uint64_t begin_ns = run_time_ns();
	uint64_t start_ns = clock_monotonic_ns();

	atomic_store(&waits, true);
	while (run_time_ns() - begin_ns < 50000)
		atomic_fetch_or(&early_captures, fake.open_captures());
	while (!fake.open_captures() && clock_monotonic_ns() - start_ns < 20000000000ull)
		;
}

static void *capture_while_it_waits(void *unused)
{
	while (!atomic_load(&waits))
		usleep(10);
	fake.call(CUPTI_CALL_BEGIN_CAPTURE_V2, 0);
	return unused;
}

/* cuCtxSynchronize() ends the captures that are open when it begins, and no others. */
TEST(no_capture_begins_when_a_flush_begins_to_wait)
{
	pthread_t thread;

	begin_with_context();
	start();
	launch_function("k", NULL, 1000);
	fake.set_waiting(wait_for_capture);
	CHECK_EQ(pthread_create(&thread, NULL, capture_while_it_waits, NULL), 0);
	end(); /* with a flush */
	pthread_join(thread, NULL);
	fake.set_waiting(NULL);
	CHECK_EQ(atomic_load(&early_captures), 0);
	CHECK_EQ(fake.open_captures(), 1); /* it began while the flush waited */
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
}
