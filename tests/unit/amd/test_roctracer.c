/* Backend "roctracer": its differences from CUDA; test_cuda.c runs over the same fakes. */
#include "unit/amd/roctracer_session.h"

#include "base/array.h"
#include "unit/recorded_trace.h"

static const struct profile_kernel *kernel_at(const struct profile *profile, const char *path)
{
	return &profile->kernels[profile->nodes[rec_node(profile, path)].first_kernel];
}

TEST(every_launch_call_counts_once)
{
	static const char *const calls[] = {
#define L(name, arguments, records) #name,
#define G(name)
#define D(name)
#define M(name, records, stream, unit)
#include "backend/amd/hip_calls.def"
	};

	start();
	for (size_t i = 0; i < ARRAY_LENGTH(calls); i++) {
		struct fake_hip_launch launch = kernel("k", 5);

		launch.call = calls[i];
		tracer.hip_call(&launch);
	}
	EXPECT(finish(), {"k", ARRAY_LENGTH(calls)});
}

TEST(a_name_loses_the_suffix_of_its_descriptor)
{
	start();
	launch_ns("_Z3addPfS_.kd", 7);
	launch_ns("_Z3addPfS_", 7);
	launch_ns(".kd", 7);
	launch_ns(NULL, 7);
	EXPECT(finish(), {"_Z3addPfS_", 2}, {".kd", 1}, {"(unnamed kernel)", 1});
}

TEST(every_launch_call_gives_its_configuration)
{
	static const char *const calls[] = {
		"hipModuleLaunchKernel",
		"hipLaunchKernel",
		"hipExtLaunchKernel",
		"hipExtModuleLaunchKernel",
		"hipHccModuleLaunchKernel",
		"hipLaunchCooperativeKernel",
		"hipModuleLaunchCooperativeKernel",
		"hipDrvLaunchKernelEx",
		"hipLaunchKernelExC",
	};

	start();
	for (size_t i = 0; i < ARRAY_LENGTH(calls); i++) {
		struct fake_hip_launch launch = kernel(calls[i], 5);

		launch.call = calls[i];
		launch.config = (struct launch_config){
			.grid = {(uint32_t)i + 10, 2, 3},
			.block = {64, 4, 1},
			.dynamic_shared_bytes = 512,
		};
		tracer.hip_call(&launch);
	}
	struct profile *profile = finish();
	for (size_t i = 0; i < ARRAY_LENGTH(calls); i++) {
		uint32_t at = kernel_at(profile, calls[i])->first_config;
		const struct launch_config *config = &profile->configs[at].config;

		CHECK_U64(config->grid[0], i + 10);
		CHECK_U64(config->grid[1], 2);
		CHECK_U64(config->grid[2], 3);
		CHECK_U64(config->block[0], 64);
		CHECK_U64(config->block[1], 4);
		CHECK_U64(config->dynamic_shared_bytes, 512);
	}
}

TEST(two_devices_are_kept_apart_by_their_nodes)
{
	const struct profile_kernel *first, *second;

	start();
	for (int node = NODE_FIRST; node <= NODE_SECOND; node++) {
		struct fake_hip_launch launch = kernel("k", (uint64_t)node);

		launch.node = node;
		tracer.hip_call(&launch);
	}
	struct profile *profile = finish();
	CHECK_U64(rec_count(profile, "k"), 2);
	first = kernel_at(profile, "k");
	second = &profile->kernels[first->next];
	CHECK_NE(first->next, 0);
	CHECK_U64(profile->devices[first->device].id, first->total_ns - NODE_FIRST);
	CHECK_U64(profile->devices[second->device].id, second->total_ns - NODE_FIRST);
}

static int (*hip_device_setter(void))(int)
{
	int (*set_device)(int device);

	fake_find(&set_device, fake_open("PROTON_HIP_PATH"), "hipSetDevice");
	return set_device;
}

TEST(a_flush_waits_for_every_device_of_a_thread)
{
	int session = start();
	int (*set_device)(int) = hip_device_setter();

	for (int i = 0; i < 100; i++)
		launch_ns("k", 5);
	CHECK_EQ(set_device(1), 0);
	launch_ns("k", 5);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(fake.synchronized_contexts(), 2);
	finish();
}

/* Each session notes it again. */
TEST(launches_rarely_ask_hip_for_their_device)
{
	start();
	for (int round = 0; round < 2; round++) {
		uint32_t asked;

		for (int i = 0; i < 2000; i++)
			launch_ns("k", 5);
		asked = fake.cuda_calls("hipGetDevice");
		for (int i = 0; i < 1023; i++)
			launch_ns("k", 5);
		CHECK_LT(fake.cuda_calls("hipGetDevice") - asked, 2);
		finish();
		CHECK_U64(fake.synchronized_contexts(), 1);
		if (!round)
			start();
	}
}

TEST(a_launch_that_failed_is_not_waited_for)
{
	struct fake_hip_launch launch = kernel("failed", 5);
	int session = start();

	launch.has_failed = true;
	tracer.hip_call(&launch);
	/* The error stays until the program asks for it: whether these fail is unknown. */
	launch_ns("after", 5);
	tracer.hip_call(&launch);
	fake.hip_set_error(0);
	launch_ns("later", 5);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "lost: kernel record never received"), 0);
	EXPECT(finish(), {"failed", 0}, {"after", 1}, {"later", 1});
}

TEST(an_error_that_the_program_has_not_looked_for_stays)
{
	setenv("FAKE_HIP_6", "1", 1);
	start();
	fake.hip_set_error(98);
	launch_ns("k", 5);
	CHECK_EQ(fake.hip_last_error(), 98);
	fake.hip_set_error(0);
	finish();
}

TEST(missing_records_are_counted_and_reported_once)
{
	int session = start();

	rec_begin_saying();
	for (int i = 0; i < 5; i++)
		launch_ns("k", 5);
	tracer.lose(2);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "lost: kernel record never received"), 2);
	proton_activate(session, NULL);
	CHECK_EQ(rec_printed("no roctracer records were received for 2 kernels"), 1);
	EXPECT(finish(), {"k", 3});
}

TEST(launches_without_any_record_are_an_error_with_its_remedy)
{
	struct proton_error err = {0};

	start();
	launch_ns("k", 5);
	launch_ns("k", 5);
	tracer.lose(2);
	CHECK_EQ(proton_finalize_owned(NULL, &err), PROTON_E_IO);
	CHECK_HAS(err.text, "no activity records were received for 2 kernel launches");
	CHECK_HAS(err.text, "start the session after HIP was initialized");
}

TEST(another_tool_that_takes_the_records_is_reported)
{
	int session = start();
	struct proton_error err = {0};

	rec_begin_saying();
	launch_ns("k", 5);
	CHECK_EQ(proton_deactivate(session, true, &err), PROTON_OK);
	proton_activate(session, NULL);
	launch_ns("stolen", 5);
	tracer.steal();
	CHECK_EQ(proton_deactivate(session, true, &err), PROTON_OK);
	CHECK_U64(rec_counter(session, "lost: kernel record never received"), 1);
	CHECK_EQ(rec_printed("another tool in this process"), 1);
	rec_finalize(session, "none");
}

/* 64 KiB hold fewer than a thousand records: the names of a buffer are gone with the next one. */
TEST(many_buffers_keep_every_name)
{
	char name[64];

	setenv("TRITON_PROFILE_BUFFER_SIZE", "65536", 1);
	start();
	CHECK_U64(tracer.buffer_bytes(), 65536);
	for (int i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "kernel_with_a_name_%d", i % 100);
		launch_ns(name, 5);
	}
	struct profile *profile = finish();
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "kernel_with_a_name_%d", i);
		CHECK_U64(rec_count(profile, name), 100);
	}
}

static uint64_t read_clock(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The fake's clock is an hour ahead. If it cannot be read, times are those since the boot. */
TEST(times_of_records_become_those_of_the_process)
{
	for (int is_stopped = 0; is_stopped <= 1; is_stopped++) {
		struct fake_hip_launch launch = kernel("k", 5);
		uint64_t before_ns = read_clock(CLOCK_REALTIME);
		const struct row_event *event;
		struct profile *profile;

		start_options((struct proton_session_options){.data = "trace"});
		tracer.stop_clock(is_stopped);
		launch.start_ns = is_stopped ? read_clock(CLOCK_BOOTTIME) : tracer.now();
		launch.end_ns = launch.start_ns + 5;
		tracer.hip_call(&launch);
		profile = finish();
		tracer.stop_clock(false);
		event = need_event(profile, EVENT_KERNEL, "k");
		CHECK_LT(before_ns - 1000000000, event->start_ns);
		CHECK_LT(event->start_ns, read_clock(CLOCK_REALTIME) + 1000000000);
		CHECK_U64(event->end_ns - event->start_ns, 5);
	}
}

TEST(a_new_buffer_size_is_used_by_the_next_session)
{
	setenv("TRITON_PROFILE_BUFFER_SIZE", "1", 1);
	start();
	CHECK_U64(tracer.buffer_bytes(), 65536);
	launch_ns("k", 5);
	finish();
	unsetenv("TRITON_PROFILE_BUFFER_SIZE");
	start();
	CHECK_U64(tracer.buffer_bytes(), 4u << 20);
	launch_ns("k", 5);
	finish();
	CHECK_U64(fake.calls("roctracer_open_pool_expl"), 2);
}

TEST(sessions_start_and_stop_any_number_of_times)
{
	for (int i = 0; i < 20; i++) {
		struct profile *profile;

		start();
		launch_ns("k", 5);
		profile = finish();
		CHECK_U64(rec_count(profile, "k"), 1);
		CHECK(fake.is_idle());
		launch_ns("between", 5);
	}
	CHECK_U64(fake.calls("roctracer_open_pool_expl"), 1);
}

/* ------------------------------------------------------------------ ranges */

TEST(roctx_ranges_are_scopes)
{
	load_fake();
	load_roctx();
	start();
	CHECK_EQ(roctx.push("outer"), 0);
	CHECK_EQ(roctx.push("inner"), 1);
	launch_ns("k", 5);
	CHECK_EQ(roctx.pop(), 1);
	launch_ns("k", 5);
	CHECK_EQ(roctx.pop(), 0);
	roctx.pop(); /* without a push */
	launch_ns("k", 5);
	EXPECT(finish(), {"outer/inner/k", 1}, {"outer/k", 1}, {"k", 1});
	CHECK(fake.is_idle());
}

/* roctracer would never see a libroctx64 that is loaded after its first call for ranges. */
TEST(roctx_is_loaded_for_a_program_that_loads_it_later)
{
	start();
	load_roctx();
	roctx.push("range");
	launch_ns("k", 5);
	roctx.pop();
	EXPECT(finish(), {"range/k", 1});
}

TEST(roctx_ranges_can_be_disabled)
{
	proton_nvtx_enable(false);
	start();
	load_roctx();
	roctx.push("range");
	launch_ns("k", 5);
	roctx.pop();
	EXPECT(finish(), {"k", 1});
}

TEST(a_session_works_without_roctx)
{
	setenv("PROTON_ROCTX_PATH", rec_path("missing.so"), 1);
	start();
	launch_ns("k", 5);
	EXPECT(finish(), {"k", 1});
}
