/*
 * CUDA backend: hard cases of CUPTI: records of every version, late, out of order, twice or
 * missing, no memory, callbacks while a session ends, many threads, many contexts.
 */
#include "unit/cuda/cuda_session.h"

#include "backend/gpu/captured_nodes.h"
#include "base/clock.h"

/* AddressSanitizer ends the program where the system's allocator returns NULL. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "allocator_may_return_null=1";
}

/* The version of the library, and the driver's. From one to the next, records get longer. */
static const struct version {
	const char *library;
	const char *driver;
	const char *name;
} versions_of_cupti[] =
	{
		{"22", "12040", "12.4"},     {"27", "12090", "12.9"},
		{"130000", "13000", "13.0"}, {"130001", "13000", "13.0"},
		{"130100", "13010", "13.1"}, {"130300", "13030", "13.3"},
		{"22", "13000", "12.4"}, /* an old CUPTI goes with a new driver */
		{NULL, NULL, NULL},
},
  versions_of_sdk[] =
	  {
		  {"10000", "", "1.0.0"},
		  {"10201", "", "1.2.1"},
		  {"10300", "", "1.3.0"},
		  {NULL, NULL, NULL},
},
  versions_of_roctracer[] = {
	  {"1", "", "4.1"},
	  {"2", "", "4.2"},
	  {NULL, NULL, NULL},
};

static const struct version *versions(void)
{
	return tests_cuda()                 ? versions_of_cupti
	       : tests_backend("roctracer") ? versions_of_roctracer
					    : versions_of_sdk;
}

static void set_version(const struct version *version)
{
	if (tests_cuda()) {
		setenv("FAKE_CUPTI_VERSION", version->library, 1);
		setenv("FAKE_CUDA_VERSION", version->driver, 1);
		return;
	}
	setenv(tests_backend("roctracer") ? "FAKE_ROCTRACER_MINOR" : "FAKE_SDK_VERSION",
	       version->library, 1);
}

/* Runs `test` in its own process for each version, because a library is loaded once. */
static void for_each_version(void (*test)(const struct version *))
{
	for (const struct version *version = versions(); version->name; version++) {
		int status;
		pid_t pid;

		fflush(stdout);
		pid = fork();
		if (pid == 0) {
			*rec_directory = '\0';
			set_version(version);
			test(version);
			exit(0);
		}
		CHECK_LT(0, pid);
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
			FAIL("version %s: see above", version->name);
	}
}

static void many_buffers(const struct version *version)
{
	(void)version;
	setenv("TRITON_PROFILE_BUFFER_SIZE", "1", 1); /* the minimum: 64 kB */
	start();
	for (int i = 0; i < 2000; i++)
		launch_ns(i % 2 ? "odd" : "even", 10);
	struct profile *profile = finish();
	CHECK_U64(rec_count(profile, "odd"), 1000);
	CHECK_U64(rec_count(profile, "even"), 1000);
	const struct profile_kernel *kernel =
		&profile->kernels[profile->nodes[rec_node(profile, "odd")].first_kernel];
	CHECK_U64(kernel->total_ns, 10000);
	CHECK_EQ(fake.buffers_out(), 0);
}

TEST(records_of_every_version_are_read)
{
	for_each_version(many_buffers);
}

TEST(buffers_grow_when_the_next_session_wants_larger_ones)
{
	static const char *const sizes[] = {"65536", "4194304", "65536"};

	for (size_t size = 0; size < sizeof(sizes) / sizeof(sizes[0]); size++) {
		struct profile *profile;

		setenv("TRITON_PROFILE_BUFFER_SIZE", sizes[size], 1);
		start();
		for (int i = 0; i < 2000; i++)
			launch_ns("k", 10);
		profile = finish();
		CHECK_U64(rec_count(profile, "k"), 2000);
		CHECK_EQ(fake.buffers_out(), 0);
	}
	unsetenv("TRITON_PROFILE_BUFFER_SIZE");
}

static void no_memory(const struct version *version)
{
	setenv("TRITON_PROFILE_BUFFER_SIZE", "140737488355328", 1); /* 128 TiB: too much */
	int session = start();
	for (int i = 0; i < 10; i++)
		launch_ns("k", 10);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	if (rec_counter(session, "lost: record dropped by the vendor library") +
		    rec_counter(session, "lost: kernel record never received") <
	    10)
		FAIL("CUPTI %s: kernels are lost without a warning", version->name);
	rec_finalize(session, "none");
	CHECK(is_resting());
}

TEST(running_out_of_memory_loses_records_and_nothing_else)
{
	ONLY_CUDA("CUPTI alone asks the backend for buffers");
	for_each_version(no_memory);
}

TEST(a_driver_that_cupti_does_not_support_is_reported)
{
	struct proton_error err;

	ONLY_CUDA("this is about the driver that CUPTI needs");
	load_fake();
	fake.fail("cuptiSubscribe", 1, 1, CUPTI_E_NOT_INITIALIZED);
	CHECK_LT(start_named("a", tested_backend(), &err), 0);
	CHECK_EQ(err.status, PROTON_E_VERSION);
	CHECK_HAS(err.text, "update the driver");
}

/* ------------------------------------------------------------------ starts that fail */

/* "name=code" */
static void set_failure(const char *failure)
{
	size_t length = strcspn(failure, "=");
	char name[64], whole[80];

	snprintf(name, sizeof(name), "%.*s", (int)length, failure);
	snprintf(whole, sizeof(whole), "%s%s", entry_point(name), failure + length);
	setenv("FAKE_CUPTI_FAIL", whole, 1);
}

TEST(each_entry_point_may_fail)
{
	static const struct {
		const char *failure;
		int status; /* result of the start; PROTON_OK: it works without */
		const char *text;
	} cases[] = {
		{"cuptiGetVersion=1", PROTON_E_VERSION, "cannot determine the version of "},
		{"cuptiSubscribe=39", PROTON_E_BUSY,
		 "CUPTI is already in use by another tool in this process"},
		{"cuptiActivityEnable=35", PROTON_E_PERMISSION,
		 "NVreg_RestrictProfilingToAdminUsers=0"},
		{"cuptiEnableCallback=1", PROTON_E_IO, "cuptiEnableCallback failed: FAKE_ERROR_1"},
		{"cuptiActivityRegisterCallbacks=1", PROTON_E_IO, "cuptiActivityRegisterCallbacks"},
		{"cuptiActivitySetAttribute=1", PROTON_OK, NULL},
		{"cuptiActivityRegisterTimestampCallback=1", PROTON_OK, NULL},
		{"cuptiActivityDisable=1", PROTON_OK, NULL},
		{"cuptiActivityGetNumDroppedRecords=1", PROTON_OK, NULL},
	};

	ONLY_CUDA("these are errors of CUPTI");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct proton_error err = {0};
		struct profile *profile;
		int session;

		/* An attribute selects the fields of records. */
		if (tests_second() && strstr(cases[i].failure, "Attribute"))
			continue;
		set_failure(cases[i].failure);
		session = start_named("a", tested_backend(), &err);
		if (cases[i].status != PROTON_OK) {
			CHECK_LT(session, 0);
			CHECK_EQ(err.status, cases[i].status);
			CHECK_HAS(err.text, cases[i].text);
			CHECK(!proton_is_profiling());
			CHECK(!rec_exists("a.proton"));
			continue;
		}
		CHECK_LE(0, session);
		launch_ns("k", 5);
		profile = finish();
		CHECK_U64(rec_count(profile, "k"), 1);
	}
	unsetenv("FAKE_CUPTI_FAIL");
	start();
	launch_ns("k", 5);
	finish();
	CHECK(fake.is_idle());
}

TEST(versions_that_do_not_fit_are_refused)
{
	struct proton_error err;

	ONLY_CUDA("these are versions of CUPTI");
	load_fake();
	setenv("FAKE_CUPTI_VERSION", "21", 1);
	CHECK_LT(start_named("a", tested_backend(), &err), 0);
	CHECK_EQ(err.status, PROTON_E_VERSION);
	CHECK_HAS(err.text, "CUPTI 12.3; 12.4 or later is required");
	setenv("FAKE_CUPTI_VERSION", "130300", 1);
	setenv("FAKE_CUDA_VERSION", "12040", 1);
	fake.fail("cuptiSubscribe", 1, 2, CUPTI_E_NOT_INITIALIZED);
	CHECK_LT(start_named("a", tested_backend(), &err), 0);
	CHECK_EQ(err.status, PROTON_E_VERSION);
	CHECK_HAS(err.text,
		  "CUPTI 13.3 does not support this driver (CUDA 12.4); update the driver");
	fake.fail("cuptiSubscribe", 0, 0, 0);
	CHECK_LE(0, start_named("a", tested_backend(), &err));
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}

TEST(a_newer_cupti_that_works_with_the_driver_is_used)
{
	ONLY_CUDA("these are versions of CUPTI");
	setenv("FAKE_CUPTI_VERSION", "130500", 1);
	setenv("FAKE_CUDA_VERSION", "12040", 1);
	start();
	launch_ns("k", 5);
	EXPECT(finish(), {"k", 1});
}

TEST(a_missing_library_is_reported_with_the_searched_paths)
{
	struct proton_error err;

	load_fake();
	setenv(library_variable(false), rec_path("nowhere"), 1);
	{
		struct proton_session_options options = {.size = sizeof(options),
							 .name = rec_path("a"),
							 .backend = tested_backend()};
		int session;

		CHECK_EQ(proton_start(&options, &session, &err), PROTON_E_NOLIB);
	}
	CHECK_HAS(err.text, "cannot find lib");
	CHECK_HAS(err.text, "(searched: PROTON_");
	CHECK(!rec_exists("a.proton"));
}

TEST(an_unknown_mode_is_refused)
{
	struct proton_error err;
	struct proton_session_options options = {.size = sizeof(options),
						 .name = rec_path("a"),
						 .backend = tested_backend(),
						 .mode = "magic"};
	int session;

	CHECK_EQ(proton_start(&options, &session, &err), PROTON_E_INVALID);
	CHECK_HAS(err.text, "unsupported mode: magic");
}

/* ------------------------------------------------------------------ records at odd times */

TEST(records_that_arrive_after_the_stop_are_dropped)
{
	int session = start();

	launch_ns("first", 5);
	fake.hold(true);
	fail_waiting(1); /* a short wait */
	rec_finalize(session, "none");
	fake.hold(false);
	session = start();
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK); /* now they come */
	proton_activate(session, NULL);
	launch_ns("second", 5);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "kernels"), 1);
	CHECK_U64(rec_counter(session, "lost: kernel record without a known launch"), 0);
	struct profile *profile = finish();
	CHECK_EQ(rec_node(profile, "first"), REC_NOWHERE);
	CHECK_U64(rec_count(profile, "second"), 1);
}

/* CUPTI's copies of names end with cuptiFinalize(); later ones may have the same addresses. */
TEST(a_name_at_the_address_of_an_earlier_one_is_read)
{
	char name[] = "first";

	ONLY_CUDA("the others name kernels by number, or keep no address");
	for (int i = 0; i < 2; i++) {
		start();
		memcpy(name, i ? "other" : "first", sizeof(name));
		fake.launch(&(struct fake_launch){.call = CUPTI_CALL_LAUNCH_KERNEL,
						  .name = name,
						  .records = 1,
						  .start_ns = 1000,
						  .end_ns = 2000});
		EXPECT(finish(), {name, 1});
	}
}

TEST(a_duplicate_record_counts_once)
{
	int session = start();

	fake.launch(&(struct fake_launch){.call = CUPTI_CALL_LAUNCH_KERNEL,
					  .name = "k",
					  .records = 2,
					  .start_ns = 1,
					  .end_ns = 3});
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "kernels"), 1);
	CHECK_U64(rec_counter(session, "lost: kernel record without a known launch"), 1);
	rec_finalize(session, "none");
}

/* One call, a kernel on each device. */
TEST(a_launch_on_several_devices_has_a_record_for_each)
{
	int session = start();

	fake.launch(&(struct fake_launch){.call = CUPTI_CALL_LAUNCH_COOPERATIVE_MULTI_DEVICE,
					  .name = "k",
					  .records = 8,
					  .start_ns = 1,
					  .end_ns = 3});
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "kernels"), 8);
	rec_finalize(session, "none");
}

TEST(dropped_records_are_counted_once_and_not_waited_for)
{
	NOT_WITH("roctracer", "HIP waits for space in roctracer's buffers and drops nothing");
	int session = start();
	for (int i = 0; i < 5; i++)
		fake.launch(&(struct fake_launch){.call = CUPTI_CALL_LAUNCH_KERNEL, .name = "k"});
	launch_ns("k", 5);
	fake.drop(5);
	uint64_t begin_ns = clock_monotonic_ns();
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_LT(clock_monotonic_ns() - begin_ns, 4000000000);
	CHECK_U64(rec_counter(session, "lost: record dropped by the vendor library"), 5);
	CHECK_U64(rec_counter(session, "lost: kernel record never received"), 0);
	rec_finalize(session, "none");
}

TEST(records_of_an_unknown_kind_are_passed_over)
{
	struct {
		uint32_t kind;
		uint8_t rest[80];
	} other = {.kind = 46};
	int session = start();

	launch_ns("k", 5);
	fake.record(&other, sizeof(other)); /* CUPTI: its kind is not enabled, nothing comes */
	launch_ns("k", 5);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "kernels"), 2);
	rec_finalize(session, "none");
}

/* ------------------------------------------------------------------ devices and contexts */

TEST(equal_streams_of_two_devices_are_kept_apart)
{
	uint64_t counts[2] = {0};

	start();
	for (uint32_t i = 0; i < 30; i++)
		fake.launch(&(struct fake_launch){.call = CUPTI_CALL_LAUNCH_KERNEL,
						  .name = "k",
						  .device = i % 3 == 0,
						  .stream = 7,
						  .context = &counts[i % 3 == 0],
						  .records = 1,
						  .start_ns = 1,
						  .end_ns = 3});
	struct profile *profile = finish();
	for (uint32_t k = profile->nodes[rec_node(profile, "k")].first_kernel; k;
	     k = profile->kernels[k].next)
		counts[profile->devices[profile->kernels[k].device].id] = profile->kernels[k].count;
	CHECK_U64(counts[0], 20);
	CHECK_U64(counts[1], 10);
}

#define CONTEXTS 300

static void launch_in(void *context)
{
	fake.launch(&(struct fake_launch){.call = CUPTI_CALL_LAUNCH_KERNEL,
					  .name = "k",
					  .context = context,
					  .records = 1,
					  .start_ns = 1,
					  .end_ns = 3});
}

TEST(a_flush_waits_for_every_context_that_ran_something)
{
	static char contexts[CONTEXTS][64];
	int session = start();

	ONLY_CUDA("HIP has one context per device");
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < CONTEXTS; i++)
			launch_in(contexts[i]);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_EQ(fake.synchronized_contexts(), CONTEXTS);
	CHECK_EQ(fake.synchronized(), CONTEXTS);
	CHECK_EQ(fake.pushed(), 0);
	rec_finalize(session, "none");
}

TEST(a_context_that_was_destroyed_is_not_waited_for_and_its_kernels_count)
{
	static char contexts[3][64];
	int session = start();

	for (int round = 0; round < 2000; round++) {
		launch_in(contexts[round % 2]);
		fake.context_destroy(contexts[round % 2]);
	}
	launch_in(contexts[2]);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_EQ(fake.synchronized(), 1);
	CHECK_U64(rec_counter(session, "kernels"), 2001);
	rec_finalize(session, "none");
}

/* ------------------------------------------------------------------ callbacks and threads */

static _Atomic bool was_hooked;

/* A callback that asks for the profile, as Python code called from one may do. */
static void flush_inside(void)
{
	char *bytes;
	size_t length;

	if (atomic_exchange(&was_hooked, true))
		return;
	if (proton_data_get(0, 0, NULL, &bytes, &length, NULL) == PROTON_OK)
		proton_free(bytes);
}

TEST(a_flush_during_a_callback_returns)
{
	int session = start();

	launch_ns("before", 5);
	fake.set_hook(flush_inside);
	launch_ns("k", 5);
	CHECK(was_hooked);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "kernels"), 2);
	rec_finalize(session, "none");
}

static void wait_inside(void)
{
	atomic_store(&was_hooked, true);
	usleep(30000);
}

static void *launch_once(void *unused)
{
	(void)unused;
	launch_ns("k", 5);
	return NULL;
}

TEST(a_session_may_end_while_a_callback_runs)
{
	pthread_t thread;

	start();
	fake.set_hook(wait_inside);
	CHECK_EQ(pthread_create(&thread, NULL, launch_once, NULL), 0);
	while (!atomic_load(&was_hooked))
		usleep(100);
	rec_finalize(PROTON_ALL_SESSIONS, "none"); /* the callback continues after it */
	CHECK_EQ(pthread_join(thread, NULL), 0);
	fake.set_hook(NULL);
	start();
	launch_ns("k", 5);
	finish();
	CHECK(fake.is_idle());
}

#define LAUNCHERS 64
#define STARTS (TAP_IS_SANITIZED ? 8 : 100)
/* Six threads launch in each millisecond; with ThreadSanitizer fewer, or 64 would never sleep. */
#define LAUNCHES (TAP_IS_SANITIZED ? 3 : 20)
#define PAUSE_US (TAP_IS_SANITIZED ? 50000 : 10000)

static _Atomic bool is_over;

static void *launch_until_over(void *data)
{
	char name[16];

	snprintf(name, sizeof(name), "t%d", (int)(intptr_t)data);
	while (!atomic_load(&is_over)) {
		uint64_t token = proton_scope_enter(name);
		uint32_t graph, exec;

		for (int i = 0; i < LAUNCHES; i++)
			launch_ns("k", 5);
		graph = fake.graph_create();
		fake.call(CUPTI_CALL_BEGIN_CAPTURE_V2, 0);
		fake.graph_capture_kernel(graph, "node");
		fake.call(CUPTI_CALL_END_CAPTURE, 0);
		exec = fake.graph_instantiate(graph);
		fake.graph_launch(exec, "node", true);
		fake.graph_destroy(graph);
		fake.graph_exec_destroy(exec);
		proton_scope_exit(token, NULL);
		usleep(PAUSE_US);
	}
	return NULL;
}

TEST(sessions_start_and_stop_while_64_threads_launch)
{
	pthread_t threads[LAUNCHERS];

	rec_begin_saying();
	load_fake();
	for (int i = 0; i < LAUNCHERS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, launch_until_over, (void *)(intptr_t)i),
			 0);
	for (int i = 0; i < STARTS; i++) {
		start();
		usleep(1000);
		rec_finalize(PROTON_ALL_SESSIONS, "none");
		/* Calls have 20 ms to end. On a busy machine that is too short, and reported. */
		CHECK(!tests_cuda() || fake.is_silent() ||
		      rec_printed("CUPTI's kernel records stay on"));
	}
	atomic_store(&is_over, true);
	for (int i = 0; i < LAUNCHERS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	start();
	launch_ns("last", 5);
	EXPECT(finish(), {"last", 1});
	CHECK_EQ(captured_nodes_count(), 0);
	CHECK_EQ(fake.buffers_out(), 0);
}
