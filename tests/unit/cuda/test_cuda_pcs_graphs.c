/* PC sampling in programs that replay graphs, or whose threads are held. */
#include "unit/cuda/replays.h"

#define CALL_PRIMARY_CONTEXT_RETAIN 386 /* graph_calls.def */

/* CUPTI reports the recorder's own calls too: one of them comes while the gate is closed. */
static void report_retain(void)
{
	fake.call(CALL_PRIMARY_CONTEXT_RETAIN, 0);
}

TEST(sampling_starts_though_its_own_calls_are_reported)
{
	begin_with_context();
	fake.set_retaining(report_retain);
	start_sampling("pcsampling");
	CHECK_LT(0, fake.pcs_period(&gpu0));
	end();
}

TEST(threads_are_held_from_before_attaching_until_sampling_is_enabled)
{
	proton_holder_set(&holder);
	begin_with_context();
	start_sampling("pcsampling");
	CHECK_EQ(atomic_load(&holds), 1);
	CHECK_U64(subscribed_at_begin, 0);
	CHECK_LT(0, enabled_at_end);
	CHECK(!atomic_load(&is_held));
	end();
	CHECK_U64(fake.pcs_period(&gpu0), 0);
	CHECK_EQ(fake.calls("cuptiFinalize"), 1);
	proton_holder_set(NULL);
}

TEST(samples_of_graphs_that_are_older_than_the_session_are_known)
{
	begin_with_context();
	uint32_t exec = make_graph();
	replay(exec);
	for (int i = 0; i < 3; i++) {
		start_sampling("pcsampling");
		launch_function("node", NULL, 1000);
		fake.pcs_take(&gpu0, &(struct fake_pc){.crc = 7,
						       .function = "node",
						       .reason = "wait",
						       .samples = 5,
						       .is_of_graph = true});
		replay(exec);
		CHECK_EQ(value_at(finish(), "node", "num_samples"), 5);
		replay(exec);
	}
	CHECK_EQ(fake.graph_result(), 0);
}

TEST(samples_that_are_decoded_at_the_end_are_in_the_profile)
{
	begin_with_context();
	start_sampling("pcsampling");
	launch_function("k", NULL, 1000);
	for (uint32_t i = 0; i < 20000; i++) /* more than one read takes */
		take(7, "k", i * 16, "wait", 1);
	CHECK_EQ(value_at(finish(), "k", "num_samples"), 20000);
}

/* A replay on another thread that lasts until it may end. */
static _Atomic bool is_inside, may_end;

static void stay_inside(void)
{
	uint64_t begin_ns = clock_monotonic_ns();

	atomic_store(&is_inside, true);
	while (!atomic_load(&may_end) && clock_monotonic_ns() - begin_ns < 20000000000ull)
		usleep(100);
}

static void *replay_for_long(void *exec)
{
	fake.graph_launch_around((uint32_t)(uintptr_t)exec, "node", stay_inside);
	return NULL;
}

static pthread_t begin_long_replay(uint32_t exec)
{
	pthread_t thread;

	atomic_store(&is_inside, false);
	atomic_store(&may_end, false);
	CHECK_EQ(pthread_create(&thread, NULL, replay_for_long, (void *)(uintptr_t)exec), 0);
	while (!atomic_load(&is_inside))
		usleep(100);
	return thread;
}

static void end_long_replay(pthread_t thread)
{
	atomic_store(&may_end, true);
	pthread_join(thread, NULL);
}

/* The shortest of some launches, on a machine with load. */
static uint64_t ns_of_launch(void)
{
	uint64_t shortest_ns = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		uint64_t begin_ns = clock_monotonic_ns();
		uint64_t spent_ns;

		launch_function("k", NULL, 1000);
		spent_ns = clock_monotonic_ns() - begin_ns;
		if (spent_ns < shortest_ns)
			shortest_ns = spent_ns;
	}
	return shortest_ns;
}

/* In storms of threads on an H100, each launch of a session took 200 ms. */
TEST(launches_in_a_context_that_is_sampled_do_not_wait_for_replays)
{
	begin_with_context();
	uint32_t exec = make_graph();
	start_sampling("pcsampling");
	pthread_t thread = begin_long_replay(exec);
	CHECK_LT(ns_of_launch(), 100000000);
	context = &gpu0_second; /* it cannot be sampled */
	CHECK_LT(ns_of_launch(), 100000000);
	end_long_replay(thread);
	end();
}

TEST(a_launch_in_a_new_context_waits_for_replays_once_in_a_second)
{
	begin_with_context();
	uint32_t exec = make_graph();
	start_sampling("pcsampling");
	context = &gpu1;
	pthread_t thread = begin_long_replay(exec);
	CHECK_LT(ns_of_launch(), 100000000);
	CHECK_U64(fake.pcs_period(&gpu1), 0);
	end_long_replay(thread);
	for (int i = 0; i < 100 && !fake.pcs_period(&gpu1); i++) {
		usleep(100000);
		launch_function("k", NULL, 1000);
	}
	CHECK_LT(0, fake.pcs_period(&gpu1));
	end();
}

/* The fake aborts if sampling is disabled while a stream is captured. */
TEST(the_end_of_a_sampled_context_ends_no_capture)
{
	begin_with_context();
	start_sampling("pcsampling");
	fake.context_create(&gpu1);
	CHECK_LT(0, fake.pcs_period(&gpu1));
	fake.call(CUPTI_CALL_BEGIN_CAPTURE_V2, 0);
	fake.context_destroy(&gpu1);
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	fake.context_create(&gpu1);
	end();
}
