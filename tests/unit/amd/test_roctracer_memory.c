/* Backend "roctracer": memory copies and memsets that CUDA does not have. */
#include "unit/amd/roctracer_session.h"

static struct fake_hip_launch copy(const char *call, uint32_t kind, size_t bytes)
{
	struct fake_hip_launch launch = kernel(NULL, 10);

	launch.call = call;
	launch.kind = kind;
	launch.bytes = bytes;
	return launch;
}

static void copy_all(void)
{
	struct fake_hip_launch copies[] = {
		copy("hipMemcpyHtoDAsync", ROCTRACER_COMMAND_HTOD, 100),
		copy("hipMemcpyDtoH", ROCTRACER_COMMAND_DTOH, 200),
		copy("hipMemcpyAsync", ROCTRACER_COMMAND_DTOD, 300),
		copy("hipMemcpy2DAsync", ROCTRACER_COMMAND_DTOD_RECT, 50),
		copy("hipMemset", ROCTRACER_COMMAND_FILL, 400),
	};

	for (size_t i = 0; i < sizeof(copies) / sizeof(copies[0]); i++)
		tracer.hip_call(&copies[i]);
}

TEST(copies_and_fills_are_recorded_on_request)
{
	int session =
		start_options((struct proton_session_options){.flags = PROTON_SESSION_MEMORY});
	uint64_t token = proton_scope_enter("scope");

	copy_all();
	proton_scope_exit(token, NULL);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "memory operations"), 5);
	proton_activate(session, NULL);
	struct profile *profile = finish();
	CHECK_U64(rec_value(profile, "scope/Memcpy DtoD (Device -> Device)", "memory_bytes")
			  ->as.int64,
		  350);
	EXPECT(profile, {"scope/Memcpy HtoD (Unknown -> Device)", 1},
	       {"scope/Memcpy DtoH (Device -> Unknown)", 1},
	       {"scope/Memcpy DtoD (Device -> Device)", 2}, {"scope/Memset (Device)", 1});
	CHECK(fake.is_idle());
}

TEST(copies_are_not_recorded_without_a_request)
{
	start();
	copy_all();
	launch_ns("k", 5);
	struct profile *profile = finish();
	CHECK_U64(profile->kernel_count, 2); /* the first entry is none */
}

TEST(copies_that_hip_makes_by_itself_are_passed_over)
{
	struct fake_hip_launch own = copy("hipMemcpy", ROCTRACER_COMMAND_HTOD, 100);
	int session =
		start_options((struct proton_session_options){.flags = PROTON_SESSION_MEMORY});

	own.is_unseen = true;
	tracer.hip_call(&own);
	launch_ns("k", 5);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "memory operations"), 0);
	CHECK_U64(rec_counter(session, "lost: memory record without a known call"), 0);
	rec_finalize(session, "none");
}
