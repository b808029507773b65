/*
 * CUDA backend: ends of sessions, and deactivated sessions, in programs that replay graphs. The
 * fake loses the context where CUPTI was measured to (tests/fake/cupti_graphs.c).
 */
#include "unit/cuda/replays.h"

#include "base/clock.h"

TEST(a_session_ends_between_replays_and_the_context_stays_whole)
{
	start();
	uint32_t exec = make_graph();
	replay(exec);
	end();
	CHECK_EQ(fake.calls("cuptiFinalize"), 1);
	replay(exec);
	CHECK_EQ(fake.graph_result(), 0);
	start();
	replay(exec);
	end();
	replay(exec);
	CHECK_EQ(fake.graph_result(), 0);
}

TEST(cupti_stays_attached_while_another_thread_replays_graphs)
{
	start();
	uint32_t exec = make_graph();
	other_begin(exec);
	other_replay();
	rec_begin_saying();
	end();
	CHECK_EQ(fake.calls("cuptiFinalize"), 0);
	/* The subscription stays: ending it, and the next one, would endanger the thread. */
	CHECK(fake.is_silent());
	CHECK(!fake.is_idle());
	CHECK_EQ(rec_printed(
			 "CUPTI stays attached after recording has ended, because other threads "
			 "use CUDA graphs"),
		 1);
	other_replay();
	CHECK_EQ(fake.graph_result(), 0);
	start(); /* again, and the message is not repeated */
	other_replay();
	end();
	CHECK_EQ(fake.calls("cuptiFinalize"), 0);
	CHECK_EQ(rec_printed("CUPTI stays attached"), 1);
	/* The thread has ended: this graph was last replayed with records. */
	other_end();
	start();
	replay(exec);
	end();
	CHECK_EQ(fake.calls("cuptiFinalize"), 1);
	replay(exec);
	CHECK_EQ(fake.graph_result(), 0);
}

/* To sample graphs that are older; the other thread may replay at any moment. */
TEST(a_start_with_sampling_does_not_leave_cupti_while_another_thread_uses_graphs)
{
	start();
	other_begin(make_graph());
	other_replay();
	end();
	CHECK(!proton_leave_vendor());
	start_sampling("pcsampling");
	CHECK_EQ(fake.calls("cuptiFinalize"), 0);
	other_replay();
	end();
	CHECK_EQ(fake.graph_result(), 0);
	other_end();
}

TEST(cupti_is_not_left_while_a_graph_may_be_patched_for_no_records)
{
	start();
	uint32_t exec = make_graph();
	other_begin(exec);
	other_replay();
	end();
	replay(exec); /* attached, without records */
	other_end();
	start();
	launch_ns("k", 5);
	end();
	CHECK_EQ(fake.calls("cuptiFinalize"), 0);
	CHECK(!proton_leave_vendor());
	replay(exec);
	CHECK_EQ(fake.graph_result(), 0);
	/* It is destroyed in a session. */
	start();
	fake.graph_exec_destroy(exec);
	end();
	CHECK_EQ(fake.calls("cuptiFinalize"), 1);
	CHECK(proton_leave_vendor());
}

static _Atomic bool is_replaying;
static _Atomic bool may_return;

/* 30 ms, if it may return before the session has ended. */
static void take_time(void)
{
	atomic_store(&is_replaying, true);
	usleep(30000);
	while (!atomic_load(&may_return))
		usleep(1000);
}

static void *replay_slowly(void *exec)
{
	fake.graph_launch_around((uint32_t)(uintptr_t)exec, "node", take_time);
	return NULL;
}

/* Ends a session while another thread is in a replay. The number of cuptiFinalize(). */
static uint32_t end_within_a_replay(bool returns)
{
	pthread_t thread;

	proton_holder_set(&holder);
	start();
	uint32_t exec = make_graph();
	replay(exec);
	atomic_store(&may_return, returns);
	CHECK_EQ(pthread_create(&thread, NULL, replay_slowly, (void *)(uintptr_t)exec), 0);
	while (!atomic_load(&is_replaying))
		usleep(100);
	end();
	atomic_store(&may_return, true);
	pthread_join(thread, NULL);
	CHECK(!atomic_load(&is_held));
	replay(exec);
	CHECK_EQ(fake.graph_result(), 0);
	proton_holder_set(NULL);
	return fake.calls("cuptiFinalize");
}

static _Atomic bool has_returned;

static void compute_for_long(void)
{
	uint64_t start_ns = clock_monotonic_ns();

	atomic_store(&is_replaying, true);
	while (clock_monotonic_ns() - start_ns < 60000000)
		;
	atomic_store(&has_returned, true);
}

static void *replay_before_the_session(void *exec)
{
	fake.graph_launch_around((uint32_t)(uintptr_t)exec, "node", compute_for_long);
	return NULL;
}

/* A call that meets the first subscription may crash, and CUPTI does not report it. */
TEST(the_first_session_waits_for_a_call_of_another_thread)
{
	pthread_t thread;
	uint32_t exec;

	load_fake();
	exec = make_graph();
	if (access("/proc/self/syscall", R_OK) != 0 || access("/proc/self/schedstat", R_OK) != 0)
		SKIP("this kernel does not tell what threads do");
	proton_holder_set(&holder);
	CHECK_EQ(pthread_create(&thread, NULL, replay_before_the_session, (void *)(uintptr_t)exec),
		 0);
	while (!atomic_load(&is_replaying))
		usleep(100);
	start();
	CHECK(atomic_load(&has_returned));
	pthread_join(thread, NULL);
	end();
	proton_holder_set(NULL);
}

TEST(a_replay_in_flight_is_waited_for)
{
	CHECK_U64(end_within_a_replay(true), 1);
	CHECK_LE(1, atomic_load(&holds));
}

static _Atomic bool is_leaving;

/* Runs all the time, or waits for a processor. */
static void leave_slowly(void)
{
	uint64_t start_ns = clock_monotonic_ns();

	atomic_store(&is_leaving, true);
	while (clock_monotonic_ns() - start_ns < 30000000)
		;
}

static void *replay_and_leave_slowly(void *exec)
{
	fake.graph_launch_leaving((uint32_t)(uintptr_t)exec, "node", leave_slowly);
	return NULL;
}

/* It lost the context on a busy host with 4 GPUs (H100, CUPTI 13.0). */
TEST(a_thread_without_a_processor_after_the_last_callback_is_in_the_driver)
{
	pthread_t thread;

	proton_holder_set(&holder);
	start();
	uint32_t exec = make_graph();
	replay(exec);
	CHECK_EQ(pthread_create(&thread, NULL, replay_and_leave_slowly, (void *)(uintptr_t)exec),
		 0);
	while (!atomic_load(&is_leaving))
		usleep(100);
	end();
	pthread_join(thread, NULL);
	replay(exec);
	CHECK_EQ(fake.graph_result(), 0);
	proton_holder_set(NULL);
}

TEST(a_replay_that_does_not_return_is_not_waited_for_longer_than_the_limit)
{
	rec_begin_saying();
	CHECK_U64(end_within_a_replay(false), 0);
	CHECK_LE(2, atomic_load(&holds)); /* between the attempts it may get what it waits for */
	CHECK_EQ(rec_printed("a thread did not return from the CUDA driver"), 1);
}

/* A runtime that host functions wait for, as functions of Python do for the GIL. */
static pthread_mutex_t runtime = PTHREAD_MUTEX_INITIALIZER;

static bool hold_runtime(void)
{
	pthread_mutex_lock(&runtime);
	return hold();
}

static void release_runtime(void)
{
	let_go();
	pthread_mutex_unlock(&runtime);
}

static const struct proton_holder runtime_holder = {hold_runtime, release_runtime, covers};

static _Atomic uint32_t wants;

/* A host function that runs while threads are held. */
static void want_runtime(void)
{
	if (!atomic_load(&is_held))
		return;
	atomic_fetch_add(&wants, 1);
	pthread_mutex_lock(&runtime);
	pthread_mutex_unlock(&runtime);
	fake.set_waiting(NULL); /* the GPU is idle */
}

static void want_runtime_when_held(void)
{
	atomic_store(&is_replaying, true);
	while (!atomic_load(&is_held))
		usleep(100);
	want_runtime();
}

static void *replay_wanting_runtime(void *exec)
{
	fake.graph_launch_around((uint32_t)(uintptr_t)exec, "node", want_runtime_when_held);
	return NULL;
}

TEST(a_host_function_within_a_replay_gets_the_lock_of_the_runtime)
{
	pthread_t thread;

	proton_holder_set(&runtime_holder);
	start();
	uint32_t exec = make_graph();
	replay(exec);
	CHECK_EQ(pthread_create(&thread, NULL, replay_wanting_runtime, (void *)(uintptr_t)exec), 0);
	while (!atomic_load(&is_replaying))
		usleep(100);
	end();
	pthread_join(thread, NULL);
	CHECK_LE(2, atomic_load(&holds));
	CHECK_EQ(fake.calls("cuptiFinalize"), 1);
	replay(exec);
	CHECK_EQ(fake.graph_result(), 0);
	proton_holder_set(NULL);
}

TEST(a_host_function_on_the_gpu_gets_the_lock_of_the_runtime)
{
	proton_holder_set(&runtime_holder);
	begin_with_context();
	start();
	launch_function("k", NULL, 1000); /* in a context that is waited for */
	uint32_t exec = make_graph();
	replay(exec);
	fake.set_waiting(want_runtime);
	end();
	CHECK_EQ(atomic_load(&wants), 1);
	CHECK_LE(2, atomic_load(&holds));
	CHECK_EQ(fake.calls("cuptiFinalize"), 1);
	replay(exec);
	CHECK_EQ(fake.graph_result(), 0);
	proton_holder_set(NULL);
}

static _Atomic int launches_asked;

/* A call for each request; a kernel at last. */
static void *launch_on_request(void *unused)
{
	for (int i = 1; i <= 7; i++) {
		while (atomic_load(&launches_asked) < i)
			usleep(200);
		if (i == 7)
			launch_ns("seen", 5);
		else
			fake.launch(&(struct fake_launch){.call = CUPTI_CALL_LAUNCH_KERNEL,
							  .takes_us = 60000});
	}
	return unused;
}

/* CUPTI does not report a thread any more when it has missed four ends of its calls. */
TEST(a_thread_stays_visible_although_sessions_end_in_its_calls)
{
	pthread_t thread;

	start();
	other_begin(make_graph());
	other_replay(); /* CUPTI stays attached */
	end();
	CHECK_EQ(pthread_create(&thread, NULL, launch_on_request, NULL), 0);
	for (int i = 0; i < 6; i++, end(), usleep(80000)) {
		start();
		atomic_fetch_add(&launches_asked, 1);
		usleep(20000);
	}
	start();
	atomic_fetch_add(&launches_asked, 1);
	pthread_join(thread, NULL);
	EXPECT(finish(), {"seen", 1});
}

/* Waits for the thread that notices that no session is active. */
static bool rests(void)
{
	for (int i = 0; i < 6000 && !fake.is_silent(); i++)
		usleep(10000);
	return fake.is_silent();
}

TEST(a_deactivated_session_leaves_cupti_and_an_activated_one_records_again)
{
	int session = start();

	proton_holder_set(&holder);
	uint32_t exec = make_graph();
	replay(exec);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK(rests());
	CHECK_EQ(fake.calls("cuptiFinalize"), 1);
	replay(exec);
	launch_ns("unseen", 5);
	CHECK_EQ(proton_activate(session, NULL), PROTON_OK);
	CHECK(!fake.is_idle());
	replay(exec);
	launch_ns("k", 5);
	struct profile *profile = finish();
	/* The context of the capture is known after CUPTI was left. */
	CHECK_U64(rec_count(profile, "<captured_at>/cap/node"), 4);
	CHECK_U64(rec_count(profile, "k"), 1);
	CHECK_U64(rec_count(profile, "unseen"), 0);
	CHECK_STR(rec_info(profile, "cupti_attaches"), "2");
	CHECK_EQ(fake.graph_result(), 0);
}

TEST(records_stay_on_for_a_single_thread_that_can_leave_cupti_at_the_end)
{
	int session = start();
	uint32_t exec = make_graph();

	replay(exec);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	usleep(1500000);
	CHECK(!fake.is_idle());
	replay(exec);
	end();
	CHECK_EQ(fake.calls("cuptiFinalize"), 1);
	replay(exec);
	CHECK_EQ(fake.graph_result(), 0);
}

TEST(records_end_while_threads_that_cannot_be_held_replay_graphs)
{
	int session = start();
	uint32_t exec = make_graph();

	replay(exec);
	other_begin(exec);
	other_replay();
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK(rests());
	CHECK_EQ(fake.calls("cuptiFinalize"), 0);
	other_replay();
	CHECK_EQ(proton_activate(session, NULL), PROTON_OK);
	other_replay();
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "kernels"), 6);
	CHECK_U64(rec_counter(session, "lost: kernel record without a timestamp"), 0);
	end();
	CHECK_EQ(fake.graph_result(), 0);
	other_end();
}

/* A kernel of a graph that ran while records were enabled again has a start from before. */
TEST(stale_start_times_after_records_were_enabled_again_are_counted_as_lost)
{
	struct fake_launch stale = {
		.call = CUPTI_CALL_GRAPH_LAUNCH,
		.name = "node",
		.records = 1,
		.start_ns = 5,
		.end_ns = 14000000,
	};
	int session = start();
	uint32_t exec = make_graph();

	replay(exec);
	other_begin(exec);
	other_replay();
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK(rests());
	CHECK_EQ(proton_activate(session, NULL), PROTON_OK);
	stale.node_id = fake.graph_add_kernel(fake.graph_create());
	fake.launch(&stale);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "kernels"), 4);
	CHECK_U64(rec_counter(session, "lost: kernel record without a timestamp"), 1);
	end();
	other_end();
}

TEST(a_session_that_is_deactivated_for_a_moment_does_not_leave_cupti)
{
	int session = start();
	uint32_t exec = make_graph();

	for (int i = 0; i < 50; i++) {
		replay(exec);
		CHECK_EQ(proton_deactivate(session, false, NULL), PROTON_OK);
		replay(exec);
		CHECK_EQ(proton_activate(session, NULL), PROTON_OK);
	}
	CHECK_EQ(fake.calls("cuptiFinalize"), 0);
	CHECK_U64(rec_counter(session, "lost: kernel record without a timestamp"), 0);
	end();
	CHECK_EQ(fake.graph_result(), 0);
}

static _Atomic bool stops_launching;

static void *launch_without_end(void *unused)
{
	while (!atomic_load(&stops_launching))
		launch_ns("k", 5);
	return unused;
}

TEST(launches_at_the_moment_of_an_activation_are_not_waited_for)
{
	int session = start();
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, launch_without_end, NULL), 0);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(proton_deactivate(session, false, NULL), PROTON_OK);
		CHECK(rests());
		CHECK_EQ(proton_activate(session, NULL), PROTON_OK);
		usleep(1000);
	}
	uint64_t begin_ns = clock_monotonic_ns();
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_LT(clock_monotonic_ns() - begin_ns, 4000000000ull);
	CHECK_U64(rec_counter(session, "lost: kernel record never received"), 0);
	end();
	atomic_store(&stops_launching, true);
	pthread_join(thread, NULL);
}

TEST(a_lost_record_is_given_up_while_other_threads_launch)
{
	int session = start();
	pthread_t thread;

	fake.launch(&(struct fake_launch){.call = CUPTI_CALL_LAUNCH_KERNEL, .name = "lost"});
	CHECK_EQ(proton_deactivate(session, false, NULL), PROTON_OK);
	CHECK_EQ(pthread_create(&thread, NULL, launch_without_end, NULL), 0);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "lost: kernel record never received"), 1);
	atomic_store(&stops_launching, true);
	pthread_join(thread, NULL);
	end();
}

TEST(a_new_session_wakes_a_backend_that_rests)
{
	struct proton_error err;
	int session = start();

	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK(rests());
	int second = start_named("b", "cupti", &err);
	CHECK_LE(0, second);
	launch_ns("k", 5);
	CHECK_EQ(proton_deactivate(second, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(second, "kernels"), 1);
	CHECK_U64(rec_counter(session, "kernels"), 0);
	end();
}

TEST(a_deactivated_session_that_cannot_attach_again_returns_the_error)
{
	struct proton_error err;
	int session = start();

	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK(rests());
	proton_leave_vendor(); /* waits for cuptiFinalize(), which would end the other tool's */
	CHECK(fake.other_subscribe("another tool"));
	CHECK_EQ(proton_activate(session, &err), PROTON_E_BUSY);
	CHECK_HAS(err.text, "another tool");
	fake.other_unsubscribe();
	CHECK_EQ(proton_activate(session, NULL), PROTON_OK);
	launch_ns("k", 5);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "kernels"), 1);
	end();
}

/* The number of cuptiFinalize() in 150 sessions. */
static uint32_t many_sessions(bool has_graph)
{
	for (int i = 0; i < 150; i++) {
		uint32_t exec = 0;
		struct profile *profile;

		start();
		if (has_graph) {
			exec = make_graph();
			replay(exec);
		}
		launch_ns("k", 5);
		profile = finish();
		CHECK_U64(rec_count(profile, "k"), 1);
		if (has_graph)
			fake.graph_exec_destroy(exec);
	}
	return fake.calls("cuptiFinalize");
}

/* 64 MB: 0.57 MB each, and 0.054 MB for each of the other sessions before 13.5. */
TEST(a_process_with_graphs_attaches_as_often_as_gpu_memory_allows)
{
	setenv("FAKE_CUPTI_VERSION", "130301", 1);
	rec_begin_saying();
	CHECK_U64(many_sessions(true), 18);
	CHECK_EQ(rec_printed("each time leaves 0.57 MB of GPU memory in use"), 1);
}

TEST(a_process_with_graphs_attaches_a_hundred_times_with_13_5)
{
	setenv("FAKE_CUPTI_VERSION", "130500", 1);
	rec_begin_saying();
	CHECK_U64(many_sessions(true), 99);
	CHECK_EQ(rec_printed("each time leaves 0.57 MB of GPU memory in use"), 1);
}

TEST(a_process_without_graphs_stays_attached_between_most_sessions)
{
	rec_begin_saying();
	CHECK_U64(many_sessions(false), 7);
	CHECK_EQ(rec_printed("attached"), 0);
	CHECK(fake.is_silent());
	CHECK(proton_leave_vendor());
	CHECK(fake.is_idle());
	CHECK_EQ(fake.calls("cuptiFinalize"), 8);
}

TEST(the_vendor_is_not_left_within_a_session)
{
	start();
	CHECK(!proton_leave_vendor());
	end();
	CHECK(proton_leave_vendor());
}

TEST(a_lost_context_is_named)
{
	struct proton_error err;

	start();
	uint32_t exec = make_graph();
	replay(exec);
	fake.graph_launch_around(exec, "node", fake.other_finalize);
	CHECK_EQ(fake.graph_result(), 719);
	end();
	setenv("FAKE_CUDA_FAIL", "cuStreamQuery=719", 1);
	CHECK_LT(start_named("b", "cupti", &err), 0);
	CHECK_EQ(err.status, PROTON_E_STATE);
	CHECK_HAS(err.text, "its CUDA context is lost (CUDA error 719)");
	unsetenv("FAKE_CUDA_FAIL");
	CHECK_LT(start_named("b", "cupti", &err), 0);
	CHECK_HAS(err.text, "its CUDA context is lost; look for the first CUDA error");
}
