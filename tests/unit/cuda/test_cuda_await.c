/*
 * Sessions that begin before the driver is initialized, as under the `proton` command: the vendor's
 * library is not touched until the driver calls back, and never in a child of a process that has
 * touched it. The fakes end a child that calls them nevertheless. HIP calls the tool that
 * ROCP_TOOL_LIBRARIES names; with roctracer it calls nothing, and Proton looks for it.
 */

#include "unit/cuda/cuda_session.h"

/* A process cannot undo its messages and its calls to CUPTI. */
static void need_fresh_process(void)
{
	if (tests_backend("roctracer")) {
		kfd_make_machine();
		find_fake_of_amd(); /* HIP is loaded later */
	} else {
		load_fake();
	}
	if (!tap_is_forking)
		SKIP("the process has used CUPTI already");
}

/* The session's id. Its name is "a"; `flags` are more than PROTON_SESSION_QUIET. */
static int start_awaiting_with(uint32_t flags)
{
	struct proton_error err = {0};

	if (tests_backend("rocprofiler"))
		setenv("ROCP_TOOL_LIBRARIES", "/nowhere/libproton_rocprofiler.so", 1);
	proton_await_driver();
	int session = start_with((struct proton_session_options){.flags = flags}, &err);
	if (session < 0)
		FAIL("start: %s", err.text);
	return session;
}

static int start_awaiting(void)
{
	return start_awaiting_with(0);
}

/* HIP is initialized: it calls the tool, or the backend finds it at the next flush. */
static void initialize_hip(void)
{
	int (*with)(sdk_configure_fn configure);
	sdk_configure_fn configure;

	if (tests_backend("roctracer")) {
		load_hip();
		CHECK_EQ(proton_deactivate(PROTON_ALL_SESSIONS, true, NULL), PROTON_OK);
		CHECK_EQ(proton_activate(PROTON_ALL_SESSIONS, NULL), PROTON_OK);
		return;
	}
	fake_find(&with, fake_open("PROTON_ROCPROFILER_SDK_PATH"), "fake_sdk_register_with");
	/* libproton_rocprofiler.so does the same. */
	memcpy(&configure,
	       &(void *(*)(uint32_t, const char *, uint32_t, void *)){proton_rocprofiler_configure},
	       sizeof(configure));
	CHECK_EQ(with(configure), 0);
	CHECK_EQ(proton_driver_initialises(NULL), PROTON_OK);
}

/* The driver's call inside cuInit(), through InitializeInjection(). */
static void initialize_driver(void)
{
	struct proton_error err = {0};

	if (!tests_cuda()) {
		initialize_hip();
		return;
	}
	CHECK_EQ(fake.cu_init(0), 0);
	if (proton_driver_initialises(&err) != PROTON_OK)
		FAIL("%s", err.text);
}

static void check_untouched(void)
{
	static const char *const amd_entries[2][5] = {
		{"force_configure", "create_context", "start_context", "create_buffer",
		 "flush_buffer"},
		{"roctracer_op_code", "roctracer_enable_op_callback", "roctracer_open_pool_expl",
		 "roctracer_enable_op_activity_expl", "roctracer_flush_activity_expl"},
	};
	static const char *const entries[] = {
		"cuptiSubscribe",
		"cuptiUnsubscribe",
		"cuptiEnableCallback",
		"cuptiActivityEnable",
		"cuptiActivityDisable",
		"cuptiActivityRegisterCallbacks",
		"cuptiActivityFlushAll",
		"cuptiActivityRegisterTimestampCallback",
		"cuptiActivitySetAttribute",
		"cuptiActivityGetNumDroppedRecords",
		"cuptiGetTimestamp",
	};

	for (size_t i = 0; tests_cuda() && i < sizeof(entries) / sizeof(entries[0]); i++)
		if (fake.calls(entries[i]))
			FAIL("%s was called", entries[i]);
	for (size_t i = 0; !tests_cuda() && i < 5; i++)
		if (fake.calls(amd_entries[tests_backend("roctracer")][i]))
			FAIL("%s was called", amd_entries[tests_backend("roctracer")][i]);
}

/* Runs `run` in a forked child, which must exit with 0. */
static void in_child(void (*run)(void))
{
	int status;

	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		*rec_directory = '\0'; /* the parent removes its own */
		run();
		exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		FAIL("the child ended with status %#x", (unsigned)status);
}

/* Ends the session: "k" ran once in it. */
static void check_one(void)
{
	EXPECT(finish(), {"k", 1});
}

TEST(the_library_is_not_touched_until_the_driver_is_initialized)
{
	struct proton_error err;

	need_fresh_process();
	start_awaiting();
	check_untouched();
	CHECK_EQ(proton_deactivate(PROTON_ALL_SESSIONS, true, &err), PROTON_OK);
	CHECK_EQ(proton_activate(PROTON_ALL_SESSIONS, &err), PROTON_OK);
	check_untouched();
	initialize_driver();
	launch_ns("k", 10);
	EXPECT(finish(), {"k", 1});
	CHECK(fake.is_idle());
}

TEST(a_program_without_gpu_work_ends_without_a_call)
{
	struct proton_error err = {0};

	need_fresh_process();
	start_awaiting();
	CHECK_EQ(proton_finalize_owned(NULL, &err), PROTON_OK);
	check_untouched();
	CHECK(rec_exists("a.hatchet"));
	if (!tests_cuda())
		return;
	/* The driver's callback does not start anything any more either. */
	initialize_driver();
	check_untouched();
	CHECK(fake.is_idle());
}

TEST(a_driver_that_is_already_initialized_is_not_awaited)
{
	NOT_WITH("rocprofiler", "HIP calls the tool when it is initialized, or never");
	need_fresh_process();
	if (tests_cuda())
		CHECK_EQ(fake.cu_init(0), 0);
	else
		load_hip();
	start_awaiting();
	CHECK(!fake.is_idle());
	launch_ns("k", 10);
	check_one();
}

/* Without the fakes' support: HIP may not be loaded yet. */
static int start_another(const char *name, struct proton_error *err)
{
	return start_with((struct proton_session_options){.name = rec_path(name)}, err);
}

TEST(a_session_that_joins_is_postponed_with_the_first)
{
	struct proton_error err = {0};

	need_fresh_process();
	start_awaiting();
	CHECK_LT(-1, start_another("b", &err));
	check_untouched();
	initialize_driver();
	launch_ns("k", 10);
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
	EXPECT(rec_load("a.proton"), {"k", 1});
	EXPECT(rec_load("b.proton"), {"k", 1});
}

TEST(memory_operations_are_enabled_when_it_begins)
{
	static const char *const enable[] = {"cuptiActivityEnable", "start_context",
					     "roctracer_enable_op_activity_expl"};
	int which = tests_cuda() ? 0 : tests_backend("roctracer") ? 2 : 1;

	need_fresh_process();
	start_awaiting_with(PROTON_SESSION_MEMORY);
	check_untouched();
	initialize_driver();
	CHECK_LT(1, fake.calls(enable[which])); /* kernels alone are one, or 2 with rocprofiler */
	finish();
	CHECK(fake.is_idle());
}

static void use_gpu(void)
{
	struct proton_error err = {0};

	/* InitializeInjection(): the child's own session and library. */
	if (tests_cuda()) {
		CHECK_EQ(fake.cu_init(0), 0);
		CHECK_EQ(proton_driver_initialises(&err), PROTON_OK);
	} else {
		tests_backend("roctracer") ? load_hip() : initialize_hip();
	}
	if (start_another("child", &err) < 0)
		FAIL("start: %s", err.text);
	launch_ns("k", 10);
	launch_ns("k", 10);
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
	EXPECT(rec_load("child.proton"), {"k", 2});
}

TEST(a_child_forked_before_has_its_own_session)
{
	need_fresh_process();
	if (tests_backend("roctracer"))
		skip_if_emulated("the emulator starts no thread in a forked child");
#ifdef __SANITIZE_THREAD__
	SKIP("ThreadSanitizer takes locks that a child initializes again for locked ones");
#endif
	start_awaiting();
	in_child(use_gpu);
	check_untouched();
	initialize_driver();
	launch_ns("k", 10);
	check_one();
}

static void launch_unrecorded(void)
{
	struct proton_error err = {0};

	fake.cu_init(0);
	launch_ns("k", 10);
	CHECK(!proton_is_profiling());
	CHECK_EQ(start_named("child", "cupti", &err), -1);
	CHECK_EQ(err.status, PROTON_E_STATE);
	CHECK_HAS(err.text, "forked");
	CHECK(!rec_exists("child.proton"));
	launch_ns("k", 10);
	proton_finalize(PROTON_ALL_SESSIONS, NULL, NULL);
}

TEST(a_child_of_a_process_that_has_touched_cupti_touches_nothing)
{
	ONLY_CUDA("children of AMD are in test_rocprofiler_backend and test_roctracer_late");
	need_fresh_process();
	if (TAP_IS_SANITIZED)
		SKIP("sanitizer locks that a thread holds at fork() stay locked");
	start(); /* as in plain programs: the driver does not call back */
	CHECK(!fake.is_idle());
	in_child(launch_unrecorded);
	launch_ns("k", 10);
	check_one();
	in_child(launch_unrecorded); /* after the stop too: CUPTI's threads were there */
}

TEST(a_failed_start_is_reported_at_once_and_at_the_end)
{
	struct proton_error err = {0};

	ONLY_CUDA("starts of AMD that fail are in test_cmd_amd.py and test_roctracer_late");
	need_fresh_process();
	start_awaiting();
	fake.fail("cuptiActivityEnable", 1, 1, CUPTI_E_INSUFFICIENT_PRIVILEGES);
	CHECK_EQ(fake.cu_init(0), 0);
	CHECK_EQ(proton_driver_initialises(&err), PROTON_E_PERMISSION);
	CHECK_HAS(err.text, "NVreg_RestrictProfilingToAdminUsers");
	CHECK(fake.is_idle());
	launch_ns("k", 10);
	CHECK_EQ(proton_finalize_owned(NULL, &err), PROTON_E_PERMISSION);
	CHECK_HAS(err.text, "no GPU activity was recorded");
	CHECK(rec_exists("a.hatchet"));
}

TEST(a_driver_that_did_not_call_back_is_noticed)
{
	struct proton_error err = {0};

	ONLY_CUDA("HIP that did not call the tool is in test_rocprofiler_backend");
	need_fresh_process();
	int session = start_awaiting();
	CHECK_EQ(fake.cu_init(0), 0); /* without a callback */
	CHECK_EQ(proton_deactivate(session, true, &err), PROTON_E_STATE);
	CHECK_HAS(err.text, "CUDA_INJECTION64_PATH");
	CHECK_EQ(proton_finalize(session, "proton", &err), PROTON_E_STATE);
	rec_load("a.proton");
	check_untouched();
}

static void *initialise(void *unused)
{
	(void)unused;
	CHECK_EQ(proton_driver_initialises(NULL), PROTON_OK);
	return NULL;
}

TEST(the_driver_may_call_back_while_the_session_ends)
{
	ONLY_CUDA("HIP calls once");
	load_fake();
	CHECK_EQ(fake.cu_init(0), 0);
	for (int i = 0; i < 100; i++) {
		pthread_t thread;

		start();
		CHECK_EQ(pthread_create(&thread, NULL, initialise, NULL), 0);
		rec_finalize(PROTON_ALL_SESSIONS, "none");
		pthread_join(thread, NULL);
		CHECK(is_resting());
	}
}

/* The same in children; each reports it once. */
static void end_while_notified(void)
{
	pthread_t thread;

	start_awaiting();
	CHECK_EQ(pthread_create(&thread, NULL, initialise, NULL), 0);
	if (getpid() % 2)
		usleep((useconds_t)(getpid() % 64));
	rec_finalize(PROTON_ALL_SESSIONS, "none");
	pthread_join(thread, NULL);
	CHECK(fake.is_idle());
}

TEST(the_first_callback_may_come_while_the_session_ends)
{
	ONLY_CUDA("HIP calls once");
	need_fresh_process();
	for (int i = 0; i < 20; i++)
		in_child(end_while_notified);
}
