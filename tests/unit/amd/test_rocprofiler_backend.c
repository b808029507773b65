/* Backend "rocprofiler": its differences from CUDA; test_cuda.c runs over the same fake. */
#include "unit/cuda/cuda_session.h"

#include "base/clock.h"

static int start_flags(uint32_t flags)
{
	return start_options((struct proton_session_options){.flags = flags});
}

static void expect_refused(int status, const char *text)
{
	struct proton_error err = {0};

	CHECK_LT(start_named("a", "rocprofiler", &err), 0);
	CHECK_EQ(err.status, status);
	CHECK_HAS(err.text, text);
	CHECK(!proton_is_profiling());
	CHECK(!rec_exists("a.proton"));
}

static void copy(const char *call, enum sdk_copy operation, uint64_t bytes, uint64_t duration_ns)
{
	fake.copy(&(struct fake_copy){.call = call,
				      .operation = operation,
				      .bytes = bytes,
				      .start_ns = 1,
				      .end_ns = 1 + duration_ns});
}

static void run_on_thread(void *(*run)(void *))
{
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, run, NULL), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* Runs in a child: the library is registered with once per process. */
static void launch_with(const char *name, uint32_t grid, uint32_t block)
{
	fake.launch(&(struct fake_launch){.call = CUPTI_CALL_LAUNCH_KERNEL,
					  .name = name,
					  .records = 1,
					  .start_ns = 1000,
					  .end_ns = 1010,
					  .device = 1,
					  .config = {.grid = {grid, 2, 1},
						     .block = {block, 4, 1},
						     .registers_per_thread = 96,
						     .static_shared_bytes = 512,
						     .dynamic_shared_bytes = 1024}});
}

/* ------------------------------------------------------------------ versions */

static void record_everything(void)
{
	start_flags(PROTON_SESSION_MEMORY);
	sdk.range_push("range");
	for (int i = 0; i < 300; i++)
		launch_with("mm", 7, 64);
	sdk.range_pop();
	copy("hipMemcpyAsync", SDK_COPY_HOST_TO_DEVICE, 4096, 2);
	struct profile *profile = finish();
	CHECK_U64(rec_count(profile, "range/mm"), 300);
	CHECK_U64(rec_count(profile, "Memcpy HtoD (Unknown -> Device)"), 1);
	const struct profile_kernel *kernel =
		&profile->kernels[profile->nodes[rec_node(profile, "range/mm")].first_kernel];
	CHECK_U64(kernel->total_ns, 3000);
	CHECK_STR(profile_text(profile, profile->devices[kernel->device].arch), "gfx90a");
	const struct launch_config *config = &profile->configs[kernel->first_config].config;
	CHECK_U64(config->grid[0], 7);
	CHECK_U64(config->grid[1], 2);
	CHECK_U64(config->block[0], 64);
	CHECK_U64(config->block[1], 4);
	CHECK_U64(config->registers_per_thread, 96);
	CHECK_U64(config->static_shared_bytes, 512);
	CHECK_U64(config->dynamic_shared_bytes, 1024);
}

TEST(every_version_since_1_0_records_the_same)
{
	static const char *const versions[] = {"10000", "10201", "10300"};

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		setenv("FAKE_SDK_VERSION", versions[i], 1);
		rec_in_child(record_everything, versions[i]);
	}
}

TEST(kinds_and_operations_are_found_by_name)
{
	setenv("FAKE_SDK_RENUMBER", "1", 1);
	record_everything();
}

static void refuse_version(void)
{
	expect_refused(PROTON_E_VERSION, "rocprofiler-sdk 0.6.0; 1.0 or later is required, which "
					 "ROCm 7.0 has");
}

TEST(versions_before_1_0_are_refused_with_the_rocm_that_is_needed)
{
	setenv("FAKE_SDK_VERSION", "600", 1);
	rec_in_child(refuse_version, "with its function for the version");
	/* Without that function, the version comes with the registration. */
	setenv("FAKE_CUPTI_FAIL", "get_version=1", 1);
	rec_in_child(refuse_version, "without");
}

/* ------------------------------------------------------------------ registration */

/* The command `proton` sets the variable; HIP has no librocprofiler-register here. */
TEST(a_gpu_that_was_used_without_calling_the_tool_is_an_error)
{
	struct proton_error err = {0};
	char *path = strdup(rec_path("dev/kfd"));
	int session, fd;

	proton_await_driver();
	setenv("ROCP_TOOL_LIBRARIES", "/nowhere/libproton_rocprofiler.so", 1);
	session = start();
	CHECK_EQ(fake.calls("force_configure"), 0);
	CHECK_EQ(proton_deactivate(session, true, &err), PROTON_OK);
	CHECK_EQ(mkdir(rec_path("dev"), 0700), 0);
	fd = open(path, O_CREAT | O_RDWR, 0600);
	CHECK_LE(0, fd);
	CHECK_EQ(proton_deactivate(session, true, &err), PROTON_E_STATE);
	CHECK_HAS(err.text, "HIP was initialized without calling the tool");
	close(fd);
	free(path);
	rec_finalize(session, "none");
}

TEST(kernels_that_were_loaded_before_the_session_have_names)
{
	load_fake();
	proton_prepare();
	proton_prepare();
	CHECK_EQ(fake.calls("force_configure"), 1);
	CHECK_EQ(sdk.started(), 1); /* the code objects */
	launch_ns("early", 5);
	start();
	launch_ns("early", 5);
	EXPECT(finish(), {"early", 1});
	CHECK_EQ(fake.calls("force_configure"), 1);
}

TEST(a_process_without_hip_is_not_registered)
{
	load_fake();
	unsetenv("PROTON_HIP_PATH");
	if (access("/dev/kfd", F_OK) == 0)
		SKIP("this machine has an AMD GPU");
	proton_prepare();
	CHECK_EQ(fake.calls("force_configure"), 0);
}

TEST(another_backend_that_was_chosen_leaves_the_library_alone)
{
	load_fake();
	setenv("PROTON_BACKEND", "host", 1);
	proton_prepare();
	CHECK_EQ(fake.calls("force_configure"), 0);
}

TEST(contexts_are_started_once_and_never_stopped)
{
	for (int i = 0; i < 20; i++) {
		int session = start_flags(i % 2 ? PROTON_SESSION_MEMORY : 0);

		launch_ns("on", 5);
		rec_finalize(session, "proton");
		EXPECT(rec_load("a.proton"), {"on", 1});
		launch_ns("off", 5);
	}
	CHECK_EQ(sdk.started(), 3);
	CHECK_EQ(sdk.stops(), 0);
	CHECK_EQ(fake.calls("start_context"), 3);
}

TEST(launches_between_sessions_are_neither_recorded_nor_lost)
{
	int session = start();

	rec_finalize(session, "none");
	fake.hold(true);
	launch_ns("between", 5);
	session = start();
	fake.hold(false);
	launch_ns("on", 5);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "lost: kernel record without a known launch"), 0);
	CHECK_U64(rec_counter(session, "kernels"), 1);
	CHECK_EQ(rec_node(finish(), "between"), REC_NOWHERE);
}

TEST(records_of_unknown_launches_and_calls_are_counted)
{
	int session = start_flags(PROTON_SESSION_MEMORY);

	launch_ns("k", 5);
	setenv("FAKE_SDK_UNASKED", "1", 1);
	launch_ns("k", 5);
	copy("hipMemcpyAsync", SDK_COPY_HOST_TO_DEVICE, 4096, 2);
	unsetenv("FAKE_SDK_UNASKED");
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "kernels"), 1);
	CHECK_U64(rec_counter(session, "memory operations"), 0);
	CHECK_U64(rec_counter(session, "lost: kernel record without a known launch"), 1);
	CHECK_U64(rec_counter(session, "lost: memory record without a known call"), 1);
	finish();
}

/* ------------------------------------------------------------------ launches */

/* A failed hipGetDevice() does not mean that records are lost: a flush waits 300 ms for them. */
TEST(records_are_awaited_where_hip_does_not_name_its_device)
{
	int session = start();

	launch_ns("k", 5);
	setenv("FAKE_SDK_LATE_MS", "300", 1);
	launch_ns("late", 5);
	fake.cuda_fail("hipGetDevice", 1, FAKE_ALWAYS, 999);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "lost: kernel record never received"), 0);
	unsetenv("FAKE_SDK_LATE_MS");
	EXPECT(finish(), {"k", 1}, {"late", 1});
}

TEST(launches_without_any_record_are_an_error_with_its_remedy)
{
	struct proton_error err = {0};
	int session = start();
	uint64_t begin_ns = clock_monotonic_ns();

	rec_begin_saying();
	sdk.queues_exist(true);
	for (int i = 0; i < 5; i++)
		launch_ns("k", 5);
	CHECK_EQ(proton_deactivate(session, true, &err), PROTON_E_STATE);
	CHECK_HAS(err.text, "does not see the queue of 5 kernels, because HIP made it before");
	CHECK_HAS(err.text, "import Proton before the first use of the GPU");
	memset(&err, 0, sizeof(err));
	CHECK_EQ(proton_finalize(session, NULL, &err), PROTON_E_STATE);
	CHECK_LT(clock_monotonic_ns() - begin_ns, 4000000000);
	CHECK_HAS(err.text, "the queue of 5 kernels");
	CHECK_EQ(rec_printed("does not see the queue"), 0);
}

TEST(launches_on_one_queue_without_records_are_a_warning)
{
	int session = start();

	rec_begin_saying();
	launch_ns("k", 5);
	sdk.queues_exist(true);
	for (int i = 0; i < 5; i++)
		launch_ns("k", 5);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "lost: kernel record never received"), 5);
	EXPECT(finish(), {"k", 1});
	CHECK_EQ(rec_printed("does not see the queue of 5 kernels"), 1);
}

static void *dispatch_on_thread(void *unused)
{
	fake.launch(&(struct fake_launch){.call = CUPTI_CALL_LAUNCH_KERNEL,
					  .name = "k",
					  .is_unseen = true,
					  .records = 1,
					  .start_ns = 1000,
					  .end_ns = 1010});
	return unused;
}

/* A call without a dispatch, and a dispatch on HIP's thread without a call. */
static void launch_indirectly(void)
{
	sdk.queues_exist(true);
	launch_ns("k", 10);
	sdk.queues_exist(false);
	run_on_thread(dispatch_on_thread);
}

TEST(dispatches_on_a_thread_of_hip_are_recorded_and_the_variable_is_named)
{
	setenv("AMD_DIRECT_DISPATCH", "0", 1);
	int session = start();
	rec_begin_saying();
	for (int i = 0; i < 7; i++)
		launch_indirectly();
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "kernels"), 7);
	CHECK_U64(rec_counter(session, "lost: kernel record never received"), 0);
	finish();
	CHECK_EQ(rec_printed("with AMD_DIRECT_DISPATCH=0 HIP dispatches them"), 1);
	CHECK_EQ(rec_printed("does not see the queue"), 0);
}

static void *launch_on_thread(void *unused)
{
	uint64_t token = proton_scope_enter("other");

	launch_ns("k", 10);
	proton_scope_exit(token, NULL);
	return unused;
}

/* Two threads on one of HSA's queues: the second processes the packet of the first. */
TEST(kernels_that_another_thread_dispatches_are_recorded_and_the_message_does_not_blame_the_order)
{
	int session = start();

	rec_begin_saying();
	for (int i = 0; i < 7; i++) {
		sdk.defer(true);
		launch_ns("k", 10);
		sdk.defer(false);
		run_on_thread(launch_on_thread);
	}
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "kernels"), 14);
	CHECK_U64(rec_counter(session, "lost: kernel record never received"), 0);
	struct profile *profile = finish();
	CHECK_U64(rec_count(profile, "other/k"), 14); /* half of them in the wrong scope */
	CHECK_EQ(rec_printed("HSA dispatched them on another thread"), 1);
	CHECK_EQ(rec_printed("does not see the queue"), 0);
}

TEST(kernels_that_the_runtime_adds_to_a_launch_are_recorded_too)
{
	start();
	sdk.extra_dispatches(2);
	uint64_t token = proton_scope_enter("scope");
	for (int i = 0; i < 10; i++)
		launch_ns("k", 5);
	proton_scope_exit(token, NULL);
	EXPECT(finish(), {"scope/k", 10}, {"scope/__amd_rocclr_initHeap", 20});
}

/* The library counts from the beginning. */
TEST(records_that_the_library_drops_are_counted_once)
{
	int session = start();

	fake.drop(3);
	for (int i = 0; i < 5; i++) {
		launch_ns("k", 5);
		CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
		CHECK_EQ(proton_activate(session, NULL), PROTON_OK);
	}
	fake.drop(2);
	launch_ns("k", 5);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "lost: record dropped by the vendor library"), 5);
	finish();
}

TEST(a_full_buffer_makes_launches_wait_and_loses_nothing)
{
	setenv("TRITON_PROFILE_BUFFER_SIZE", "65536", 1);
	start();
	for (int i = 0; i < 5000; i++)
		launch_ns("k", 5);
	EXPECT(finish(), {"k", 5000});
}

/* ------------------------------------------------------------------ memory */

static void copy_and_set(void)
{
	copy("hipMemcpyAsync", SDK_COPY_DEVICE_TO_HOST, 100, 10);
	/* A call without known arguments, and a memset: a kernel of the runtime. */
	copy("hipMemcpyPeerAsync", SDK_COPY_DEVICE_TO_DEVICE, 7, 1);
	fake.copy(&(struct fake_copy){.call = "hipMemsetD32Async",
				      .kernel = "__amd_rocclr_fillBufferAligned",
				      .bytes = 25,
				      .start_ns = 1,
				      .end_ns = 6});
	fake.copy(&(struct fake_copy){.call = "hipMemsetAsync",
				      .kernel = "__amd_rocclr_fillBufferAligned",
				      .bytes = 10,
				      .result = 1});
}

TEST(copies_and_memsets_are_recorded_for_sessions_that_want_them)
{
	int session = start_flags(PROTON_SESSION_MEMORY);

	launch_ns("k", 5);
	copy_and_set();
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "kernels"), 1);
	CHECK_U64(rec_counter(session, "memory operations"), 3);
	CHECK_U64(rec_counter(session, "lost: memory record without a known call"), 0);
	struct profile *profile = finish();
	CHECK_U64(rec_count(profile, "Memcpy DtoH (Device -> Unknown)"), 1);
	CHECK_U64(rec_count(profile, "Memcpy DtoD (Device -> Device)"), 1);
	CHECK_U64(rec_count(profile, "Memset (Device)"), 1);
	const struct profile_value *bytes = rec_value(profile, "Memset (Device)", "memory_bytes");
	CHECK(bytes && bytes->as.int64 == 100);
}

TEST(without_such_a_session_they_are_neither_recorded_nor_waited_for)
{
	int session = start();

	launch_ns("k", 5);
	copy_and_set();
	CHECK_EQ(sdk.started(), 2);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "kernels"), 1);
	CHECK_U64(rec_counter(session, "lost: kernel record never received"), 0);
	CHECK_EQ(rec_node(finish(), "Memset (Device)"), REC_NOWHERE);
}

/* ------------------------------------------------------------------ ranges */

TEST(ranges_of_roctx_are_scopes_unless_the_user_disabled_them)
{
	start();
	sdk.range_push("outer");
	sdk.range_push("inner");
	launch_ns("k", 5);
	sdk.range_pop();
	launch_ns("k", 5);
	sdk.range_pop();
	sdk.range_pop(); /* without a push */
	proton_nvtx_enable(false);
	sdk.range_push("disabled");
	launch_ns("k", 5);
	sdk.range_pop();
	EXPECT(finish(), {"outer/inner/k", 1}, {"outer/k", 1}, {"k", 1});
}

/* As in PyTorch: the library does not see these ranges. */
TEST(ranges_of_libroctx64_are_scopes_while_a_session_records)
{
	int (*push)(const char *);
	int (*pop)(void);

	fake_find(&push, fake_open("PROTON_ROCTX_PATH"), "roctxRangePushA");
	fake_find(&pop, fake_open("PROTON_ROCTX_PATH"), "roctxRangePop");
	int session = start();
	push("outer");
	launch_ns("k", 5);
	pop();
	launch_ns("k", 5);
	rec_finalize(session, "proton");
	EXPECT(rec_load("a.proton"), {"outer/k", 1}, {"k", 1});
	push("between");
	start();
	launch_ns("k", 5);
	pop();
	EXPECT(finish(), {"k", 1});
}

/* ------------------------------------------------------------------ other backends */

TEST(only_one_backend_records_gpus_at_a_time)
{
	struct proton_error err = {0};

	start();
	CHECK_LT(start_named("b", "roctracer", &err), 0);
	CHECK_EQ(err.status, PROTON_E_BUSY);
	CHECK_HAS(err.text, "while \"rocprofiler\" records in this process");
	CHECK_LE(0, start_named("b", "host", &err));
	CHECK_LE(0, start_named("c", "rocprofiler", &err));
	launch_ns("k", 5);
	EXPECT(finish(), {"k", 1});
}

/* ------------------------------------------------------------------ fork and exit */

TEST(a_forked_child_runs_on_without_a_session)
{
	struct proton_error err = {0};
	int status;

	start();
	launch_ns("k", 5);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		for (int i = 0; i < 100000; i++) /* more than a buffer */
			launch_ns("k", 5);
		if (start_named("child", "rocprofiler", &err) >= 0 ||
		    err.status != PROTON_E_STATE || !strstr(err.text, "spawn"))
			_exit(1);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	launch_ns("k", 5);
	EXPECT(finish(), {"k", 2});
}

TEST(a_session_may_start_in_a_child_that_was_forked_before_the_registration)
{
	load_fake();
	rec_in_child(record_everything, "child");
	record_everything();
}

TEST(a_session_that_ends_after_the_library_keeps_its_kernels)
{
	struct proton_error err = {0};

	start();
	for (int i = 0; i < 10; i++)
		launch_ns("k", 5);
	sdk.finalize(); /* at exit */
	uint64_t begin_ns = clock_monotonic_ns();
	EXPECT(finish(), {"k", 10});
	CHECK_LT(clock_monotonic_ns() - begin_ns, 4000000000);
	CHECK_LT(start_named("b", "rocprofiler", &err), 0);
	CHECK_HAS(err.text, "the program is exiting");
}
