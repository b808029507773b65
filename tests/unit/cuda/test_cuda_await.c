/*
 * Sessions that begin before the driver is initialized, as under the `proton` command: CUPTI is
 * not touched until the driver calls back, and never in a child of a process that has touched
 * it. The fake CUPTI ends a child that calls it nevertheless.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/cuda/cuda_session.h"

/* A process cannot undo its messages and its calls to CUPTI. */
static void need_fresh_process(void)
{
	load_fake();
	if (!tap_is_forking)
		SKIP("the process has used CUPTI already");
}

static int start_awaiting(void)
{
	proton_await_driver();
	return start();
}

/* The driver's call inside cuInit(), through InitializeInjection(). */
static void initialise_driver(void)
{
	struct proton_error err = {0};

	CHECK_EQ(fake.cu_init(0), 0);
	if (proton_driver_initialises(&err) != PROTON_OK)
		FAIL("%s", err.text);
}

static void check_untouched(void)
{
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

	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
		if (fake.calls(entries[i]))
			FAIL("%s was called", entries[i]);
}

/* Runs `run` in a forked child, which must exit with 0. */
static void in_child(void (*run)(void))
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		*rec_directory = '\0'; /* the parent removes its own */
		run();
		exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		FAIL("the child ended with status %#x", (unsigned)status);
}

/* "k" ran `count` times in it; frees it. */
static void check_count(struct profile *profile, uint64_t count)
{
	CHECK_U64(rec_count(profile, "k"), count);
	profile_free(profile);
}

/* Ends the session: "k" ran once in it. */
static void check_one(void)
{
	check_count(finish(), 1);
}

TEST(cupti_is_not_touched_until_the_driver_is_initialized)
{
	struct profile *profile;
	struct proton_error err;

	need_fresh_process();
	start_awaiting();
	check_untouched();
	CHECK_EQ(proton_deactivate(PROTON_ALL_SESSIONS, true, &err), PROTON_OK);
	CHECK_EQ(proton_activate(PROTON_ALL_SESSIONS, &err), PROTON_OK);
	check_untouched();
	initialise_driver();
	launch_ns("k", 10);
	profile = finish();
	CHECK_U64(rec_count(profile, "k"), 1);
	profile_free(profile);
	CHECK(fake.is_idle());
}

TEST(a_program_without_cuda_ends_without_a_call)
{
	struct proton_error err = {0};

	need_fresh_process();
	start_awaiting();
	CHECK_EQ(proton_finalize_owned(NULL, &err), PROTON_OK);
	check_untouched();
	CHECK(rec_exists("a.hatchet"));
	/* The driver's callback does not start anything any more either. */
	initialise_driver();
	check_untouched();
	CHECK(fake.is_idle());
}

TEST(a_driver_that_is_already_initialized_is_not_awaited)
{
	need_fresh_process();
	CHECK_EQ(fake.cu_init(0), 0);
	start_awaiting();
	CHECK(!fake.is_idle());
	launch_ns("k", 10);
	check_one();
}

TEST(a_session_that_joins_is_postponed_with_the_first)
{
	struct proton_error err = {0};

	need_fresh_process();
	start_awaiting();
	CHECK_LT(-1, start_named("b", "cupti", &err));
	check_untouched();
	initialise_driver();
	launch_ns("k", 10);
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
	check_count(rec_load("a.proton"), 1);
	check_count(rec_load("b.proton"), 1);
}

TEST(memory_operations_are_enabled_when_it_begins)
{
	struct proton_session_options options = {
		.size = sizeof(options),
		.name = rec_path("a"),
		.backend = "cupti",
		.flags = PROTON_SESSION_QUIET | PROTON_SESSION_MEMORY,
	};
	struct proton_error err = {0};
	uint32_t kinds;

	need_fresh_process();
	proton_await_driver();
	CHECK_EQ(proton_start(&options, NULL, &err), PROTON_OK);
	check_untouched();
	initialise_driver();
	kinds = fake.calls("cuptiActivityEnable");
	CHECK_LT(1, kinds); /* kernels alone are one */
	profile_free(finish());
	CHECK(fake.is_idle());
}

static void use_cuda(void)
{
	struct proton_error err = {0};

	/* InitializeInjection(): the child's own session and CUPTI. */
	CHECK_EQ(fake.cu_init(0), 0);
	CHECK_EQ(proton_driver_initialises(&err), PROTON_OK);
	if (start_named("child", "cupti", &err) < 0)
		FAIL("start: %s", err.text);
	launch_ns("k", 10);
	launch_ns("k", 10);
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
	check_count(rec_load("child.proton"), 2);
}

TEST(a_child_forked_before_has_its_own_session)
{
	need_fresh_process();
#ifdef __SANITIZE_THREAD__
	SKIP("ThreadSanitizer takes locks that a child initializes again for locked ones");
#endif
	start_awaiting();
	in_child(use_cuda);
	check_untouched();
	initialise_driver();
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
	int session;

	need_fresh_process();
	session = start_awaiting();
	CHECK_EQ(fake.cu_init(0), 0); /* without a callback */
	CHECK_EQ(proton_deactivate(session, true, &err), PROTON_E_STATE);
	CHECK_HAS(err.text, "CUDA_INJECTION64_PATH");
	profile_free(finish());
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
	load_fake();
	CHECK_EQ(fake.cu_init(0), 0);
	for (int i = 0; i < 100; i++) {
		pthread_t thread;

		start();
		CHECK_EQ(pthread_create(&thread, NULL, initialise, NULL), 0);
		rec_finalize(PROTON_ALL_SESSIONS, "none");
		pthread_join(thread, NULL);
		CHECK(fake.is_idle());
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
	need_fresh_process();
	for (int i = 0; i < 20; i++)
		in_child(end_while_notified);
}
