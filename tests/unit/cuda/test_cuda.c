/* CUDA backend: launches, phases, losses and metrics, with fake libraries (tests/fake). */
#include "unit/cuda/cuda_session.h"

#include "base/clock.h"
#include "fake/gpus.h"

TEST(a_launch_is_attributed_to_the_scope_it_was_made_in)
{
	start();
	uint64_t token = proton_scope_enter("outer");
	for (int i = 1; i <= 10; i++)
		launch_ns("mm", 100);
	proton_scope_exit(token, NULL);
	launch_ns("mm", 40);
	struct profile *profile = finish();
	CHECK(fake.is_idle());
	CHECK_U64(rec_count(profile, "outer/mm"), 10);
	CHECK_U64(rec_count(profile, "mm"), 1);
	const struct profile_kernel *kernel =
		&profile->kernels[profile->nodes[rec_node(profile, "outer/mm")].first_kernel];
	CHECK_U64(kernel->total_ns, 1000);
	const struct row_device *device = &profile->devices[kernel->device];
	CHECK_STR(profile_text(profile, device->type), tests_cuda() ? "CUDA" : "HIP");
	CHECK_STR(profile_text(profile, device->arch), tests_cuda() ? "90" : "gfx942");
	CHECK_STR(profile_text(profile, device->name),
		  tests_cuda() ? "Fake GPU 0" : "Fake Instinct 0");
	CHECK_U64(device->processors, tests_cuda() ? 132 : 304);
}

TEST(every_launch_call_counts_once)
{
	static const uint32_t calls[] = {
		CUPTI_CALL_LAUNCH,
		CUPTI_CALL_LAUNCH_GRID,
		CUPTI_CALL_LAUNCH_GRID_ASYNC,
		CUPTI_CALL_LAUNCH_KERNEL,
		CUPTI_CALL_LAUNCH_KERNEL_PTSZ,
		CUPTI_CALL_LAUNCH_KERNEL_EX,
		CUPTI_CALL_LAUNCH_KERNEL_EX_PTSZ,
		CUPTI_CALL_LAUNCH_COOPERATIVE,
		CUPTI_CALL_LAUNCH_COOPERATIVE_PTSZ,
		CUPTI_CALL_LAUNCH_COOPERATIVE_MULTI_DEVICE,
	};

	start();
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		fake.launch(&(struct fake_launch){
			.call = calls[i], .name = "k", .records = 1, .start_ns = 1, .end_ns = 2});
	EXPECT(finish(), {"k", 10});
}

TEST(a_launch_inside_an_op_carries_the_ops_name)
{
	struct proton_context where;

	start();
	proton_op_enter(proton_frame("mm_64", 5), &where);
	launch_ns("raw_symbol", 7);
	proton_op_exit();
	launch_ns("raw_symbol", 7);
	EXPECT(finish(), {"mm_64", 1}, {"raw_symbol", 1});
}

TEST(a_kernel_of_the_host_is_recorded_too)
{
	start();
	rec_kernel("on_the_cpu");
	struct profile *profile = finish();
	CHECK_U64(rec_count(profile, "on_the_cpu"), 1);
	const struct profile_kernel *kernel =
		&profile->kernels[profile->nodes[rec_node(profile, "on_the_cpu")].first_kernel];
	CHECK_STR(profile_text(profile, profile->devices[kernel->device].type), "CPU");
}

TEST(two_devices_are_kept_apart)
{
	uint32_t first, second;

	start();
	for (uint32_t device = 0; device < 2; device++)
		fake.launch(&(struct fake_launch){.call = CUPTI_CALL_LAUNCH_KERNEL,
						  .name = "k",
						  .device = device,
						  .records = 1,
						  .start_ns = 1,
						  .end_ns = 2});
	struct profile *profile = finish();
	CHECK_U64(rec_count(profile, "k"), 2);
	first = profile->nodes[rec_node(profile, "k")].first_kernel;
	second = profile->kernels[first].next;
	CHECK_NE(second, 0);
	CHECK_NE(profile->kernels[first].device, profile->kernels[second].device);
}

TEST(all_kernels_of_a_graph_launch_belong_to_it)
{
	start();
	uint64_t token = proton_scope_enter("replay");
	for (int i = 0; i < 3; i++)
		fake.launch(&(struct fake_launch){.call = CUPTI_CALL_GRAPH_LAUNCH,
						  .name = "node",
						  .records = 100,
						  .start_ns = 1,
						  .end_ns = 3});
	proton_scope_exit(token, NULL);
	EXPECT(finish(), {"replay/node", 300});
}

/* One launch with a grid of `blocks`. */
static void launch_blocks(uint32_t blocks, uint64_t duration_ns)
{
	fake.launch(&(struct fake_launch){.call = CUPTI_CALL_LAUNCH_KERNEL,
					  .name = "k",
					  .records = 1,
					  .start_ns = 1000,
					  .end_ns = 1000 + duration_ns,
					  .config = {.grid = {blocks, 1, 2},
						     .block = {128, 1, 1},
						     .registers_per_thread = 42,
						     .static_shared_bytes = 16,
						     .dynamic_shared_bytes = 4096}});
}

static uint32_t first_config(const struct profile *profile, const char *path)
{
	uint32_t kernel = profile->nodes[rec_node(profile, path)].first_kernel;

	return profile->kernels[kernel].first_config;
}

TEST(each_configuration_of_a_kernel_is_kept_once)
{
	start();
	for (int i = 0; i < 10; i++)
		launch_blocks(100, 5);
	for (int i = 0; i < 3; i++) {
		launch_blocks(200, 7);
		launch_blocks(100, 5);
	}
	struct profile *profile = finish();
	const struct row_config *launch = &profile->configs[first_config(profile, "k")];
	CHECK_U64(launch->count, 13);
	CHECK_U64(launch->total_ns, 65);
	CHECK_U64(launch->config.grid[0], 100);
	CHECK_U64(launch->config.grid[2], 2);
	CHECK_U64(launch->config.block[0], 128);
	/* roctracer does not report these. */
	CHECK_U64(launch->config.registers_per_thread, tests_backend("roctracer") ? 0 : 42);
	CHECK_U64(launch->config.static_shared_bytes, tests_backend("roctracer") ? 0 : 16);
	CHECK_U64(launch->config.dynamic_shared_bytes, 4096);
	launch = &profile->configs[launch->next];
	CHECK_U64(launch->count, 3);
	CHECK_U64(launch->total_ns, 21);
	CHECK_U64(launch->config.grid[0], 200);
	CHECK_U64(launch->next, 0);
}

TEST(more_configurations_than_are_kept_are_counted_together)
{
	uint64_t total = 0;
	uint32_t count = 0;
	uint32_t at;

	start();
	for (uint32_t round = 0; round < 3; round++)
		for (uint32_t i = 1; i <= CONFIGS_PER_KERNEL + 5; i++)
			launch_blocks(i, 1);
	struct profile *profile = finish();
	for (at = first_config(profile, "k"); at; at = profile->configs[at].next) {
		bool is_other = profile->configs[at].flags & CONFIG_OTHER;

		CHECK_U64(profile->configs[at].count, is_other ? 15 : 3);
		CHECK_EQ(is_other, profile->configs[at].next == 0);
		total += profile->configs[at].count;
		count++;
	}
	CHECK_U64(count, CONFIGS_PER_KERNEL + 1);
	CHECK_U64(total, 3 * (CONFIGS_PER_KERNEL + 5));
}

TEST(configurations_go_with_the_phase_they_were_recorded_in)
{
	int session = start();

	launch_blocks(1, 1);
	CHECK_EQ(proton_phase_advance(session, NULL, NULL), PROTON_OK);
	launch_blocks(2, 1);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	proton_activate(session, NULL);
	struct profile *profile = rec_load_phase("a.proton", 0);
	CHECK_U64(profile->configs[first_config(profile, "k")].config.grid[0], 1);
	CHECK_U64(profile->configs[first_config(profile, "k")].next, 0);
	CHECK_EQ(proton_phase_clear(session, 0, true, NULL), PROTON_OK);
	launch_blocks(3, 1); /* in rows that were given back */
	profile = finish();
	CHECK_U64(rec_count(profile, "k"), 2);
	CHECK_U64(profile->configs[first_config(profile, "k")].config.grid[0], 2);
	CHECK_U64(
		profile->configs[profile->configs[first_config(profile, "k")].next].config.grid[0],
		3);
}

TEST(a_record_that_arrives_after_its_phase_was_cleared_is_counted_as_lost)
{
	int session = start();

	launch_ns("late", 5); /* its record waits for a flush */
	CHECK_EQ(proton_phase_advance(session, NULL, NULL), PROTON_OK);
	CHECK_EQ(proton_phase_clear(session, 0, false, NULL), PROTON_OK);
	launch_ns("now", 5);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "lost: recorded after its phase was cleared"), 1);
	CHECK_U64(rec_counter(session, "kernels"), 1);
	rec_finalize(session, "none");
}

TEST(a_kernel_of_the_host_has_no_configuration)
{
	start();
	rec_kernel("on_the_cpu");
	CHECK_U64(first_config(finish(), "on_the_cpu"), 0);
}

#define NODE(graph, index) ((uint64_t)(graph) << 32 | (index))

/* HIP has no ids of nodes: the graph, and its executable after the first replay. */
static uint32_t hip_graph;
static uint32_t hip_exec;

/* Captures one kernel as node `index` of graph 1 and of its executable copy, graph 2. */
static void capture_kernel(uint32_t index)
{
	if (!tests_cuda()) {
		if (!hip_graph)
			hip_graph = fake.graph_create();
		fake.graph_capture_kernel(hip_graph, "node");
		return;
	}
	fake.launch(&(struct fake_launch){
		.call = CUPTI_CALL_LAUNCH_KERNEL, .name = "node", .captures = NODE(1, index)});
	fake.graph_event(CUPTI_RESOURCE_GRAPHNODE_CLONED, NODE(2, index), NODE(1, index),
			 CUDA_GRAPH_NODE_KERNEL);
}

/* A graph replay: one launch with the records of nodes 0 to `nodes` - 1 of graph 2. */
static void replay(uint32_t nodes)
{
	if (!tests_cuda()) {
		if (!hip_exec)
			hip_exec = fake.graph_instantiate(hip_graph);
		fake.graph_launch(hip_exec, "node", true);
		return;
	}
	for (uint32_t i = 0; i < nodes; i++)
		fake.launch(&(struct fake_launch){.call = CUPTI_CALL_GRAPH_LAUNCH,
						  .name = "node",
						  .records = 1,
						  .start_ns = 1,
						  .end_ns = 3,
						  .node_id = NODE(2, i)});
}

static void destroy_graphs(void)
{
	if (tests_cuda()) {
		fake.graph_event(CUPTI_RESOURCE_GRAPH_DESTROY_STARTING, NODE(1, 0), 0, 0);
		fake.graph_event(CUPTI_RESOURCE_GRAPHEXEC_DESTROY_STARTING, NODE(2, 0), 0, 0);
		return;
	}
	fake.graph_destroy(hip_graph);
	fake.graph_exec_destroy(hip_exec);
}

static void add_flops(double flops)
{
	struct proton_metric metric = {
		.name = "flops16", .type = PROTON_METRIC_DOUBLE, .value.float64 = flops};

	CHECK_EQ(proton_metrics_add(proton_context_here(), &metric, 1, NULL), PROTON_OK);
}

TEST(a_replay_shows_where_its_kernels_were_captured_and_counts_their_flops_each_time)
{
	struct proton_context where;

	start();
	fake.call(CUPTI_CALL_BEGIN_CAPTURE_V2, 0);
	uint64_t token = proton_scope_enter("cap");
	capture_kernel(0);
	proton_op_enter(proton_frame("mm_64", 5), &where);
	add_flops(100);
	capture_kernel(1);
	proton_op_exit();
	proton_scope_exit(token, NULL);
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	token = proton_scope_enter("replay");
	for (int i = 0; i < 5; i++)
		replay(2);
	proton_scope_exit(token, NULL);
	struct profile *profile = finish();
	CHECK_PTR(rec_value(profile, "cap/mm_64", "flops16"), NULL);
	EXPECT(profile, {"replay/<captured_at>/cap/node", 5}, {"replay/<captured_at>/cap/mm_64", 5},
	       {"replay/<captured_at>/cap/mm_64", 500, "flops16"}, {"cap/node", 0});
}

/* As the package does for kernels of compiled code. */
static void add_work(struct proton_context where, uint32_t kernel)
{
	const struct proton_metric metric = {
		.name = "flops16", .type = PROTON_METRIC_DOUBLE, .value.float64 = 10};

	where = proton_context_enter(where, kernel);
	CHECK_EQ(proton_metrics_add(where, &metric, 1, NULL), PROTON_OK);
}

TEST(metrics_that_an_observer_gives_count_with_launches_and_replays_outside_of_ops)
{
	struct proton_context where;
	struct profile *profile;
	uint64_t token;

	ONLY_CUDA("HIP's calls have no name of the kernel");
	start();
	proton_launch_observer_set(add_work);
	launch_ns("gemm", 7);
	proton_op_enter(proton_frame("mm_64", 5), &where);
	launch_ns("gemm", 7);
	proton_op_exit();
	token = proton_scope_enter("cap");
	fake.call(CUPTI_CALL_BEGIN_CAPTURE_V2, 0);
	capture_kernel(0);
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	proton_scope_exit(token, NULL);
	for (int i = 0; i < 5; i++)
		replay(1);
	proton_launch_observer_set(NULL);
	launch_ns("gemm", 7);
	profile = finish();
	CHECK_PTR(rec_value(profile, "mm_64", "flops16"), NULL);
	CHECK_NEAR(rec_value(profile, "gemm", "flops16")->as.float64, 10, 0);
	EXPECT(profile, {"gemm", 2}, {"mm_64", 1}, {"<captured_at>/cap/node", 5},
	       {"<captured_at>/cap/node", 50, "flops16"});
}

TEST(vectors_and_metrics_added_after_the_last_kernel_count_at_every_replay)
{
	static const int64_t counts[] = {1, 20};
	struct proton_metric metric = {.name = "counts",
				       .type = PROTON_METRIC_INT64_VECTOR,
				       .count = 2,
				       .value.int64s = counts};
	int session = start();

	fake.call(CUPTI_CALL_BEGIN_CAPTURE_V2, 0);
	uint64_t token = proton_scope_enter("cap");
	CHECK_EQ(proton_metrics_add(proton_context_here(), &metric, 1, NULL), PROTON_OK);
	capture_kernel(0);
	add_flops(100);
	CHECK_EQ(proton_metrics_add(proton_context_here(), &metric, 1, NULL), PROTON_OK);
	proton_scope_exit(token, NULL);
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	for (int i = 0; i < 3; i++)
		replay(1);
	/* A capture without kernels: there is no execution that they could count with. */
	fake.call(CUPTI_CALL_BEGIN_CAPTURE_V2, 0);
	add_flops(1);
	CHECK_EQ(proton_metrics_add(proton_context_here(), &metric, 1, NULL), PROTON_OK);
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	CHECK_U64(rec_counter(session, "lost: device or CUDA graph metric value"), 2);
	struct profile *profile = finish();
	CHECK_NEAR(rec_value(profile, "<captured_at>/cap", "flops16")->as.float64, 300, 0);
	const uint64_t *words = profile->words +
				rec_value(profile, "<captured_at>/cap", "counts")->as.vector;
	CHECK_U64(words[0], 2);
	CHECK_U64(words[1], 6);
	CHECK_U64(words[2], 120);
	CHECK_PTR(rec_value(profile, "cap", "counts"), NULL);
}

TEST(metrics_given_outside_a_capture_are_recorded_at_once)
{
	start();
	fake.call(CUPTI_CALL_BEGIN_CAPTURE, 900); /* refused: nothing is captured */
	add_flops(3);
	fake.call(CUPTI_CALL_BEGIN_CAPTURE, 0);
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	add_flops(4);
	EXPECT(finish(), {"", 7, "flops16"});
}

TEST(a_paused_session_does_not_show_kernels_captured_during_the_pause)
{
	int session = start();

	fake.call(CUPTI_CALL_BEGIN_CAPTURE, 0);
	capture_kernel(0);
	proton_deactivate(session, false, NULL);
	capture_kernel(1);
	proton_activate(session, NULL);
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	replay(2);
	EXPECT(finish(), {"<captured_at>/node", 1}, {"node", 0});
}

TEST(a_session_started_after_the_capture_sees_kernels_by_name)
{
	struct proton_error err;

	start();
	fake.call(CUPTI_CALL_BEGIN_CAPTURE, 0);
	capture_kernel(0);
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	CHECK_LE(0, start_named("b", tested_backend(), &err));
	replay(1);
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
	EXPECT(rec_load("a.proton"), {"<captured_at>/node", 1});
	EXPECT(rec_load("b.proton"), {"node", 1});
}

TEST(a_graph_may_be_destroyed_while_its_replay_runs_and_its_id_used_again)
{
	int session = start();
	uint64_t token = proton_scope_enter("first");

	fake.call(CUPTI_CALL_BEGIN_CAPTURE, 0);
	capture_kernel(0);
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	proton_scope_exit(token, NULL);
	replay(1);
	destroy_graphs();
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	proton_activate(session, NULL);
	replay(1); /* it is unknown by now */
	EXPECT(finish(), {"<captured_at>/first/node", 1}, {"node", 1});
}

TEST(records_may_come_long_after_their_launch)
{
	int session = start();
	uint64_t token = proton_scope_enter("early");

	launch_ns("first", 5);
	proton_scope_exit(token, NULL);
	/* Enough calls to use every slot of the correlation table again. */
	for (int i = 0; i < 3; i++) {
		fake.skip_correlations((1u << 20) - 1);
		launch_ns("later", 5);
	}
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	EXPECT(rec_load("a.proton"), {"early/first", 1}, {"later", 3});
	CHECK_U64(rec_counter(session, "lost: kernel record without a known launch"), 0);
	rec_finalize(session, "none");
}

TEST(invalid_records_are_counted_by_cause)
{
	int session = start();

	launch_ns("good", 5);
	fake.launch(&(struct fake_launch){
		.call = CUPTI_CALL_LAUNCH_KERNEL, .name = "zero", .records = 1});
	fake.launch(&(struct fake_launch){.call = CUPTI_CALL_LAUNCH_KERNEL,
					  .name = "inverted",
					  .records = 1,
					  .start_ns = 9,
					  .end_ns = 3});
	fake.launch(&(struct fake_launch){.call = CUPTI_CALL_LAUNCH_KERNEL,
					  .name = "stray",
					  .records = 1,
					  .start_ns = 1,
					  .end_ns = 3,
					  .is_unseen = true});
	if (!tests_backend("roctracer")) /* HIP waits for space in its buffers */
		fake.drop(7);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "lost: kernel record without a timestamp"), 1);
	CHECK_U64(rec_counter(session, "lost: kernel record that ends before it starts"), 1);
	/* rocprofiler-sdk asks for the attribution of each dispatch, whatever made it. */
	CHECK_U64(rec_counter(session, "lost: kernel record without a known launch"),
		  tests_backend("rocprofiler") ? 0 : 1);
	CHECK_U64(rec_counter(session, "lost: record dropped by the vendor library"),
		  tests_backend("roctracer") ? 0 : 7);
	struct profile *profile = finish();
	CHECK_U64(rec_count(profile, "good"), 1);
	CHECK_EQ(rec_node(profile, "zero"), REC_NOWHERE);
	CHECK_U64(rec_count(profile, "stray"), tests_backend("rocprofiler") ? 1 : 0);
}

TEST(a_flush_waits_for_buffers_that_come_after_it)
{
	setenv("FAKE_CUPTI_LATE_MS", "30", 1);
	setenv("FAKE_SDK_LATE_MS", "30", 1);
	setenv("FAKE_ROCTRACER_LATE_MS", "30", 1);
	start();
	for (int i = 0; i < 50; i++)
		launch_ns("k", 5);
	EXPECT(finish(), {"k", 50});
}

TEST(launches_of_a_deactivated_session_are_not_recorded)
{
	int session = start();

	proton_deactivate(session, false, NULL);
	launch_ns("off", 5);
	proton_activate(session, NULL);
	launch_ns("on", 5);
	struct profile *profile = finish();
	CHECK_EQ(rec_node(profile, "off"), REC_NOWHERE);
	CHECK_U64(rec_count(profile, "on"), 1);
}

TEST(launches_during_a_pause_do_not_count_as_lost)
{
	int session = start();

	launch_ns("on", 5);
	proton_deactivate(session, false, NULL);
	launch_ns("off", 5);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "kernels"), 1);
	CHECK_U64(rec_counter(session, "lost: kernel record without a known launch"), 0);
	rec_finalize(session, "none");
}

TEST(a_failed_launch_is_not_waited_for)
{
	int session = start();

	fake.launch(&(struct fake_launch){
		.call = CUPTI_CALL_LAUNCH_KERNEL, .name = "too big", .result = 1});
	uint64_t begin_ns = clock_monotonic_ns();
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_LT(clock_monotonic_ns() - begin_ns, 4000000000);
	CHECK_U64(rec_counter(session, "lost: kernel record never received"), 0);
	rec_finalize(session, "none");
}

TEST(a_missing_record_is_counted_and_waited_for_once)
{
	uint64_t min_ns = UINT64_MAX;
	int session = start();

	fake.launch(&(struct fake_launch){
		.call = CUPTI_CALL_LAUNCH_KERNEL, .name = "lost", .context = &fake});
	fail_waiting(FAKE_ALWAYS); /* else it takes 5 s */
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "lost: kernel record never received"), 1);
	for (int i = 0; i < 20; i++) {
		uint64_t begin_ns = clock_monotonic_ns();

		CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
		if (clock_monotonic_ns() - begin_ns < min_ns)
			min_ns = clock_monotonic_ns() - begin_ns;
	}
	CHECK_LT(min_ns, 100000000);
	CHECK_U64(rec_counter(session, "lost: kernel record never received"), 1);
	rec_finalize(session, "none");
}

TEST(a_flush_does_not_end_a_capture_that_is_open)
{
	int session = start();

	launch_ns("k", 5);
	fake.call(CUPTI_CALL_BEGIN_CAPTURE, 0);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_EQ(fake.synchronized(), 0);
	CHECK_U64(rec_counter(session, "kernels"), 1);
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_EQ(fake.synchronized(), 1);
	rec_finalize(session, "none");
}

static void *begin_capture(void *stream_out)
{
	fake.call(CUPTI_CALL_BEGIN_CAPTURE, 0);
	if (!tests_cuda())
		*(uint32_t *)stream_out = (uint32_t)((fake.capture_stream() - 0x5000) / 16);
	return NULL;
}

/* PyTorch captures the backward pass on another thread. */
TEST(a_launch_captured_by_another_thread_than_began_the_capture_is_not_waited_for)
{
	struct fake_launch launch = {.call = CUPTI_CALL_LAUNCH_KERNEL, .name = "k", .captures = 77};
	int session = start();
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, begin_capture, &launch.stream), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	fake.launch(&launch);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "lost: kernel record never received"), 0);
	rec_finalize(session, "none");
}

TEST(a_launch_into_a_capture_from_before_the_session_is_not_waited_for)
{
	int session = start();

	NOT_WITH("roctracer",
		 "asking HIP at each launch whether its stream captures costs too much");
	if (!tests_cuda())
		fake.set_capture(0, 1);
	fake.launch(&(
		struct fake_launch){.call = CUPTI_CALL_LAUNCH_KERNEL, .name = "k", .captures = 77});
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "lost: kernel record never received"), 0);
	rec_finalize(session, "none");
}

TEST(a_hundred_starts_and_stops_leak_nothing)
{
	for (int i = 0; i < 100; i++) {
		start();
		CHECK(!tests_cuda() || !fake.is_idle());
		launch_ns("k", 5);
		EXPECT(finish(), {"k", 1});
		CHECK(is_resting());
	}
}

TEST(records_come_while_the_program_runs)
{
	int session = start();

	for (int i = 0; i < 5; i++)
		launch_ns("k", 5);
	for (int i = 0; i < 60000 && rec_counter(session, "kernels") < 5; i++)
		usleep(1000);
	struct profile *profile = rec_load("a.proton"); /* as after a kill */
	CHECK_U64(rec_count(profile, "k"), 5);
	rec_finalize(session, "none");
}

TEST(nvtx_finds_its_tool_while_the_backend_runs)
{
	unsetenv("NVTX_INJECTION64_PATH");
	for (int i = 0; i < 2; i++) {
		start();
		CHECK(getenv("NVTX_INJECTION64_PATH"));
		rec_finalize(PROTON_ALL_SESSIONS, "none");
		CHECK_PTR(getenv("NVTX_INJECTION64_PATH"), NULL);
	}
	setenv("TRITON_ENABLE_NVTX", "0", 1);
	start();
	CHECK_PTR(getenv("NVTX_INJECTION64_PATH"), NULL);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}

TEST(the_context_of_a_launch_is_waited_for_in_every_session)
{
	for (unsigned i = 1; i <= 3; i++) {
		start();
		launch_ns("k", 5);
		rec_finalize(PROTON_ALL_SESSIONS, "none");
		CHECK_EQ(fake.synchronized(), i);
	}
}

TEST(a_profile_contains_the_version_and_the_path_of_the_library)
{
	static const struct {
		const char *backend, *version_key, *version, *path_key;
		const char *path; /* its end */
	} wanted[] = {
		{"cupti", "cupti", "13.0", "cupti_path", "fake_cupti"},
		{"rocprofiler", "rocprofiler_sdk", "1.2.1", "rocprofiler_sdk_path",
		 "fake_rocprofiler_sdk"},
		{"roctracer", "roctracer", "4.1", "roctracer_path", "fake_roctracer"},
	};
	size_t i = 0;

	while (!tests_backend(wanted[i].backend))
		i++;
	start();
	launch_ns("k", 5);
	struct profile *profile = finish();
	CHECK_STR(rec_info(profile, wanted[i].version_key),
		  tests_second() ? "13.5" : wanted[i].version);
	CHECK_HAS(rec_info(profile, wanted[i].path_key), wanted[i].path);
	CHECK_LE(0, strtoll(rec_info(profile, "overhead_callbacks_ns"), NULL, 10));
	CHECK_LE(0, strtoll(rec_info(profile, "overhead_records_ns"), NULL, 10));
}

TEST(a_profile_contains_the_recorder_version_and_overhead)
{
	char uuid[48];
	int session = start();

	ONLY_CUDA("the properties of GPUs and versions are CUDA's");
	struct profile *profile = rec_load("a.proton"); /* as after a kill */
	CHECK_STR(rec_info(profile, "cupti"), tests_second() ? "13.5" : "13.0");
	CHECK_STR(rec_info(profile, "overhead_records_ns"), "0");
	fake.cu_init(0);
	for (int i = 0; i < 2000; i++)
		launch_ns("k", 5);
	profile = finish();
	CHECK_STR(rec_info(profile, "cupti"), tests_second() ? "13.5" : "13.0");
	CHECK_HAS(rec_info(profile, "cupti_path"), "fake_cupti");
	CHECK_STR(rec_info(profile, "cuda_driver"), "13.0");
	CHECK_STR(rec_info(profile, "cupti_interface"), tests_second() ? "2" : "1");
	CHECK_STR(rec_info(profile, "kernel_times"), "software");
	CHECK_STR(rec_info(profile, "gpus"), "2");
	CHECK_STR(rec_info(profile, "gpu0_pci"), "0000:4e:00.0");
	snprintf(uuid, sizeof(uuid), FAKE_GPU_UUID, (unsigned)getpid());
	CHECK_STR(rec_info(profile, "gpu0_uuid"), uuid);
	CHECK(!rec_info(profile, "gpu1_uuid")); /* no kernel ran there */
	CHECK(rec_info(profile, "host") && rec_info(profile, "command"));
	/* 2000 records and 2000 callbacks take less than seconds. */
	CHECK_LT(10000, strtoll(rec_info(profile, "overhead_records_ns"), NULL, 10));
	CHECK_LT(strtoll(rec_info(profile, "overhead_records_ns"), NULL, 10), 1000000000);
	CHECK_LT(2000, strtoll(rec_info(profile, "overhead_callbacks_ns"), NULL, 10));
	CHECK_LT(strtoll(rec_info(profile, "overhead_callbacks_ns"), NULL, 10), 1000000000);
	CHECK_LE(0, session);
	start();
	profile = finish(); /* overhead of another session is not this one's */
	CHECK_STR(rec_info(profile, "overhead_records_ns"), "0");
	CHECK_STR(rec_info(profile, "overhead_callbacks_ns"), "0");
}

#define LAUNCHERS 16

static void *launch_many(void *data)
{
	char name[16];

	snprintf(name, sizeof(name), "t%d", (int)(intptr_t)data);
	uint64_t token = proton_scope_enter(name);
	for (int i = 0; i < 500; i++)
		launch_ns("k", 5);
	proton_scope_exit(token, NULL);
	return NULL;
}

TEST(threads_may_launch_while_others_flush)
{
	pthread_t threads[LAUNCHERS];
	int session = start();
	char path[32];

	for (int i = 0; i < LAUNCHERS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, launch_many, (void *)(intptr_t)i), 0);
	for (int i = 0; i < 20; i++) {
		char *bytes;
		size_t length;

		CHECK_EQ(proton_data_get(session, 0, NULL, &bytes, &length, NULL), PROTON_OK);
		proton_free(bytes);
	}
	for (int i = 0; i < LAUNCHERS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	struct profile *profile = finish();
	for (int i = 0; i < LAUNCHERS; i++) {
		snprintf(path, sizeof(path), "t%d/k", i);
		CHECK_U64(rec_count(profile, path), 500);
	}
}
