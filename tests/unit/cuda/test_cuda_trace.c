/* CUDA backend: traces, with the fake libcupti and libcuda (tests/fake). */
#include "unit/cuda/cuda_session.h"
#include "unit/recorded_trace.h"

#include <malloc.h>

#include "base/clock.h"

static void start_trace(void)
{
	struct proton_error err = {0};

	load_fake();
	if (trace_start_as("a", tested_backend(), "shadow", &err) < 0)
		FAIL("start: %s", err.text);
}

/* The number of the launch. */
static uint32_t launch_on(uint32_t device, uint32_t stream, uint64_t start_ns)
{
	return fake.launch(&(struct fake_launch){
		.call = CUPTI_CALL_LAUNCH_KERNEL,
		.name = "mm",
		.context = &fake,
		.device = device,
		.stream = stream,
		.records = 1,
		.start_ns = start_ns,
		.end_ns = start_ns + 500,
		.config = {.grid = {4, 2, 1}, .block = {128, 1, 1}, .registers_per_thread = 40},
	});
}

TEST(a_kernel_is_on_its_stream_and_leads_to_its_launch)
{
	const struct row_event *kernel, *launch, *scope;

	start_trace();
	uint64_t token = proton_scope_enter("step");
	uint32_t number = launch_on(0, 7, clock_monotonic_ns());
	proton_scope_exit(token, NULL);
	struct profile *profile = finish();
	kernel = need_event(profile, EVENT_KERNEL, "step/mm");
	scope = need_event(profile, EVENT_SCOPE, "step");
	launch = need_event(profile, EVENT_LAUNCH, "step");
	CHECK_EQ(kernel->link, launch - profile->trace->events);
	CHECK(!tests_cuda() || launch->detail == number);
	CHECK_EQ(launch->lane, scope->lane);
	CHECK(scope->start_ns <= launch->start_ns && launch->start_ns <= launch->end_ns &&
	      launch->end_ns <= scope->end_ns);
	CHECK_EQ(profile->trace->lanes[kernel->lane].kind, LANE_STREAM);
	CHECK_EQ(profile->trace->lanes[kernel->lane].id, tests_backend("rocprofiler") ? 1 : 7);
	const struct row_launch *config = &profile->trace->launches[kernel->detail];
	CHECK_EQ(config->config.grid[1], 2);
	CHECK_EQ(config->config.registers_per_thread, tests_backend("roctracer") ? 0 : 40);
	CHECK_U64(kernel->end_ns - kernel->start_ns, 500);
}

TEST(streams_of_different_devices_have_separate_tracks)
{
	uint32_t lanes[3];

	start_trace();
	launch_on(0, 7, 1000);
	launch_on(1, 7, 1000);
	launch_on(0, 8, 1000);
	struct profile *profile = finish();
	for (int i = 0; i < 3; i++)
		lanes[i] = profile->trace->events[find_event(profile, EVENT_KERNEL, "mm", i)].lane;
	CHECK(lanes[0] != lanes[1] && lanes[1] != lanes[2] && lanes[0] != lanes[2]);
	CHECK(profile->trace->lanes[lanes[0]].device != profile->trace->lanes[lanes[1]].device);
}

/* Three extents of launches: records are read while the session continues. */
#define CONFIGS 4000

TEST(thousands_of_launch_configurations_keep_their_values)
{
	bool is_seen[CONFIGS + 1] = {false};
	uint32_t count = 0;

	mallopt(M_PERTURB, 0xa5); /* freed memory no longer has its values */
	start_trace();
	for (uint32_t i = 1; i <= CONFIGS; i++)
		fake.launch(&(struct fake_launch){
			.call = CUPTI_CALL_LAUNCH_KERNEL,
			.name = "mm",
			.context = &fake,
			.records = 1,
			.start_ns = i,
			.end_ns = 2 * i,
			.config = {.grid = {i, 1, 1}, .registers_per_thread = i % 200},
		});
	CHECK_EQ(proton_deactivate(PROTON_ALL_SESSIONS, true, NULL), PROTON_OK);
	struct profile *profile = rec_load("a.proton");
	CHECK(!profile->is_damaged);
	for (uint32_t row = 1; row < profile->trace->event_count; row++) {
		const struct row_event *event = trace_event(profile->trace, row);
		const struct launch_config *config;

		if (!event || event->kind != EVENT_KERNEL)
			continue;
		CHECK_LT(event->detail, profile->trace->launch_count);
		config = &profile->trace->launches[event->detail].config;
		CHECK_U64(event->end_ns - event->start_ns, config->grid[0]);
		/* In HIP they are the same in all launches of a kernel. */
		CHECK(!tests_cuda() || config->registers_per_thread == config->grid[0] % 200);
		CHECK(config->grid[0] <= CONFIGS && !is_seen[config->grid[0]]);
		is_seen[config->grid[0]] = true;
		count++;
	}
	CHECK_EQ(count, CONFIGS);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}

TEST(a_launch_inside_an_op_links_to_the_op_with_its_metrics)
{
	struct proton_metric flops = {
		.name = "flops", .type = PROTON_METRIC_DOUBLE, .value.float64 = 1e9};
	const struct row_event *kernel, *op;
	struct proton_context where;

	start_trace();
	proton_op_enter(proton_frame("matmul", 6), &where);
	proton_metrics_add(where, &flops, 1, NULL);
	uint32_t number = launch_on(0, 7, 1000);
	proton_op_exit();
	struct profile *profile = finish();
	CHECK_U64(count_events(profile), 2);
	kernel = need_event(profile, EVENT_KERNEL, "matmul");
	op = need_event(profile, EVENT_LAUNCH, "matmul");
	CHECK_EQ(kernel->link, op - profile->trace->events);
	CHECK_EQ(op->detail, number);
	CHECK(op->flags & EVENT_NAMED);
	CHECK(op->end_ns != 0);
	CHECK(profile->trace->samples[op->link].as.float64 == 1e9);
}

TEST(a_replay_is_one_launch_of_many_kernels)
{
	const struct row_event *kernel;
	uint32_t graph, exec, launch;
	int of_first = 0;
	int of_second = 0;

	start_trace();
	graph = fake.graph_create();
	uint64_t token = proton_scope_enter("block");
	fake.call(CUPTI_CALL_BEGIN_CAPTURE, 0);
	fake.graph_capture_kernel(graph, "flash");
	fake.graph_capture_kernel(graph, "norm");
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	proton_scope_exit(token, NULL);
	exec = fake.graph_instantiate(graph);
	token = proton_scope_enter("step");
	fake.graph_launch(exec, "raw", false);
	fake.graph_launch(exec, "raw", false);
	proton_scope_exit(token, NULL);
	struct profile *profile = finish();
	for (int i = 0; i < 4; i++) {
		uint32_t row = find_event(profile, EVENT_KERNEL, "step/<captured_at>/block/raw", i);

		CHECK(row != 0);
		kernel = &profile->trace->events[row];
		CHECK(kernel->flags & EVENT_OF_GRAPH);
		launch = kernel->link;
		CHECK_EQ(profile->trace->events[launch].kind, EVENT_LAUNCH);
		CHECK(profile->trace->events[launch].flags & EVENT_OF_GRAPH);
		of_first += launch == find_event(profile, EVENT_LAUNCH, "step", 0);
		of_second += launch == find_event(profile, EVENT_LAUNCH, "step", 1);
	}
	CHECK_EQ(of_first, 2);
	CHECK_EQ(of_second, 2);
}

TEST(a_trace_leaves_out_kernels_launched_before_its_start)
{
	int tree;

	load_fake();
	tree = start_named("tree", tested_backend(), NULL);
	fake.launch(&(struct fake_launch){.call = CUPTI_CALL_LAUNCH_KERNEL,
					  .name = "early",
					  .context = &fake,
					  .records = 1,
					  .start_ns = 1,
					  .end_ns = 2});
	start_trace();
	launch_on(0, 7, 1000);
	struct profile *profile = finish();
	CHECK_U64(count_events(profile), 2);
	CHECK(!find_event(profile, EVENT_KERNEL, "early", 0));
	(void)tree;
	profile = rec_load("tree.proton");
	CHECK(!profile->trace);
	EXPECT(profile, {"early", 1}, {"mm", 1});
}

static void check_close(uint64_t actual_ns, uint64_t expected_ns)
{
	uint64_t apart_ns = actual_ns > expected_ns ? actual_ns - expected_ns
						    : expected_ns - actual_ns;

	CHECK_LT(apart_ns, 2000000000);
}

TEST(cupti_is_given_the_clock_of_the_program)
{
	ONLY_CUDA("CUPTI alone takes the clock of the program");
	start_trace();
	if (!tests_second()) /* there it is one of several attributes */
		CHECK_EQ(fake.calls("cuptiActivityRegisterTimestampCallback"), 1);
	launch_on(0, 7, clock_monotonic_ns());
	struct profile *profile = finish();
	check_close(need_event(profile, EVENT_KERNEL, "mm")->start_ns, clock_real_ns());
}

TEST(if_the_library_keeps_its_own_clock_the_difference_is_added)
{
	load_fake();
	if (tests_cuda())
		fake.fail("cuptiActivityRegisterTimestampCallback", 1, FAKE_ALWAYS, 1);
	start_trace();
	launch_on(0, 7, tests_backend("roctracer") ? tracer.now() : clock_real_ns());
	struct profile *profile = finish();
	check_close(need_event(profile, EVENT_KERNEL, "mm")->start_ns, clock_real_ns());
}

/* CUPTI uses real time, HSA the time since the machine started. */
TEST(without_the_librarys_timestamps_a_trace_assumes_its_usual_clock)
{
	load_fake();
	if (tests_cuda())
		fake.fail("cuptiActivityRegisterTimestampCallback", 1, FAKE_ALWAYS, 1);
	if (tests_backend("roctracer"))
		tracer.stop_clock(true);
	else
		fake.fail(tests_cuda() ? "cuptiGetTimestamp" : "get_timestamp", 1, FAKE_ALWAYS, 1);
	start_trace();
	launch_on(0, 7, tests_cuda() ? clock_real_ns() : clock_read_ns(CLOCK_BOOTTIME));
	struct profile *profile = finish();
	check_close(need_event(profile, EVENT_KERNEL, "mm")->start_ns, clock_real_ns());
}
