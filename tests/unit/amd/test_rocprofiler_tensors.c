/* Device metrics and graphs of the backend "rocprofiler", over the fakes of the SDK and of HIP. */
#include "unit/amd/hip_controls.h"
#include "unit/cuda/cuda_session.h"

#include "backend/gpu/captured_nodes.h"

static int start_hip(void)
{
	find_hip();
	return start();
}

static void add_loss(const double *loss, uint64_t stream)
{
	struct proton_device_metric metric = device_double("loss", loss, stream);

	CHECK_DONE(proton_metrics_add_device(proton_context_here(), &metric, &err));
}

TEST(a_flush_waits_for_the_values_of_a_stream)
{
	int session = start_hip();
	uint64_t token = proton_scope_enter("step");
	double loss = 0;

	hip_fake.hold_streams(true);
	fake.set_waiting(hip_fake.run_held); /* the GPU works while the flush waits for it */
	launch_ns("k", 5);
	add_loss(&loss, 0x5010);
	add_loss(&loss, 0);
	loss = 1.5;
	proton_scope_exit(token, NULL);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "kernels"), 1);
	EXPECT(finish(), {"step", 3, "loss"}, {"step/k", 1});
}

TEST(each_replay_has_its_value_and_its_kernels)
{
	uint32_t graph, exec;
	double loss = 0;

	start_hip();
	hip_fake.set_capture_number(1);
	graph = fake.graph_create();
	uint64_t token = proton_scope_enter("cap");
	fake.call(CUPTI_CALL_BEGIN_CAPTURE, 0);
	fake.graph_capture_kernel(graph, "node");
	add_loss(&loss, fake.capture_stream());
	fake.graph_capture_kernel(graph, "node");
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	proton_scope_exit(token, NULL);
	exec = fake.graph_instantiate(graph);
	for (int i = 0; i < 6; i++) {
		token = proton_scope_enter(i % 2 ? "odd" : "even");
		fake.graph_launch(exec, "node", true);
		proton_scope_exit(token, NULL);
		loss = 1 << i;
		hip_fake.run_captured();
	}
	fake.graph_destroy(graph);
	fake.graph_exec_destroy(exec);
	EXPECT(finish(), {"even/<captured_at>/cap", 1 + 4 + 16, "loss"},
	       {"odd/<captured_at>/cap", 2 + 8 + 32, "loss"}, {"even/<captured_at>/cap/node", 6},
	       {"odd/<captured_at>/cap/node", 6});
	CHECK_EQ(captured_nodes_count(), 0);
}

/* A graph of one kernel, launched while the runtime has a kernel to run before it. */
static void run_something_before_a_graph(const char *version, const char *node, int reports)
{
	uint32_t graph, exec;

	setenv("FAKE_SDK_VERSION", version, 1);
	start_hip();
	rec_begin_saying();
	graph = fake.graph_create();
	fake.call(CUPTI_CALL_BEGIN_CAPTURE, 0);
	fake.graph_capture_kernel(graph, "node");
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	exec = fake.graph_instantiate(graph);
	sdk.extra_dispatches(1);
	fake.graph_launch(exec, "node", true);
	EXPECT(finish(), {node, 1}, {"__amd_rocclr_initHeap", 1});
	CHECK_EQ(rec_printed("another number of kernels"), reports);
}

TEST(with_events_of_graphs_work_of_the_runtime_is_not_taken_for_the_graphs)
{
	run_something_before_a_graph("10300", "<captured_at>/node", 0);
}

TEST(without_events_a_graph_with_work_of_the_runtime_is_shown_by_name)
{
	run_something_before_a_graph("10201", "node", 1);
}
