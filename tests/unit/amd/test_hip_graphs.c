/* HIP graphs: captures, executables and the order of records. */
#include "unit/amd/hip_session.h"

#include "backend/gpu/records.h"
#include "record/names/frames.h"

#define OTHER_STREAM 0x5020u
#define COPY "__amd_rocclr_copyBuffer"
#define SHOWN_BY_NAME "kernels of HIP graphs shown by name"

static uint64_t last_handle = 0x7000;

static void add_flops(double flops)
{
	struct proton_metric metric = {
		.name = "flops", .type = PROTON_METRIC_DOUBLE, .value.float64 = flops};

	CHECK_EQ(proton_metrics_add(proton_context_here(), &metric, 1, NULL), PROTON_OK);
}

/* ------------------------------------------------------------------ HIP's calls */

static void call(enum hip_graph_call what, const uint64_t arguments[static 3], int result)
{
	hip_graphs_on_call(what, arguments, false, true, false);
	hip_graphs_on_call(what, arguments, false, false, result != 0);
}

static void begin_capture(void)
{
	uint64_t arguments[3] = {STREAM};

	hip_graphs_on_call(HIP_GRAPH_BEGIN_CAPTURE, arguments, false, true, false);
	hip_fake.set_capture_number(last_handle += 16);
	hip_fake.set_capture(STREAM, 1);
	hip_graphs_on_call(HIP_GRAPH_BEGIN_CAPTURE, arguments, false, false, false);
}

static uint64_t end_capture(void)
{
	uint64_t graph = 0;
	uint64_t arguments[3] = {STREAM, (uintptr_t)&graph};

	hip_graphs_on_call(HIP_GRAPH_END_CAPTURE, arguments, false, true, false);
	hip_fake.set_capture(0, 0);
	graph = last_handle += 16;
	hip_graphs_on_call(HIP_GRAPH_END_CAPTURE, arguments, false, false, false);
	return graph;
}

static void instantiate_as(uint64_t exec, uint64_t graph)
{
	call(HIP_GRAPH_INSTANTIATE, (uint64_t[3]){(uintptr_t)&exec, graph}, 0);
}

static uint64_t instantiate(uint64_t graph)
{
	uint64_t exec = last_handle += 16;

	instantiate_as(exec, graph);
	return exec;
}

static void destroy(uint64_t graph)
{
	call(HIP_GRAPH_DESTROY, (uint64_t[3]){graph}, 0);
}

static void destroy_exec(uint64_t exec)
{
	call(HIP_GRAPH_DESTROY_EXEC, (uint64_t[3]){exec}, 0);
}

/* A launch or a copy on a stream; true if it was captured. */
static bool launch_on(uint64_t stream, enum launch_kind kind)
{
	struct launch_call launch = {
		.correlation = ++last_correlation,
		.kind = kind,
		.records = kind == LAUNCH_MEMORY ? LAUNCH_ANY : LAUNCH_ONE,
	};
	bool is_captured;

	launches_begin(&launch);
	is_captured =
		hip_graphs_take(stream, kind == LAUNCH_KERNEL ? HIP_NODE_KERNEL : HIP_NODE_MEMORY);
	if (is_captured)
		launches_set_captured();
	launches_end(&launch, false);
	return is_captured;
}

/* `count` kernels captured in a scope, each with flops. */
static uint64_t capture(const char *scope, int count)
{
	uint64_t token = proton_scope_enter(scope);

	begin_capture();
	for (int i = 0; i < count; i++) {
		add_flops(1 << i);
		CHECK(launch_on(STREAM, LAUNCH_KERNEL));
	}
	proton_scope_exit(token, NULL);
	return end_capture();
}

/* The executable of `count` kernels, captured in the scopes s0, s1 and so on. */
static uint64_t capture_scopes(int count)
{
	begin_capture();
	for (int i = 0; i < count; i++) {
		uint64_t token = proton_scope_enter((const char *[]){"s0", "s1", "s2", "s3"}[i]);

		launch_on(STREAM, LAUNCH_KERNEL);
		proton_scope_exit(token, NULL);
	}
	return instantiate(end_capture());
}

/* A launch of a graph with `count` pieces of work inside the event; the first one's number. */
static uint64_t launch(uint64_t exec, int count, bool has_failed)
{
	struct launch_call launch = {
		.correlation = ++last_correlation, .kind = LAUNCH_GRAPH, .records = LAUNCH_MANY};
	uint64_t first = 0;

	hip_replays_begin(exec, launch.correlation, launches_begin(&launch));
	hip_replays_event(true);
	for (int i = 0; i < count; i++) {
		uint64_t number = hip_replays_next();

		first = i ? first : number;
	}
	hip_replays_event(false);
	hip_replays_end(has_failed);
	launches_end(&launch, has_failed);
	return first;
}

static void arrive_from(uint32_t device, uint32_t correlation, uint64_t number, const char *name)
{
	struct correlation launch;
	struct execution execution = {
		.frame = frames_add(FRAME_KERNEL, name, strlen(name)),
		.device = devices_add(&(struct device){.type = "HIP", .id = device}),
		.is_memory = strcmp(name, COPY) == 0,
		.correlation = correlation,
		.start_ns = 1000,
		.end_ns = 1100,
	};

	if (!records_find_kernel(correlation, 0, &launch))
		return;
	if (!launch.is_shared || !hip_replays_add(&launch, number, 0, &execution))
		records_add(&launch, 0, &execution);
}

static void arrive(uint32_t correlation, uint64_t number, const char *name)
{
	arrive_from(0, correlation, number, name);
}

/* ------------------------------------------------------------------ order */

TEST(records_in_any_order_are_those_of_the_captured_kernels)
{
	int session = start(HIP_REPLAYS_BY_REQUEST);
	uint64_t graph = capture("one", 1);
	uint64_t exec, token;

	destroy(graph);
	exec = instantiate(capture("three", 3));
	token = proton_scope_enter("replay");
	for (int i = 0; i < 5; i++) {
		CHECK_U64(launch(exec, 3, false), 1);
		arrive(last_correlation, 3, "c");
		arrive(last_correlation, 1, "a");
		arrive(last_correlation, 2, "b");
	}
	proton_scope_exit(token, NULL);
	CHECK_U64(rec_counter(session, "kernels"), 15); /* without a flush */
	EXPECT(finish(session), {"replay/<captured_at>/three/a", 5},
	       {"replay/<captured_at>/three/b", 5}, {"replay/<captured_at>/three/c", 5},
	       {"replay/<captured_at>/three", 35, "flops"});
}

/* Each kernel has its own scope, so a wrong order would be seen. */
TEST(each_kernel_gets_the_scope_of_its_capture)
{
	int session = start(HIP_REPLAYS_BY_EVENT);
	uint64_t exec = capture_scopes(3);

	CHECK_U64(launch(exec, 3, false), 1);
	arrive(last_correlation, 2, "k1");
	arrive(last_correlation, 3, "k2");
	arrive(last_correlation, 1, "k0");
	EXPECT(finish(session), {"<captured_at>/s0/k0", 1}, {"<captured_at>/s1/k1", 1},
	       {"<captured_at>/s2/k2", 1});
}

/* The device of the only kernel at a path. */
static uint32_t device_at(const struct profile *profile, const char *path)
{
	const struct profile_kernel *kernel =
		&profile->kernels[profile->nodes[rec_node(profile, path)].first_kernel];

	CHECK_EQ(kernel->next, 0);
	return profile->devices[kernel->device].id;
}

/* Streams of both joined the capture; the records of one device come first. */
TEST(kernels_of_a_graph_over_two_devices_keep_their_devices_and_scopes)
{
	int session = start(HIP_REPLAYS_BY_REQUEST);
	uint64_t exec = capture_scopes(4);

	for (int replay = 0; replay < 3; replay++) {
		CHECK_U64(launch(exec, 4, false), 1);
		arrive_from(1, last_correlation, 2, "k");
		arrive_from(1, last_correlation, 4, "k");
		arrive_from(0, last_correlation, 1, "k");
		arrive_from(0, last_correlation, 3, "k");
	}
	struct profile *profile = finish(session);
	CHECK_U64(device_at(profile, "<captured_at>/s0/k"), 0);
	CHECK_U64(device_at(profile, "<captured_at>/s1/k"), 1);
	CHECK_U64(device_at(profile, "<captured_at>/s2/k"), 0);
	CHECK_U64(device_at(profile, "<captured_at>/s3/k"), 1);
	CHECK_U64(rec_count(profile, "<captured_at>/s3/k"), 3);
}

TEST(without_numbers_the_order_of_arrival_counts)
{
	int session = start(HIP_REPLAYS_BY_ARRIVAL);
	uint64_t exec = instantiate(capture("cap", 2));

	CHECK_U64(launch(exec, 1, false), 0);
	arrive(last_correlation, 0, "a");
	launch(exec, 1, false);
	arrive(last_correlation, 0, "a");
	arrive(last_correlation - 1, 0, "b");
	CHECK_U64(rec_counter(session, "kernels"), 2);
	arrive(last_correlation, 0, "b");
	CHECK_U64(rec_counter(session, "kernels"), 4);
	CHECK_U64(rec_counter(session, SHOWN_BY_NAME), 0);
	EXPECT(finish(session), {"<captured_at>/cap/a", 2}, {"<captured_at>/cap/b", 2},
	       {"<captured_at>/cap", 6, "flops"});
}

/* The runtime may run something before the graph, in the same call. */
TEST(work_outside_the_event_of_the_graph_is_not_the_graphs)
{
	int session = start(HIP_REPLAYS_BY_EVENT);
	uint64_t exec = instantiate(capture("cap", 1));

	launch(exec, 1, false);
	CHECK_U64(hip_replays_next(), 0);
	arrive(last_correlation, 0, "init");
	arrive(last_correlation, 1, "a");
	EXPECT(finish(session), {"init", 1}, {"<captured_at>/cap/a", 1});
}

/* ------------------------------------------------------------------ untrusted orders */

TEST(another_number_of_kernels_is_shown_by_name_and_its_flops_count)
{
	int session = start(HIP_REPLAYS_BY_REQUEST);
	uint64_t exec = instantiate(capture("cap", 2));

	rec_begin_saying();
	for (int i = 0; i < 4; i++) {
		launch(exec, 3, false);
		for (uint64_t number = 1; number <= 3; number++)
			arrive(last_correlation, number, "k");
	}
	CHECK_U64(rec_counter(session, SHOWN_BY_NAME), 12);
	CHECK_EQ(rec_printed("another number of kernels"), 1);
	EXPECT(finish(session), {"k", 12}, {"<captured_at>/cap/k", 0},
	       {"<captured_at>/cap", 12, "flops"});
}

TEST(a_lost_record_costs_no_flops)
{
	int session = start(HIP_REPLAYS_BY_REQUEST);
	uint64_t exec = instantiate(capture("cap", 2));

	rec_begin_saying();
	launch(exec, 2, false);
	arrive(last_correlation, 2, "b");
	CHECK_U64(rec_counter(session, "kernels"), 0); /* it waits for the other */
	EXPECT(finish(session), {"b", 1}, {"<captured_at>/cap", 3, "flops"});
	CHECK_EQ(rec_printed("records are missing"), 1);
}

TEST(a_record_too_many_is_reported)
{
	int session = start(HIP_REPLAYS_BY_ARRIVAL);
	uint64_t exec = instantiate(capture("cap", 1));

	rec_begin_saying();
	launch(exec, 0, false);
	arrive(last_correlation, 0, "a");
	arrive(last_correlation, 0, "b");
	CHECK_U64(rec_counter(session, SHOWN_BY_NAME), 1);
	CHECK_EQ(rec_printed("another number of kernels"), 1);
	EXPECT(finish(session), {"b", 1});
}

TEST(a_graph_captured_before_the_session_is_reported)
{
	int session = start(HIP_REPLAYS_BY_REQUEST);

	rec_begin_saying();
	launch(0x1234, 2, false);
	arrive(last_correlation, 1, "a");
	arrive(last_correlation, 2, "b");
	CHECK_EQ(rec_printed("Cannot find graph for graphExecId"), 1);
	CHECK_EQ(rec_printed("another number"), 0);
	EXPECT(finish(session), {"a", 1}, {"b", 1});
}

/* ------------------------------------------------------------------ captures */

static void *launch_there(void *is_captured_out)
{
	*(bool *)is_captured_out = launch_on(STREAM, LAUNCH_KERNEL);
	return NULL;
}

TEST(a_capture_has_the_launches_of_all_threads_on_its_stream)
{
	int session = start(HIP_REPLAYS_BY_REQUEST);
	bool is_captured = false;
	pthread_t thread;

	begin_capture();
	CHECK(launch_on(STREAM, LAUNCH_KERNEL));
	CHECK(!launch_on(OTHER_STREAM, LAUNCH_KERNEL));
	CHECK(!launch_on(0, LAUNCH_KERNEL));
	CHECK_EQ(pthread_create(&thread, NULL, launch_there, &is_captured), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK(is_captured);
	uint64_t exec = instantiate(end_capture());
	CHECK_U64(launches_count(), 2);
	CHECK(!launch_on(STREAM, LAUNCH_KERNEL));
	launch(exec, 2, false);
	arrive(last_correlation, 1, "a");
	arrive(last_correlation, 2, "b");
	EXPECT(finish(session), {"<captured_at>/a", 1}, {"<captured_at>/b", 1});
}

/* The runtime copies with its own kernels, or without any. */
TEST(copies_in_a_graph_are_not_taken_for_its_kernels)
{
	int session = start(HIP_REPLAYS_BY_REQUEST);
	uint64_t token = proton_scope_enter("cap");

	begin_capture();
	CHECK(launch_on(STREAM, LAUNCH_MEMORY));
	CHECK(launch_on(STREAM, LAUNCH_KERNEL));
	CHECK(launch_on(STREAM, LAUNCH_MEMORY));
	uint64_t exec = instantiate(end_capture());
	proton_scope_exit(token, NULL);
	launch(exec, 3, false);
	arrive(last_correlation, 3, COPY);
	arrive(last_correlation, 1, COPY);
	arrive(last_correlation, 2, "k");
	launch(exec, 1, false);
	arrive(last_correlation, 1, "k");
	CHECK_U64(rec_counter(session, SHOWN_BY_NAME), 0);
	EXPECT(finish(session), {"<captured_at>/cap/k", 2});
}

TEST(a_destroyed_graph_is_freed_when_its_records_have_arrived)
{
	int session = start(HIP_REPLAYS_BY_REQUEST);
	uint64_t graph = capture("cap", 2);
	uint64_t exec = instantiate(graph);

	CHECK_EQ(captured_nodes_count(), 4);
	destroy(graph);
	CHECK_EQ(captured_nodes_count(), 2);
	launch(exec, 2, false);
	destroy_exec(exec);
	/* HIP gives the next graph the same handle. */
	instantiate_as(exec, capture("next", 2));
	for (uint64_t number = 1; number <= 2; number++)
		arrive(last_correlation - 2, number, "k");
	launch(exec, 2, false);
	for (uint64_t number = 1; number <= 2; number++)
		arrive(last_correlation, number, "k");
	destroy_exec(exec);
	EXPECT(finish(session), {"<captured_at>/cap/k", 2}, {"<captured_at>/next/k", 2});
	CHECK_EQ(captured_nodes_count(), 0);
}

TEST(an_updated_executable_and_a_clone_have_the_graphs_captures)
{
	int session = start(HIP_REPLAYS_BY_REQUEST);
	uint64_t first = capture("first", 1);
	uint64_t second = capture("second", 1);
	uint64_t clone = last_handle += 16;
	uint64_t exec = instantiate(first);

	launch(exec, 1, false);
	arrive(last_correlation, 1, "k");
	call(HIP_GRAPH_UPDATE, (uint64_t[3]){exec, second}, 1); /* it failed */
	launch(exec, 1, false);
	arrive(last_correlation, 1, "k");
	call(HIP_GRAPH_UPDATE, (uint64_t[3]){exec, second}, 0);
	launch(exec, 1, false);
	arrive(last_correlation, 1, "k");
	call(HIP_GRAPH_CLONE, (uint64_t[3]){(uintptr_t)&clone, first}, 0);
	destroy(first);
	launch(instantiate(clone), 1, false);
	arrive(last_correlation, 1, "k");
	EXPECT(finish(session), {"<captured_at>/first/k", 3}, {"<captured_at>/second/k", 1});
}

TEST(calls_that_fail_leave_nothing)
{
	int session = start(HIP_REPLAYS_BY_REQUEST);
	uint64_t exec = instantiate(capture("cap", 1));
	uint64_t graph = 0;

	rec_begin_saying();
	launch(exec, 0, true);
	begin_capture();
	launch_on(STREAM, LAUNCH_KERNEL);
	hip_fake.set_capture(STREAM, 2); /* it has become invalid */
	CHECK(launch_on(STREAM, LAUNCH_KERNEL));
	call(HIP_GRAPH_END_CAPTURE, (uint64_t[3]){STREAM, (uintptr_t)&graph}, 901);
	hip_fake.set_capture(0, 0);
	CHECK(!captured_any_open());
	call(HIP_GRAPH_INSTANTIATE, (uint64_t[3]){(uintptr_t)&graph, 0}, 1);
	struct profile *profile = finish(session);
	CHECK_EQ(rec_printed("another number"), 0);
	CHECK_EQ(captured_nodes_count(), 0);
	CHECK(!rec_value(profile, "<captured_at>/cap", "flops"));
}

/* roctracer's arguments have the values of pointers after these, and no result. */
TEST(arguments_with_values_of_pointers_are_read)
{
	int session = start(HIP_REPLAYS_BY_ARRIVAL);
	uint64_t graph = capture("cap", 1);
	uint64_t exec = 0x9000;
	uint64_t arguments[3] = {(uintptr_t)&exec, 1, graph};

	CHECK_EQ(hip_graphs_call("hipGraphInstantiateWithFlags"), HIP_GRAPH_INSTANTIATE);
	CHECK_EQ(hip_graphs_call("hipMalloc"), HIP_GRAPH_CALL_NONE);
	hip_graphs_on_call(HIP_GRAPH_INSTANTIATE, arguments, true, true, false);
	hip_graphs_on_call(HIP_GRAPH_INSTANTIATE, arguments, true, false, false);
	launch(exec, 0, false);
	arrive(last_correlation, 0, "k");
	EXPECT(finish(session), {"<captured_at>/cap/k", 1});
}

/* ------------------------------------------------------------------ threads */

#define THREADS 4
#define TIMES 300

static uint64_t shared_exec;

static void *replay_often(void *unused)
{
	for (int i = 0; i < TIMES; i++) {
		struct launch_call call = {.correlation = ++last_correlation,
					   .kind = LAUNCH_GRAPH,
					   .records = LAUNCH_MANY};

		hip_replays_begin(shared_exec, call.correlation, launches_begin(&call));
		for (uint64_t number = 1; number <= 3; number++)
			CHECK_U64(hip_replays_next(), number);
		arrive(call.correlation, 3, "c"); /* the GPU is fast */
		arrive(call.correlation, 1, "a");
		hip_replays_end(false);
		launches_end(&call, false);
		arrive(call.correlation, 2, "b");
	}
	return unused;
}

TEST(threads_replay_at_once)
{
	int session = start(HIP_REPLAYS_BY_REQUEST);
	pthread_t threads[THREADS];

	shared_exec = instantiate(capture("cap", 3));
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, replay_often, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	CHECK_U64(rec_counter(session, "kernels"), 3 * THREADS * TIMES);
	EXPECT(finish(session), {"<captured_at>/cap/a", THREADS * TIMES},
	       {"<captured_at>/cap", 7.0 * THREADS * TIMES, "flops"});
}

/* Records that never arrive do not use more and more memory. */
TEST(replays_that_wait_are_limited)
{
	int session = start(HIP_REPLAYS_BY_REQUEST);
	uint64_t exec = instantiate(capture("cap", 2));

	rec_begin_saying();
	for (int i = 0; i < 20000; i++) {
		launch(exec, 2, false);
		arrive(last_correlation, 1, "a");
	}
	CHECK_LE(10000, rec_counter(session, "kernels"));
	EXPECT(finish(session), {"a", 20000}, {"<captured_at>/cap", 60000, "flops"});
}
