/* roctracer backend: memory copies and memsets, and their place in traces. */
#include "unit/amd/roctracer_session.h"

#include "unit/trace_events.h"

#include <time.h>

static struct fake_hip_launch copy(const char *call, uint32_t kind, size_t bytes)
{
	struct fake_hip_launch launch = kernel(NULL, 10);

	launch.call = call;
	launch.kind = kind;
	launch.bytes = bytes;
	return launch;
}

static uint64_t boottime_ns(void)
{
	struct timespec now = {0};

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
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
		fake.launch(&copies[i]);
}

TEST(copies_and_fills_are_recorded_on_request)
{
	struct profile *profile;
	uint64_t token;
	int session =
		start_options((struct proton_session_options){.flags = PROTON_SESSION_MEMORY});

	token = proton_scope_enter("scope");
	copy_all();
	proton_scope_exit(token, NULL);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "memory operations"), 5);
	proton_activate(session, NULL);
	profile = finish();
	CHECK_U64(rec_count(profile, "scope/Memcpy HtoD (Unknown -> Device)"), 1);
	CHECK_U64(rec_count(profile, "scope/Memcpy DtoH (Device -> Unknown)"), 1);
	CHECK_U64(rec_count(profile, "scope/Memcpy DtoD (Device -> Device)"), 2);
	CHECK_U64(rec_count(profile, "scope/Memset (Device)"), 1);
	CHECK_U64(rec_value(profile, "scope/Memcpy DtoD (Device -> Device)", "memory_bytes")
			  ->as.int64,
		  350);
	profile_free(profile);
	CHECK(fake.is_idle());
}

TEST(copies_are_not_recorded_without_a_request)
{
	struct profile *profile;

	start();
	copy_all();
	launch_ns("k", 5);
	profile = finish();
	CHECK_U64(profile->kernel_count, 2); /* the first entry is none */
	profile_free(profile);
}

TEST(copies_that_hip_makes_by_itself_are_passed_over)
{
	struct fake_hip_launch own = copy("hipMemcpy", ROCTRACER_COMMAND_HTOD, 100);
	int session =
		start_options((struct proton_session_options){.flags = PROTON_SESSION_MEMORY});

	own.is_unseen = true;
	fake.launch(&own);
	launch_ns("k", 5);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "memory operations"), 0);
	CHECK_U64(rec_counter(session, "lost: memory record without a known call"), 0);
	rec_finalize(session, "none");
}

TEST(records_of_memory_end_with_the_session_that_asked_for_them)
{
	struct proton_error err = {0};
	int with;

	start();
	with = start_with((struct proton_session_options){.name = rec_path("b"),
							  .flags = PROTON_SESSION_MEMORY},
			  &err);
	CHECK_LE(0, with);
	copy_all();
	rec_finalize(with, "proton");
	copy_all();
	launch_ns("k", 5);
	profile_free(finish());
	CHECK(fake.is_idle());
}

/* ------------------------------------------------------------------ traces */

/* The fake's clock is an hour ahead of the recorder's. */
static void check_times(bool has_clock)
{
	struct fake_hip_launch launch = kernel("mm", 0);
	const struct row_event *event;
	const struct row_event *call;
	struct profile *profile;
	uint64_t number;

	start_options((struct proton_session_options){.data = "trace"});
	launch.start_ns = has_clock ? fake.now() : boottime_ns();
	launch.end_ns = launch.start_ns + 500;
	launch.queue = 7;
	launch.config = (struct launch_config){.grid = {4, 2, 1}, .block = {128, 1, 1}};
	number = fake.launch(&launch);
	profile = finish();
	event = need_event(profile, EVENT_KERNEL, "mm");
	call = need_event(profile, EVENT_LAUNCH, "");
	CHECK_EQ(event->link, call - profile->trace->events);
	CHECK_EQ(call->detail, number);
	CHECK_U64(event->end_ns - event->start_ns, 500);
	/* Within a second of its launch, not an hour. */
	CHECK_LT(event->start_ns, call->start_ns + 1000000000);
	CHECK_LT(call->start_ns, event->start_ns + 1000000000);
	CHECK_EQ(profile->trace->lanes[event->lane].kind, LANE_STREAM);
	CHECK_EQ(profile->trace->lanes[event->lane].id, 7);
	CHECK_EQ(profile->trace->launches[event->detail].config.grid[1], 2);
	profile_free(profile);
}

TEST(a_trace_has_launches_and_kernels_on_one_time_axis)
{
	check_times(true);
}

TEST(without_a_clock_the_times_are_those_of_the_machine_since_it_started)
{
	load_fake();
	fake.stop_clock(true);
	check_times(false);
}
