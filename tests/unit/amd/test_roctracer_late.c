/*
 * roctracer backend: when HIP is loaded after the session has started, when the process forks, and
 * when libraries are missing or do not fit.
 */
#include "unit/amd/roctracer_session.h"

/* ------------------------------------------------------------------ HIP comes later */

static int start_without_hip(void)
{
	struct proton_error err = {0};
	int session;

	kfd_make_machine();
	find_roctracer();
	session = start_with((struct proton_session_options){0}, &err);
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
	struct profile *profile;

	start_without_hip();
	CHECK_U64(fake.calls("roctracer_enable_op_callback"), 0);
	load_hip();
	wait_for_backend();
	launch_ns("k", 5); /* the first callback may still be being enabled */
	launch_ns("k", 5);
	profile = finish();
	CHECK(!tracer.is_deaf());
	CHECK(rec_count(profile, "k") >= 1);
	profile_free(profile);
	CHECK(fake.is_idle());
}

TEST(a_flush_begins_recording_if_hip_was_loaded_since_the_start)
{
	int session = start_without_hip();
	struct profile *profile;

	load_hip();
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	proton_activate(session, NULL);
	launch_ns("k", 5);
	profile = finish();
	CHECK_U64(rec_count(profile, "k"), 1);
	profile_free(profile);
}

TEST(a_program_that_never_loads_hip_ends_as_without_proton)
{
	start_without_hip();
	rec_kernel("on_the_cpu");
	profile_free(finish());
	CHECK_U64(fake.calls("roctracer_enable_op_callback"), 0);
	CHECK(!tracer.is_deaf());
}

TEST(memory_records_that_were_asked_for_before_hip_was_loaded)
{
	struct fake_hip_launch fill = kernel(NULL, 5);
	struct proton_error err = {0};
	int session;

	kfd_make_machine();
	find_roctracer();
	session = start_with((struct proton_session_options){.flags = PROTON_SESSION_MEMORY}, &err);
	CHECK_LE(0, session);
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
	int session = start_without_hip();
	struct proton_error err = {0};

	fake.fail("roctracer_open_pool_expl", 1, FAKE_ALWAYS, ROCTRACER_E_OUT_OF_MEMORY);
	load_hip();
	CHECK_EQ(proton_deactivate(session, true, &err), PROTON_E_IO);
	CHECK_HAS(err.text, "no GPU activity was recorded");
	CHECK_HAS(err.text, "roctracer_open_pool_expl failed: out of memory (-6)");
	CHECK(fake.is_idle());
	rec_finalize(session, "none");
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
	struct profile *profile;

	setenv("TRITON_PROFILE_BUFFER_SIZE", "65536", 1);
	start_tracer();
	launch_ns("k", 5);
	rec_in_child(launch_many, "launch_many");
	launch_ns("k", 5);
	profile = finish();
	CHECK_U64(rec_count(profile, "k"), 2);
	profile_free(profile);
}

static void record_in_child(void)
{
	struct profile *profile;

	start_tracer();
	launch_ns("k", 5);
	profile = finish();
	CHECK_U64(rec_count(profile, "k"), 1);
	profile_free(profile);
	CHECK(fake.is_idle());
}

TEST(a_child_records_in_its_own_session)
{
	struct profile *profile;

	skip_if_emulated("the emulator starts no thread in a forked child");
#ifdef __SANITIZE_THREAD__
	SKIP("ThreadSanitizer ends a child that starts a thread with the id of one of the parent");
#endif
	start_tracer();
	launch_ns("k", 5);
	rec_in_child(record_in_child, "record_in_child");
	launch_ns("k", 5);
	profile = finish();
	CHECK_U64(rec_count(profile, "k"), 2);
	profile_free(profile);
}

TEST(a_child_records_after_the_parent_has_ended_its_session)
{
	skip_if_emulated("the emulator starts no thread in a forked child");
	start_tracer();
	launch_ns("k", 5);
	profile_free(finish());
	rec_in_child(record_in_child, "record_in_child");
	rec_in_child(launch_many, "launch_many");
}

/* ------------------------------------------------------------------ libraries */

TEST(a_missing_library_is_named_with_its_remedy)
{
	struct proton_error err = {0};

	load_tracer();
	setenv("PROTON_ROCTRACER_PATH", "/nonexistent/libroctracer64.so", 1);
	CHECK_LT(start_with((struct proton_session_options){0}, &err), 0);
	CHECK_EQ(err.status, PROTON_E_NOLIB);
	CHECK_HAS(err.text, "libroctracer64");
	CHECK(!proton_is_profiling());
}

TEST(another_major_version_is_refused)
{
	struct proton_error err = {0};

	load_tracer();
	setenv("FAKE_ROCTRACER_MAJOR", "5", 1);
	CHECK_LT(start_with((struct proton_session_options){0}, &err), 0);
	CHECK_EQ(err.status, PROTON_E_VERSION);
	CHECK_HAS(err.text, "is roctracer 5.1; version 4.1 or a later 4.x is required");
	setenv("FAKE_ROCTRACER_MAJOR", "4", 1);
	setenv("FAKE_ROCTRACER_MINOR", "0", 1);
	CHECK_LT(start_with((struct proton_session_options){0}, &err), 0);
	CHECK_HAS(err.text, "is roctracer 4.0;");
	setenv("FAKE_ROCTRACER_MINOR", "2", 1);
	profile_free((start_tracer(), launch_ns("k", 5), finish()));
}

/* roctracer would abort the program. */
TEST(a_hip_without_support_for_roctracer_is_refused)
{
	struct proton_error err = {0};

	load_tracer();
	setenv("PROTON_HIP_PATH",
	       rec_without(getenv("PROTON_HIP_PATH"), "hipRegisterTracerCallback"), 1);
	load_hip();
	CHECK_LT(start_with((struct proton_session_options){0}, &err), 0);
	CHECK_EQ(err.status, PROTON_E_UNSUPPORTED);
	CHECK_HAS(err.text, "was built without support for roctracer");
	CHECK_HAS(err.text, "use the HIP library of ROCm 6");
	CHECK(fake.is_idle());
}

TEST(modes_of_other_backends_are_refused)
{
	struct proton_error err = {0};

	load_tracer();
	CHECK_LT(start_with((struct proton_session_options){.mode = "pcsampling"}, &err), 0);
	CHECK_EQ(err.status, PROTON_E_INVALID);
	CHECK_HAS(err.text, "roctracer: unsupported mode: pcsampling");
	CHECK_LT(start_with((struct proton_session_options){.mode = "default:x=1"}, &err), 0);
	CHECK_HAS(err.text, "unsupported mode");
}
