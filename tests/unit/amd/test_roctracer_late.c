/* roctracer backend: HIP is loaded late, the process forks, libraries are missing or do not fit. */
#include "unit/amd/roctracer_session.h"

/* ------------------------------------------------------------------ HIP comes later */

static int start_without_hip(uint32_t flags)
{
	struct proton_error err = {0};

	kfd_make_machine();
	find_fake_of_amd();
	int session = start_with((struct proton_session_options){.flags = flags}, &err);
	if (session < 0)
		FAIL("start: %s", err.text);
	return session;
}

/* The backend has found HIP: it looks every few milliseconds. */
static void wait_for_backend(void)
{
	for (int i = 0; i < 20000 && !fake.calls("roctracer_enable_op_activity_expl"); i++)
		usleep(500);
	CHECK_LT(0, fake.calls("roctracer_enable_op_activity_expl"));
}

TEST(a_program_that_loads_hip_after_the_start_is_recorded)
{
	start_without_hip(0);
	CHECK_U64(fake.calls("roctracer_enable_op_callback"), 0);
	load_hip();
	wait_for_backend();
	launch_ns("k", 5); /* the first callback may still be being enabled */
	launch_ns("k", 5);
	struct profile *profile = finish();
	CHECK(!tracer.is_deaf());
	CHECK(rec_count(profile, "k") >= 1);
	CHECK(fake.is_idle());
}

TEST(a_flush_begins_recording_if_hip_was_loaded_since_the_start)
{
	int session = start_without_hip(0);

	load_hip();
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	proton_activate(session, NULL);
	launch_ns("k", 5);
	EXPECT(finish(), {"k", 1});
}

TEST(a_program_that_never_loads_hip_ends_as_without_proton)
{
	start_without_hip(0);
	rec_kernel("on_the_cpu");
	finish();
	CHECK_U64(fake.calls("roctracer_enable_op_callback"), 0);
	CHECK(!tracer.is_deaf());
}

TEST(memory_records_that_were_asked_for_before_hip_was_loaded)
{
	struct fake_hip_launch fill = kernel(NULL, 5);
	int session = start_without_hip(PROTON_SESSION_MEMORY);

	load_hip();
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	proton_activate(session, NULL);
	fill.call = "hipMemsetAsync";
	fill.kind = ROCTRACER_COMMAND_FILL;
	tracer.hip_call(&fill);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "memory operations"), 1);
	rec_finalize(session, "none");
}

TEST(a_failure_after_hip_was_loaded_is_the_error_of_the_next_flush)
{
	int session = start_without_hip(0);
	struct proton_error err = {0};

	fake.fail("roctracer_open_pool_expl", 1, FAKE_ALWAYS, ROCTRACER_E_OUT_OF_MEMORY);
	load_hip();
	CHECK_EQ(proton_deactivate(session, true, &err), PROTON_E_IO);
	CHECK_HAS(err.text, "no GPU activity was recorded");
	CHECK_HAS(err.text, "roctracer_open_pool_expl failed: out of memory (-6)");
	CHECK(fake.is_idle());
	CHECK_EQ(proton_finalize(session, "none", &err), PROTON_E_IO);
}

/* ------------------------------------------------------------------ fork */

/* Two buffers would be full after 2000 records, and HIP would then wait forever. */
static void launch_many(void)
{
	for (int i = 0; i < 5000; i++)
		launch_ns("in_the_child", 5);
	CHECK(fake.is_idle());
}

TEST(a_child_without_a_session_launches_as_without_proton)
{
	setenv("TRITON_PROFILE_BUFFER_SIZE", "65536", 1);
	start();
	launch_ns("k", 5);
	rec_in_child(launch_many, "launch_many");
	launch_ns("k", 5);
	EXPECT(finish(), {"k", 2});
}

static void record_in_child(void)
{
	start();
	launch_ns("k", 5);
	EXPECT(finish(), {"k", 1});
	CHECK(fake.is_idle());
}

TEST(a_child_records_in_its_own_session)
{
	skip_if_emulated("the emulator starts no thread in a forked child");
#ifdef __SANITIZE_THREAD__
	SKIP("ThreadSanitizer ends a child that starts a thread with the id of one of the parent");
#endif
	start();
	launch_ns("k", 5);
	rec_in_child(record_in_child, "record_in_child");
	launch_ns("k", 5);
	EXPECT(finish(), {"k", 2});
}

TEST(a_child_records_after_the_parent_has_ended_its_session)
{
	skip_if_emulated("the emulator starts no thread in a forked child");
	start();
	launch_ns("k", 5);
	finish();
	rec_in_child(record_in_child, "record_in_child");
	rec_in_child(launch_many, "launch_many");
}

/* ------------------------------------------------------------------ libraries */

static void expect_refused(const char *mode, int status, const char *text)
{
	struct proton_error err = {0};

	CHECK_LT(start_with((struct proton_session_options){.mode = mode}, &err), 0);
	CHECK_EQ(err.status, status);
	CHECK_HAS(err.text, text);
	CHECK(!proton_is_profiling());
	CHECK(fake.is_idle());
}

TEST(a_missing_library_is_named_with_its_remedy)
{
	load_fake();
	setenv("PROTON_ROCTRACER_PATH", "/nonexistent/libroctracer64.so", 1);
	expect_refused(NULL, PROTON_E_NOLIB, "libroctracer64");
}

TEST(another_major_version_is_refused)
{
	load_fake();
	setenv("FAKE_ROCTRACER_MAJOR", "5", 1);
	expect_refused(NULL, PROTON_E_VERSION,
		       "is roctracer 5.1; version 4.1 or a later 4.x is required");
	setenv("FAKE_ROCTRACER_MAJOR", "4", 1);
	setenv("FAKE_ROCTRACER_MINOR", "0", 1);
	expect_refused(NULL, PROTON_E_VERSION, "is roctracer 4.0;");
	setenv("FAKE_ROCTRACER_MINOR", "2", 1);
	start();
	launch_ns("k", 5);
	finish();
}

/* roctracer would abort the program. */
TEST(a_hip_without_support_for_roctracer_is_refused)
{
	load_fake();
	setenv("PROTON_HIP_PATH",
	       rec_without(getenv("PROTON_HIP_PATH"), "hipRegisterTracerCallback"), 1);
	load_hip();
	expect_refused(NULL, PROTON_E_UNSUPPORTED,
		       "was built without support for roctracer (it does not provide "
		       "hipRegisterTracerCallback); use the HIP library of ROCm 6");
}

TEST(modes_of_other_backends_are_refused)
{
	load_fake();
	expect_refused("pcsampling", PROTON_E_INVALID, "roctracer: unsupported mode: pcsampling");
	expect_refused("default:x=1", PROTON_E_INVALID, "unsupported mode");
}
