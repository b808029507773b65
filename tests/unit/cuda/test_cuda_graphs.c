/* CUDA backend: graphs of every kind, with the fake libraries (tests/fake/cupti_graphs.c). */
#include "unit/cuda/cuda_session.h"

#include <sched.h>

#include "backend/gpu/captured_nodes.h"

static const struct {
	const char *name;
} entry_names[] = {
#define V(name, args) {#name},
#include "backend/cuda/cupti_symbols.def"
#undef V
};

static void capture(uint32_t graph, const char *scope, int kernels)
{
	uint64_t token = proton_scope_enter(scope);

	fake.call(CUPTI_CALL_BEGIN_CAPTURE_V2, 0);
	for (int i = 0; i < kernels; i++)
		fake.graph_capture_kernel(graph, "node");
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	proton_scope_exit(token, NULL);
}

/* A graph of `kernels` nodes captured in a scope, instantiated; the graph is destroyed. */
static uint32_t captured_exec(const char *scope, int kernels)
{
	uint32_t graph = fake.graph_create();

	capture(graph, scope, kernels);
	uint32_t exec = fake.graph_instantiate(graph);
	fake.graph_destroy(graph);
	return exec;
}

static void replay(uint32_t exec, int times)
{
	uint64_t token = proton_scope_enter("replay");

	for (int i = 0; i < times; i++)
		fake.graph_launch(exec, "node", true);
	proton_scope_exit(token, NULL);
}

TEST(a_captured_graph_is_attributed_to_its_capture_and_its_replay)
{
	start();
	replay(captured_exec("cap", 3), 4);
	EXPECT(finish(), {"replay/<captured_at>/cap/node", 12});
	CHECK_EQ(captured_nodes_count(), 0);
}

TEST(a_graph_is_freed_at_once_and_an_executable_one_after_the_next_flush)
{
	int session = start();
	uint32_t graph = fake.graph_create();

	capture(graph, "cap", 3);
	CHECK_EQ(captured_nodes_count(), 3);
	uint32_t exec = fake.graph_instantiate(graph);
	CHECK_EQ(captured_nodes_count(), 6);
	fake.graph_destroy(graph);
	CHECK_EQ(captured_nodes_count(), 3);
	replay(exec, 1);
	fake.graph_exec_destroy(exec);
	CHECK_EQ(captured_nodes_count(), 3); /* its records have not come */
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_EQ(captured_nodes_count(), 0);
	CHECK_U64(rec_counter(session, "kernels"), 3);
	rec_finalize(session, "none");
}

TEST(a_clone_of_a_graph_has_its_captures)
{
	uint32_t graph, clone;

	start();
	graph = fake.graph_create();
	capture(graph, "cap", 2);
	clone = fake.graph_clone(graph);
	fake.graph_destroy(graph);
	replay(fake.graph_instantiate(clone), 3);
	EXPECT(finish(), {"replay/<captured_at>/cap/node", 6});
}

/* Two levels of graphs inside a graph, then everything is destroyed. */
TEST(child_graphs_have_their_captures_and_go_with_the_graph_around_them)
{
	int session = start();
	uint32_t inner = fake.graph_create();
	uint32_t middle = fake.graph_create();
	uint32_t outer = fake.graph_create();
	uint32_t clone, exec;

	capture(inner, "inner", 1);
	capture(middle, "middle", 2);
	fake.graph_add_child(middle, inner);
	capture(outer, "outer", 3);
	fake.graph_add_child(outer, middle);
	fake.graph_destroy(inner);
	fake.graph_destroy(middle);
	clone = fake.graph_clone(outer);
	exec = fake.graph_instantiate(clone);
	fake.graph_destroy(outer);
	CHECK_EQ(captured_nodes_count(), 12); /* the clone's and the executable's */
	fake.graph_destroy(clone);
	CHECK_EQ(captured_nodes_count(), 6);
	replay(exec, 10);
	fake.graph_exec_destroy(exec);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_EQ(captured_nodes_count(), 0);
	EXPECT(finish(), {"replay/<captured_at>/inner/node", 10},
	       {"replay/<captured_at>/middle/node", 20}, {"replay/<captured_at>/outer/node", 30});
}

static void add_flops(double flops)
{
	struct proton_metric metric = {
		.name = "flops", .type = PROTON_METRIC_DOUBLE, .value.float64 = flops};

	CHECK_EQ(proton_metrics_add(proton_context_here(), &metric, 1, NULL), PROTON_OK);
}

TEST(a_body_that_does_not_run_counts_nothing_and_goes_with_its_graph)
{
	int session = start();
	uint32_t graph = fake.graph_create();
	uint32_t body, exec;

	capture(graph, "always", 1);
	body = fake.graph_add_body(graph);
	uint64_t token = proton_scope_enter("sometimes");
	fake.call(CUPTI_CALL_BEGIN_CAPTURE_TO_GRAPH, 0);
	add_flops(100);
	fake.graph_capture_kernel(body, "node");
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	proton_scope_exit(token, NULL);
	exec = fake.graph_instantiate(graph);
	for (int i = 0; i < 10; i++)
		fake.graph_launch(exec, "node", i % 5 == 0);
	CHECK_EQ(captured_nodes_count(), 4);
	fake.graph_destroy(graph);
	CHECK_EQ(captured_nodes_count(), 2);
	fake.graph_exec_destroy(exec);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_EQ(captured_nodes_count(), 0);
	EXPECT(finish(), {"<captured_at>/always/node", 10}, {"<captured_at>/sometimes/node", 2},
	       {"<captured_at>/sometimes", 200, "flops"});
}

TEST(an_updated_executable_shows_the_capture_it_was_updated_from)
{
	uint32_t exec, graph;

	start();
	exec = captured_exec("before", 2);
	replay(exec, 1);
	graph = fake.graph_create();
	capture(graph, "after", 2);
	proton_deactivate(0, true, NULL); /* records are attributed on arrival */
	proton_activate(0, NULL);
	fake.graph_update(exec, graph);
	fake.graph_destroy(graph);
	replay(exec, 5);
	EXPECT(finish(), {"replay/<captured_at>/before/node", 2},
	       {"replay/<captured_at>/after/node", 10});
}

TEST(before_13_0_an_updated_executable_keeps_its_first_capture)
{
	uint32_t exec, graph;

	ONLY_CUDA("this is about versions of CUPTI");
	setenv("FAKE_CUPTI_VERSION", "26", 1);
	start();
	exec = captured_exec("before", 2);
	graph = fake.graph_create();
	capture(graph, "after", 2);
	fake.graph_update(exec, graph);
	replay(exec, 5);
	EXPECT(finish(), {"replay/<captured_at>/before/node", 10});
}

/* cuGraphAddKernelNode(): the node belongs to the context where it was added. */
TEST(a_node_added_without_a_capture_belongs_to_where_it_was_added)
{
	uint32_t graph;

	ONLY_CUDA("HIP does not report nodes that are added to a graph");
	start();
	graph = fake.graph_create();
	uint64_t token = proton_scope_enter("built");
	fake.graph_add_kernel(graph);
	fake.graph_add_kernel(graph);
	add_flops(7); /* no capture: a value of the scope, recorded once */
	proton_scope_exit(token, NULL);
	replay(fake.graph_instantiate(graph), 3);
	EXPECT(finish(), {"replay/<captured_at>/built/node", 6}, {"built", 7, "flops"});
}

TEST(a_graph_from_before_the_start_is_named_by_its_records_and_leaves_nothing)
{
	uint32_t graph, exec;

	load_fake();
	graph = fake.graph_create();
	fake.graph_add_kernel(graph);
	fake.graph_add_kernel(graph);
	exec = fake.graph_instantiate(graph);
	start();
	replay(exec, 5);
	CHECK_EQ(captured_nodes_count(), 0);
	/* Another executable of the same graph is not known either. */
	replay(fake.graph_instantiate(graph), 1);
	CHECK_EQ(captured_nodes_count(), 0);
	EXPECT(finish(), {"replay/node", 12});
}

TEST(a_graph_from_before_the_start_is_reported_once_with_upstreams_text)
{
	uint32_t graph, exec;

	load_fake();
	graph = fake.graph_create();
	fake.graph_add_kernel(graph);
	exec = fake.graph_instantiate(graph);
	rec_begin_saying();
	for (int i = 1; i <= 2; i++) {
		start();
		replay(exec, 2);
		replay(fake.graph_instantiate(graph), 1);
		finish();
		CHECK_EQ(rec_printed("Cannot find graph for graphExecId: "), i); /* each session */
		CHECK_EQ(rec_printed("; start profiling before the graph is created"), i);
	}
}

TEST(two_sessions_and_a_pause_in_the_middle_of_a_capture)
{
	struct proton_error err;

	start();
	int second = start_named("b", tested_backend(), &err);
	uint32_t graph = fake.graph_create();
	fake.call(CUPTI_CALL_BEGIN_CAPTURE, 0);
	fake.graph_capture_kernel(graph, "node");
	proton_deactivate(second, true, NULL);
	fake.graph_capture_kernel(graph, "node");
	proton_activate(second, NULL);
	fake.graph_capture_kernel(graph, "node");
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	replay(fake.graph_instantiate(graph), 2);
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
	EXPECT(rec_load("a.proton"), {"replay/<captured_at>/node", 6});
	EXPECT(rec_load("b.proton"), {"replay/<captured_at>/node", 4});
}

TEST(a_session_may_end_in_the_middle_of_a_capture_and_the_next_begin_in_it)
{
	start();
	uint32_t graph = fake.graph_create();
	fake.call(CUPTI_CALL_BEGIN_CAPTURE, 0);
	fake.graph_capture_kernel(graph, "node");
	rec_finalize(PROTON_ALL_SESSIONS, "none");
	CHECK_EQ(captured_nodes_count(), 0);
	int session = start();
	fake.graph_capture_kernel(graph, "node");
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	replay(fake.graph_instantiate(graph), 2);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_EQ(fake.synchronized(), 1); /* no capture counts as open */
	struct profile *profile = finish();
	/* HIP has no ids of nodes: a capture that was seen in part is not known. */
	EXPECT(profile, {"replay/<captured_at>/node", tests_cuda() ? 2 : 0},
	       {"replay/node", tests_cuda() ? 2 : 4});
}

/* A program that captures graphs forever and never asks for its data. */
TEST(ten_thousand_captures_without_a_flush_keep_memory_bounded)
{
	uint64_t captured;
	size_t max = 0;

	start();
	captured_nodes_set_patience(0);
	for (int i = 0; i < 10000; i++) {
		uint32_t exec = captured_exec("cap", 2);

		replay(exec, 1);
		fake.graph_exec_destroy(exec);
		if (captured_nodes_count() > max)
			max = captured_nodes_count();
	}
	/* 20000 are captured. Launches continue during a flush, which may take long. */
	CHECK_LT(max, 10000);
	struct profile *profile = finish();
	captured = rec_count(profile, "replay/<captured_at>/cap/node");
	/* Without patience a graph may be forgotten before its records arrive. */
	CHECK_LE(15000, captured);
	if (captured < 20000)
		captured += rec_count(profile, "replay/node");
	CHECK_U64(captured, 20000);
}

static uint32_t calls_so_far(void)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < sizeof(entry_names) / sizeof(entry_names[0]); i++)
		sum += fake.calls(entry_names[i].name);
	return sum;
}

TEST(a_replay_calls_nothing_of_cupti_whatever_its_nodes)
{
	bool is_quiet = false;

	ONLY_CUDA("this counts calls of CUPTI");
	start();
	uint32_t exec = captured_exec("cap", 100);
	/* The periodic flush, which does call CUPTI, runs during some of these. */
	for (int i = 0; i < 100 && !is_quiet; i++) {
		uint32_t before = calls_so_far();

		replay(exec, 50);
		is_quiet = calls_so_far() == before;
	}
	CHECK(is_quiet);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}

#define CAPTURERS 8

static void *capture_many(void *data)
{
	char scope[16];

	snprintf(scope, sizeof(scope), "t%d", (int)(intptr_t)data);
	for (int i = 0; i < 50; i++) {
		uint32_t exec = captured_exec(scope, 3);

		replay(exec, 2);
		fake.graph_exec_destroy(exec);
	}
	return NULL;
}

TEST(threads_may_capture_replay_and_destroy_while_others_flush)
{
	pthread_t threads[CAPTURERS];
	int session = start();

	for (int i = 0; i < CAPTURERS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, capture_many, (void *)(intptr_t)i), 0);
	for (int i = 0; i < 10; i++) {
		char *bytes;
		size_t length;

		CHECK_EQ(proton_data_get(session, 0, NULL, &bytes, &length, NULL), PROTON_OK);
		proton_free(bytes);
	}
	for (int i = 0; i < CAPTURERS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "kernels"), CAPTURERS * 50 * 3 * 2);
	CHECK_EQ(captured_nodes_count(), 0);
	struct profile *profile = finish();
	for (int i = 0; i < CAPTURERS; i++) {
		char path[48];

		snprintf(path, sizeof(path), "replay/<captured_at>/t%d/node", i);
		CHECK_U64(rec_count(profile, path), 50 * 3 * 2);
	}
}

static _Atomic bool stop_replaying;
static uint64_t waiting_max; /* records waiting for delivery; the fake takes any number */
static _Atomic uint64_t replays;
static int other_session;

/* At the pace at which the records are read. */
static void *replay_without_end(void *exec)
{
	while (!atomic_load(&stop_replaying)) {
		for (int i = 0; i < 100; i++) {
			fake.graph_launch(*(uint32_t *)exec, "node", true);
			atomic_fetch_add(&replays, 1);
		}
		while (!atomic_load(&stop_replaying) &&
		       2 * atomic_load(&replays) >
			       rec_counter(other_session, "kernels") + waiting_max)
			sched_yield();
	}
	return NULL;
}

/* While two threads replay without end, each flush has what was replayed before it. */
static void flush_while_others_replay(uint64_t rounds, uint64_t records)
{
	int session = start();
	uint32_t endless = captured_exec("endless", 2);
	uint32_t own = captured_exec("own", 3);
	pthread_t threads[2];

	waiting_max = records;
	other_session = start_named("b", tested_backend(), NULL); /* is active throughout */
	CHECK_LE(0, other_session);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, replay_without_end, &endless), 0);
	for (uint64_t i = 1; i <= rounds; i++) {
		uint64_t before = atomic_load(&replays);
		struct profile *profile;

		replay(own, 1);
		CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
		profile = rec_load("a.proton");
		CHECK_U64(rec_count(profile, "replay/<captured_at>/own/node"), 3 * i);
		CHECK(i > 1 || rec_count(profile, "<captured_at>/endless/node") >= 2 * before);
		CHECK_EQ(proton_activate(session, NULL), PROTON_OK);
	}
	atomic_store(&stop_replaying, true);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	finish();
}

TEST(a_flush_ends_while_other_threads_replay_without_end)
{
	flush_while_others_replay(20, 1000);
}

static void wait_for_periodic_flush(void)
{
	const struct timespec tick = {.tv_nsec = 100000};
	const char *flush = tests_cuda()                 ? "cuptiActivityFlushAll"
			    : tests_backend("roctracer") ? "roctracer_flush_activity_expl"
							 : "flush_buffer";
	uint32_t before = fake.calls(flush);

	while (fake.calls(flush) == before && !atomic_load(&stop_replaying))
		nanosleep(&tick, NULL);
}

/* Reading the delivered records takes longer than a flush waits after later replays have come. */
TEST(a_flush_waits_while_another_delivers_its_records)
{
	NOT_WITH("roctracer", "4096 replays stay known (hip_replays.c), and the oldest come last");
	load_fake();
	fake.set_waiting(wait_for_periodic_flush);
	/* For HIP, of fewer replays than wait at a time (hip_replays.c). */
	flush_while_others_replay(3, tests_cuda() ? 60000 : 4000);
}
