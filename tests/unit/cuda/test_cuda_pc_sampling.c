/* CUDA backend: PC sampling, with the fake libraries. */
#include "unit/cuda/pcs_session.h"

#include <sys/socket.h>
#include <sys/un.h>

#include "backend/cuda/call_gate.h"
#include "base/clock.h"
#include "fake/gpus.h"

TEST(samples_are_attributed_to_the_only_context_of_their_function)
{
	int session = start_sampling("pcsampling");

	fake.context_create(&gpu0);
	CHECK_U64(fake.pcs_period(&gpu0), 14);
	CHECK(fake.pcs_is_started(&gpu0));
	uint64_t token = proton_scope_enter("s");
	launch_function("mm", NULL, 1000000);
	take(77, "mm", 0x10, "wait", 5);
	take(77, "mm", 0x20, "selected", 3);
	proton_scope_exit(token, NULL);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "PC samples"), 8);
	struct profile *profile = finish();
	CHECK_EQ(value_at(profile, "s/mm", "num_samples"), 8);
	CHECK_EQ(value_at(profile, "s/mm", "num_stalled_samples"), 5);
	CHECK_EQ(value_at(profile, "s/mm", "stalled_wait"), 5);
	CHECK_EQ(value_at(profile, "s/mm", "stalled_selected"), 3);
	CHECK_EQ(value_at(profile, "s/mm", SAMPLES_APPORTIONED), 0);
	CHECK_U64(profile->samples->function_count, 1);
	CHECK_U64(profile->samples->functions[0].samples, 8);
}

/* Runs `a` for 3 ms in scope "x" and for 1 ms in scope "y". */
static void run_in_two_scopes(const char *name, void *function)
{
	uint64_t token = proton_scope_enter("x");

	launch_function(name, function, 3000000);
	proton_scope_exit(token, NULL);
	token = proton_scope_enter("y");
	launch_function(name, function, 1000000);
	proton_scope_exit(token, NULL);
}

TEST(samples_are_divided_by_kernel_time_and_the_parts_add_up)
{
	int session = start_sampling("pcsampling");
	int64_t x, y;

	fake.context_create(&gpu0);
	run_in_two_scopes("mm", NULL);
	for (uint32_t i = 0; i < 100; i++)
		take(77, "mm", i * 16, i % 2 ? "wait" : "selected", 1);
	take(77, "mm", 0x20, "barrier", 7);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	struct profile *profile = finish();
	x = value_at(profile, "x/mm", "num_samples");
	y = value_at(profile, "y/mm", "num_samples");
	CHECK_EQ(x, 80); /* 107 * 3 / 4 = 80.25 */
	CHECK_EQ(y, 27);
	CHECK_EQ(value_at(profile, "x/mm", "stalled_barrier") +
			 value_at(profile, "y/mm", "stalled_barrier"),
		 7);
	CHECK_EQ(value_at(profile, "x/mm", "stalled_wait") +
			 value_at(profile, "y/mm", "stalled_wait"),
		 50);
	CHECK_EQ(value_at(profile, "x/mm", SAMPLES_APPORTIONED), 80);
	CHECK_EQ(value_at(profile, "y/mm", SAMPLES_APPORTIONED), 27);
	CHECK_U64(profile->samples->functions[0].samples, 107);
	CHECK_U64(profile->samples->functions[0].apportioned, 107);
}

TEST(functions_of_one_name_are_distinguished_by_their_cubins)
{
	int session = start_sampling("pcsampling");
	void *half, *whole;

	fake.context_create(&gpu0);
	half = fake.module_load("half", 5);
	whole = fake.module_load("whole", 6);
	uint64_t token = proton_scope_enter("x");
	launch_function("mm", fake.module_function(half, "mm"), 3000000);
	proton_scope_exit(token, NULL);
	token = proton_scope_enter("y");
	launch_function("mm", fake.module_function(whole, "mm"), 1000000);
	proton_scope_exit(token, NULL);
	take(fake.module_crc(half), "mm", 0, "wait", 3);
	take(fake.module_crc(whole), "mm", 0, "wait", 50);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	struct profile *profile = finish();
	CHECK_EQ(value_at(profile, "x/mm", "num_samples"), 3);
	CHECK_EQ(value_at(profile, "y/mm", "num_samples"), 50);
	CHECK_EQ(value_at(profile, "x/mm", SAMPLES_APPORTIONED), 0);
	CHECK_U64(profile->samples->code_object_count, 2);
	for (size_t i = 0; i < 2; i++) {
		const struct profile_function *function = &profile->samples->functions[i];
		const struct profile_code_object *cubin =
			&profile->samples->code_objects[function->code_object - 1];

		CHECK(function->code_object);
		CHECK_U64(cubin->length, i == 0 ? 6 : 5); /* most samples first */
		CHECK_EQ(memcmp(cubin->bytes, i == 0 ? "whole" : "half", cubin->length), 0);
	}
}

TEST(functions_of_one_name_that_alternate_are_divided_by_their_own_time)
{
	static const char *const names[] = {"half", "whole"};
	int session = start_sampling("pcsampling");
	void *functions[2];
	uint64_t crcs[2], token;

	fake.context_create(&gpu0);
	for (int i = 0; i < 2; i++) {
		void *module = fake.module_load(names[i], strlen(names[i]));

		functions[i] = fake.module_function(module, "mm");
		crcs[i] = fake.module_crc(module);
	}
	token = proton_scope_enter("x");
	for (int i = 0; i < 6; i++)
		launch_function("mm", functions[i % 2], 1000000);
	proton_scope_exit(token, NULL);
	token = proton_scope_enter("y");
	launch_function("mm", functions[0], 1000000);
	proton_scope_exit(token, NULL);
	take(crcs[0], "mm", 0, "wait", 40);
	take(crcs[1], "mm", 0, "wait", 50);
	take(0, "unknown", 0, "wait", 4);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	struct profile *profile = finish();
	CHECK_EQ(value_at(profile, "x/mm", "num_samples"), 30 + 50);
	CHECK_EQ(value_at(profile, "y/mm", "num_samples"), 10);
	CHECK_EQ(value_at(profile, "unknown", "num_samples"), 4);
	CHECK_U64(profile->samples->code_object_count, 2);
}

TEST(samples_of_a_function_without_a_launch_are_below_the_root)
{
	int session = start_sampling("pcsampling");

	fake.context_create(&gpu0);
	launch_function("mm", NULL, 1000);
	take(78, "other", 0, "wait", 4);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	struct profile *profile = finish();
	CHECK_EQ(value_at(profile, "other", "num_samples"), 4);
	CHECK_EQ(value_at(profile, "mm", "num_samples"), 0);
}

TEST(not_issued_samples_are_a_subset_and_not_added)
{
	int session = start_sampling("pcsampling");

	fake.context_create(&gpu0);
	launch_function("mm", NULL, 1000);
	fake.pcs_take(&gpu0, &(struct fake_pc){.crc = 77,
					       .function = "mm",
					       .reason = "no_instructions",
					       .samples = 9,
					       .not_issued = 6});
	take(77, "mm", 0, "not_selected", 2);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	struct profile *profile = finish();
	CHECK_EQ(value_at(profile, "mm", "num_samples"), 11);
	CHECK_EQ(value_at(profile, "mm", "num_stalled_samples"), 11);
	CHECK_EQ(value_at(profile, "mm", "stalled_no_instruction"), 9);
	CHECK_EQ(value_at(profile, "mm", "stalled_not_Selected"), 2);
	CHECK_U64(profile->samples->functions[0].not_issued, 6);
}

/* CUPTI counts samples in the total of a read that leaves them for the next one. */
TEST(samples_that_a_read_leaves_for_the_next_one_have_their_function)
{
	int session = start_sampling("pcsampling");

	fake.context_create(&gpu0);
	launch_function("mm", NULL, 1000000);
	for (uint32_t i = 0; i < 30000; i++)
		take(77, "mm", i * 16, "wait", 2);
	/* Of a module that CUPTI does not know. */
	take(77, NULL, 0, "wait", 3);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "PC samples"), 60000);
	CHECK_U64(rec_counter(session, "PC samples without a function"), 3);
	CHECK_U64(rec_counter(session, "PC samples of profiler code"), 0);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}

TEST(samples_that_arrived_are_compared_with_those_expected)
{
	int session = start_sampling("pcsampling:interval=4096");

	rec_begin_saying();
	fake.context_create(&gpu0);
	/* The flush of the end waits longer than the kernel takes. */
	launch_function("mm", NULL, 20000000);
	take(77, "mm", 0, "wait", 20);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	struct profile *profile = finish();
	const char *expected = rec_info(profile, "pc_sampling_expected");
	CHECK_LT(1000, atol(expected));
	CHECK_STR(rec_info(profile, "pc_sampling_received"), "20");
	CHECK_EQ(rec_printed("20 of about"), 1);
	CHECK_EQ(rec_printed(expected), 1);
	CHECK_EQ(rec_printed("at an interval of 4096 cycles"), 1);
}

TEST(a_kernel_without_samples_has_the_number_0)
{
	static const char *const modes[] = {"pcsampling", "pcsampling:serialized"};

	for (size_t i = 0; i < 2; i++) {
		struct profile *profile;
		int session = start_sampling(modes[i]);
		const struct profile_value *value;

		fake.context_create(&gpu0);
		launch_function("tiny", NULL, 1000);
		CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
		profile = finish();
		value = rec_value(profile, "tiny", "num_samples");
		CHECK(value);
		CHECK_EQ(value->as.int64, 0);
	}
}

TEST(a_context_that_exists_at_the_start_is_sampled)
{
	unsetenv("FAKE_CUDA_NO_CONTEXT");
	int session = start_sampling("PCSampling:interval=50000");
	launch_function("mm", NULL, 1000);
	fake.context_create(&gpu1);
	CHECK_U64(fake.pcs_period(&gpu1), 16); /* nearest: 65536 */
	(void)session;
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
}

TEST(a_context_is_found_at_its_first_launch)
{
	int session = start_sampling("pcsampling");

	(void)session;
	CHECK_U64(fake.pcs_period(&gpu0), 0);
	launch_function("mm", NULL, 1000);
	CHECK_U64(fake.pcs_period(&gpu0), 14);
	CHECK(fake.pcs_is_started(&gpu0));
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}

TEST(a_second_context_of_a_gpu_is_reported_and_not_sampled)
{
	int session = start_sampling("pcsampling");

	(void)session;
	rec_begin_saying();
	fake.context_create(&gpu0);
	fake.context_create(&gpu0_second);
	fake.context_create(&gpu1);
	CHECK_U64(fake.pcs_period(&gpu0_second), 0);
	CHECK_U64(fake.pcs_period(&gpu1), 14);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
	CHECK_EQ(rec_printed("PCs of a second CUDA context on GPU 0 are not sampled"), 1);
	/* Once in each session. */
	start_sampling("pcsampling");
	fake.context_create(&gpu0_second);
	fake.context_create(&gpu0);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
	CHECK_EQ(rec_printed("PCs of a second CUDA context on GPU 0 are not sampled"), 2);
}

TEST(a_context_that_is_destroyed_is_drained_first)
{
	int session = start_sampling("pcsampling");

	fake.context_create(&gpu0);
	launch_function("mm", NULL, 1000);
	take(77, "mm", 0, "wait", 5);
	fake.context_destroy(&gpu0);
	CHECK_U64(rec_counter(session, "PC samples"), 5);
	/* Now another context of the GPU can be sampled. */
	fake.context_create(&gpu0_second);
	CHECK_U64(fake.pcs_period(&gpu0_second), 14);
	CHECK_EQ(value_at(finish(), "mm", "num_samples"), 5);
}

static uint64_t taken_ns;

static void *take_late(void *unused)
{
	usleep(200000);
	take(77, "mm", 0, "wait", 5);
	taken_ns = clock_monotonic_ns();
	return unused;
}

TEST(a_flush_waits_while_none_of_many_samples_has_come)
{
	pthread_t thread;

	start_sampling("pcsampling");
	fake.context_create(&gpu0);
	launch_function("mm", NULL, 100000000);
	uint64_t begin_ns = clock_monotonic_ns();
	CHECK_EQ(pthread_create(&thread, NULL, take_late, NULL), 0);
	struct profile *profile = finish();
	pthread_join(thread, NULL);
	/* It waits for half a second. On a busy machine the thread may take longer. */
	if (taken_ns - begin_ns < 450000000)
		CHECK_EQ(value_at(profile, "mm", "num_samples"), 5);
}

static _Atomic bool gate_ends;

static void *pass_and_leave(void *unused)
{
	while (!atomic_load(&gate_ends)) {
		for (int kind = 0; kind < CALL_GATE_KINDS; kind++) {
			call_gate_pass((enum call_gate_kind)kind);
			call_gate_pass((enum call_gate_kind)kind);
			call_gate_leave((enum call_gate_kind)kind);
			call_gate_leave((enum call_gate_kind)kind);
		}
	}
	return unused;
}

/* A session ends while threads launch: they are counted neither twice nor forever. */
TEST(the_gate_closes_after_resets_under_load)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, pass_and_leave, NULL), 0);
	for (int i = 0; i < 20000; i++)
		call_gate_reset((enum call_gate_kind)(i % CALL_GATE_KINDS));
	atomic_store(&gate_ends, true);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK(call_gate_close(CALL_GATE_SAMPLING, 1000000000));
	call_gate_open();
}

static _Atomic bool is_in_call;

/* A replay: it is counted twice, and the gate closes in between. */
static void *pass_twice(void *unused)
{
	call_gate_pass(CALL_GATE_CHANGE);
	atomic_store(&is_in_call, true);
	usleep(50000);
	call_gate_pass(CALL_GATE_LAUNCH);
	call_gate_leave(CALL_GATE_LAUNCH);
	call_gate_leave(CALL_GATE_CHANGE);
	return unused;
}

TEST(a_call_that_has_passed_does_not_wait_for_a_gate_that_waits_for_it)
{
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, pass_twice, NULL), 0);
	while (!atomic_load(&is_in_call))
		usleep(100);
	CHECK(call_gate_close(CALL_GATE_SAMPLING, 10000000000));
	call_gate_open();
	pthread_join(thread, NULL);
}

#define KERNEL_GET_ATTRIBUTE 686 /* cuKernelGetAttribute() */

/* Callbacks that arrive during cuKernelGetAttribute(), twice per call if any. */
static uint32_t callbacks_of_query(void)
{
	atomic_store(&callbacks, 0);
	fake.set_hook(count_callback);
	fake.call(KERNEL_GET_ATTRIBUTE, 0);
	fake.set_hook(NULL);
	return atomic_load(&callbacks);
}

TEST(queries_of_functions_wait_while_sampling_changes)
{
	begin_with_context();
	fake.pcs_changes_without(KERNEL_GET_ATTRIBUTE);
	for (int i = 0; i < 3; i++) {
		start_sampling("pcsampling");
		CHECK_EQ(callbacks_of_query(), 2);
		rec_finalize(PROTON_ALL_SESSIONS, "none");
	}
	CHECK_EQ(fake.pcs_changes_without(KERNEL_GET_ATTRIBUTE), 0);
}

static _Atomic bool storm_ends;
static _Atomic uint32_t stormed;

static void *launch_storm(void *unused)
{
	char cubin[32];
	int i = 0;

	while (!atomic_load(&storm_ends)) {
		fake.launch(&(struct fake_launch){.call = CUPTI_CALL_LAUNCH_KERNEL,
						  .name = "mm",
						  .context = &gpu0,
						  .takes_us = 300});
		snprintf(cubin, sizeof(cubin), "cubin %d of %p", i++ % 2, (void *)cubin);
		if (i % 4)
			continue;
		fake.module_load(cubin, strlen(cubin));
		atomic_fetch_add(&stormed, 1);
	}
	return unused;
}

/* The fake aborts if sampling stops while another thread launches or loads a module. */
TEST(a_session_stops_while_threads_launch_and_load_modules)
{
	begin_with_context();
	for (int i = 0; i < 4; i++) {
		pthread_t threads[3];

		atomic_store(&storm_ends, false);
		atomic_store(&stormed, 0);
		start_sampling("pcsampling");
		CHECK(fake.pcs_is_started(&gpu0));
		for (int j = 0; j < 3; j++)
			CHECK_EQ(pthread_create(&threads[j], NULL, launch_storm, NULL), 0);
		while (atomic_load(&stormed) < 30)
			usleep(100);
		rec_finalize(PROTON_ALL_SESSIONS, "none");
		CHECK(!fake.pcs_is_started(&gpu0));
		atomic_store(&storm_ends, true);
		for (int j = 0; j < 3; j++)
			pthread_join(threads[j], NULL);
	}
}

/* The fake aborts if sampling is started or stopped while the main thread loads a module. */
TEST(windows_open_and_close_while_modules_are_loaded)
{
	int session = start_sampling("pcsampling:windows=1ms/2ms");

	fake.context_create(&gpu0);
	CHECK_U64(fake.pcs_period(&gpu0), 12);
	for (int i = 0; fake.calls("cuptiPCSamplingStop") < 4; i++) {
		char cubin[24];

		snprintf(cubin, sizeof(cubin), "cubin %d", i);
		launch_function("mm",
				fake.module_function(fake.module_load(cubin, strlen(cubin)), "mm"),
				1000);
	}
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_STR(rec_info(finish(), "pc_sampling"), "windows of 1 ms every 2 ms");
}

static void wait_for_calls(const char *call, uint32_t count)
{
	while (fake.calls(call) < count)
		usleep(500);
}

static void wait_for_reads(void)
{
	wait_for_calls("cuptiPCSamplingGetData", fake.calls("cuptiPCSamplingGetData") + 6);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

TEST(a_window_lasts_from_its_first_launch)
{
	start_sampling("pcsampling:windows=60ms/61ms");
	fake.context_create(&gpu0);
	wait_for_reads();
	CHECK_U64(fake.calls("cuptiPCSamplingStop"), 0);
	uint64_t launched_ns = now_ns();
	launch_function("mm", NULL, 1000);
	wait_for_calls("cuptiPCSamplingStop", 1);
	CHECK_LE(60000000, now_ns() - launched_ns);
	wait_for_calls("cuptiPCSamplingStart", 2);
	wait_for_reads();
	CHECK_U64(fake.calls("cuptiPCSamplingStop"), 1);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}

TEST(a_short_interval_is_rounded_to_a_power_of_two)
{
	start_sampling("pcsampling:interval=1000");
	fake.context_create(&gpu0);
	CHECK_U64(fake.pcs_period(&gpu0), 10);
	struct profile *profile = finish();
	CHECK_STR(rec_info(profile, "pc_sampling"), "continuous");
	CHECK_STR(rec_info(profile, "pc_sampling_interval"), "1024");
	CHECK(!rec_info(profile, "pc_sampling_interval_requested"));
}

TEST(a_full_buffer_is_counted_and_raises_the_interval)
{
	int session = start_sampling("pcsampling:interval=8192");

	rec_begin_saying();
	fake.context_create(&gpu0);
	launch_function("mm", NULL, 1000);
	fake.pcs_fill(&gpu0);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(fake.pcs_period(&gpu0), 14);
	proton_activate(session, NULL);
	launch_function("mm", NULL, 1000);
	take(77, "mm", 0, "wait", 5);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "PC samples"), 5);
	CHECK_U64(rec_counter(session, "lost: PC samples, times a buffer was full"), 1);
	struct profile *profile = finish();
	CHECK_STR(rec_info(profile, "pc_sampling_interval"), "16384");
	CHECK_STR(rec_info(profile, "pc_sampling_interval_requested"), "8192");
	CHECK_EQ(rec_printed("the interval was raised from 8192 to 16384 cycles"), 1);
}

TEST(losses_of_an_earlier_session_are_not_counted_again)
{
	int session = start_sampling("pcsampling");

	rec_begin_saying();
	fake.context_create(&gpu0);
	launch_function("mm", NULL, 1000);
	fake.pcs_fill(&gpu0);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
	session = start_sampling("pcsampling");
	launch_function("mm", NULL, 1000);
	take(77, "mm", 0, "wait", 5);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "PC samples"), 5);
	CHECK_U64(rec_counter(session, "lost: PC samples, times a buffer was full"), 0);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}

TEST(the_interval_is_raised_until_the_samples_can_be_decoded)
{
	int session = start_sampling("pcsampling:interval=32");
	int times = 0;

	rec_begin_saying();
	fake.context_create(&gpu0);
	CHECK_U64(fake.pcs_period(&gpu0), 5);
	for (; fake.pcs_period(&gpu0) < 31 && times < 40; times++) {
		uint32_t before = fake.pcs_period(&gpu0);

		launch_function("mm", NULL, 1000);
		fake.pcs_fill(&gpu0);
		for (int i = 0;
		     i < 5000 && (fake.pcs_period(&gpu0) <= before || !fake.pcs_is_started(&gpu0));
		     i++)
			usleep(1000);
	}
	CHECK_U64(fake.pcs_period(&gpu0), 31);
	CHECK(fake.pcs_is_started(&gpu0));
	take(77, "mm", 0, "wait", 5);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "PC samples"), 5);
	CHECK_U64(rec_counter(session, "lost: PC samples, times a buffer was full"), times);
	struct profile *profile = finish();
	CHECK_STR(rec_info(profile, "pc_sampling_interval"), "2147483648");
	CHECK_STR(rec_info(profile, "pc_sampling_interval_requested"), "32");
}

TEST(windows_stay_open_for_samples_after_a_full_buffer)
{
	int session = start_sampling("pcsampling:windows=1ms/2ms");

	rec_begin_saying();
	fake.context_create(&gpu0);
	fake.pcs_fill(&gpu0);
	for (int i = 0; fake.calls("cuptiPCSamplingStop") < 8 && i < 100000; i++) {
		launch_function("mm", NULL, 1000);
		take(77, "mm", 0, "wait", 1);
	}
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(fake.pcs_period(&gpu0), 13);
	CHECK_LT(0, rec_counter(session, "PC samples"));
	CHECK_U64(rec_counter(session, "lost: PC samples, times a buffer was full"), 1);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
	CHECK_EQ(rec_printed("the interval was raised from 4096 to 8192 cycles"), 1);
}

TEST(a_context_that_cannot_be_disabled_is_not_sampled_any_more)
{
	int session = start_sampling("pcsampling");

	(void)session;
	rec_begin_saying();
	fake.context_create(&gpu0);
	launch_function("mm", NULL, 1000);
	fake.fail("cuptiPCSamplingDisable", 1, FAKE_ALWAYS, 999);
	fake.pcs_fill(&gpu0);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
	CHECK_EQ(rec_printed("PC sampling has ended: CUPTI cannot decode the samples in time"), 1);
}

TEST(a_gpu_that_another_process_samples_is_an_error_of_the_start)
{
	struct proton_error err;

	unsetenv("FAKE_CUDA_NO_CONTEXT");
	load_fake();
	fake.fail("cuptiPCSamplingEnable", 1, 1, CUPTI_E_HARDWARE_BUSY);
	CHECK_LT(start_mode("a", "pcsampling", &err), 0);
	CHECK_EQ(err.status, PROTON_E_BUSY);
	CHECK_HAS(err.text, "another process samples PCs on GPU 0, or DCGM measures it; wait");
	/* It was released: the next session can be started. */
	start_sampling("pcsampling");
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}

/* The claim of another process (pcs_claim.c) on the fake's GPU. */
static int claim(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1,
			      "proton-pc-sampling-" FAKE_GPU_UUID, (unsigned)getpid());

	if (bind(fd, (struct sockaddr *)&address,
		 (socklen_t)offsetof(struct sockaddr_un, sun_path) + 1 + (socklen_t)length) == 0)
		return fd;
	close(fd);
	return -1;
}

TEST(two_processes_do_not_sample_one_gpu_at_a_time)
{
	struct proton_error err;

	unsetenv("FAKE_CUDA_NO_CONTEXT");
	load_fake();
	int fd = claim();
	CHECK_LE(0, fd);
	CHECK_LT(start_mode("a", "pcsampling", &err), 0);
	CHECK_EQ(err.status, PROTON_E_BUSY);
	CHECK_HAS(err.text, "another process samples PCs on GPU 0");
	CHECK_U64(fake.calls("cuptiPCSamplingEnable"), 0);
	close(fd);
	start_sampling("pcsampling");
	CHECK_EQ(claim(), -1); /* it has the GPU now */
	rec_finalize(PROTON_ALL_SESSIONS, "none");
	fd = claim();
	CHECK_LE(0, fd);
	close(fd);
}

/*
 * Measured with a thread that creates and destroys contexts: the context of the starting thread was
 * destroyed by another, a new one had its address, and cuptiGetContextId() returned an id for it,
 * but cuptiPCSamplingEnable() returned INVALID_CONTEXT (CUPTI 13.0).
 */
TEST(a_start_ignores_a_context_that_another_thread_destroys)
{
	unsetenv("FAKE_CUDA_NO_CONTEXT");
	load_fake();
	fake.fail("cuptiPCSamplingEnable", 1, 1, CUPTI_E_INVALID_CONTEXT);
	rec_begin_saying();
	int session = start_sampling("pcsampling");
	/* Here it lives: its next launch enables it. */
	launch_function("mm", NULL, 1000);
	CHECK_U64(fake.calls("cuptiPCSamplingEnable"), 2);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
	CHECK_EQ(rec_printed("PCs are not sampled"), 0);
}

TEST(a_gpu_that_another_process_samples_is_reported_when_its_context_is_created)
{
	int session = start_sampling("pcsampling");

	rec_begin_saying();
	fake.fail("cuptiPCSamplingEnable", 1, FAKE_ALWAYS, CUPTI_E_HARDWARE_BUSY);
	fake.context_create(&gpu0);
	launch_function("mm", NULL, 1000);
	launch_function("mm", NULL, 1000);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "kernels"), 2);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
	CHECK_EQ(rec_printed("PCs are not sampled: another process samples PCs on GPU 0"), 1);
}

TEST(many_samples_of_code_that_cupti_adds_are_reported)
{
	int session = start_sampling("pcsampling");

	rec_begin_saying();
	fake.context_create(&gpu0);
	launch_function("mm", NULL, 1000);
	take(77, "mm", 0, "wait", 5000);
	fake.pcs_non_user(&gpu0, 5000);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "PC samples"), 5000);
	CHECK_U64(rec_counter(session, "PC samples of profiler code"), 5000);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
	CHECK_EQ(rec_printed("50 % of the PC samples are of code that CUPTI adds"), 1);
	/* The next session has no samples. */
	start_sampling("pcsampling");
	rec_finalize(PROTON_ALL_SESSIONS, "none");
	CHECK_EQ(rec_printed("PC samples are of code that CUPTI adds"), 1);
	CHECK_EQ(rec_printed("without a function"), 0);
}

TEST(serialized_samples_are_those_of_their_launch)
{
	uint32_t launches[2];
	int session = start_sampling("pcsampling:serialized");

	fake.context_create(&gpu0);
	CHECK(fake.pcs_is_serialized(&gpu0));
	uint64_t token = proton_scope_enter("x");
	launches[0] = launch_function("mm", NULL, 3000000);
	proton_scope_exit(token, NULL);
	token = proton_scope_enter("y");
	launches[1] = launch_function("mm", NULL, 3000000);
	proton_scope_exit(token, NULL);
	for (uint32_t i = 0; i < 2; i++)
		fake.pcs_take(&gpu0, &(struct fake_pc){.crc = 77,
						       .function = "mm",
						       .reason = "wait",
						       .samples = i ? 2 : 40,
						       .correlation = launches[i]});
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "PC samples"), 42);
	struct profile *profile = finish();
	CHECK_STR(rec_info(profile, "pc_sampling"), "serialized");
	CHECK_EQ(value_at(profile, "x/mm", "num_samples"), 40);
	CHECK_EQ(value_at(profile, "y/mm", "num_samples"), 2);
	CHECK_EQ(value_at(profile, "x/mm", SAMPLES_APPORTIONED), 0);
}

static int sampling_calls(void)
{
	return (int)(fake.calls("cuptiPCSamplingStart") + fake.calls("cuptiPCSamplingStop") +
		     fake.calls("cuptiPCSamplingDisable") + fake.calls("cuptiPCSamplingGetData"));
}

/* A child launches, cannot sample and ends; 0: as it must. */
static int run_child(int session)
{
	struct proton_error err = {0};
	int calls = sampling_calls();

	launch_function("mm", NULL, 1000);
	if (proton_deactivate(session, true, &err) == PROTON_OK)
		return 1;
	if (start_mode("child", "pcsampling", &err) >= 0 || !strstr(err.text, "forked"))
		return 2;
	proton_finalize(PROTON_ALL_SESSIONS, NULL, NULL);
	return sampling_calls() == calls ? 0 : 3;
}

TEST(a_child_does_not_sample_and_its_parent_does)
{
	int session, status;

	if (TAP_IS_SANITIZED)
		SKIP("sanitizer locks that a thread holds at fork() stay locked");
	session = start_sampling("pcsampling");
	fake.context_create(&gpu0);
	launch_function("mm", NULL, 1000000);
	take(77, "mm", 0x10, "wait", 5);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		*rec_directory = '\0'; /* the parent removes its own */
		exit(run_child(session));
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0);
	take(77, "mm", 0x10, "wait", 4);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	struct profile *profile = finish();
	CHECK_EQ(value_at(profile, "mm", "num_samples"), 9);
	CHECK_U64(rec_count(profile, "mm"), 1);
}

TEST(wrong_options_are_refused_with_the_reason)
{
	static const struct {
		const char *mode, *text;
	} cases[] = {
		{"pcsampling:interval=0", "the interval is not a number of cycles: 0; use 32 to"},
		{"pcsampling:interval=-5", "the interval is not a number of cycles: -5"},
		{"pcsampling:interval=", "the interval is not a number of cycles: "},
		{"pcsampling:interval=99999999999999999999", "the interval is not a number"},
		{"pcsampling:windows=1s/30ms",
		 "the windows are not a length and a longer distance"},
		{"pcsampling:windows=30/1s", "the windows are not a length"},
		{"pcsampling:windows=30ms", "the windows are not a length"},
		{"pcsampling:serialized:windows=30ms/1s", "serialized sampling has no windows"},
		{"pcsampling:fast", "unsupported option of pcsampling: fast; available: interval="},
		{"pcsampling:", "unsupported option of pcsampling: ; available"},
		{"pcsamplingx", "unsupported mode: pcsamplingx; available: "},
	};
	struct proton_error err;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CHECK_EQ(start_mode("a", cases[i].mode, &err), -1);
		CHECK_EQ(err.status, PROTON_E_INVALID);
		CHECK_HAS(err.text, cases[i].text);
	}
}
