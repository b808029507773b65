/* Device metrics and graphs of the backend "rocprofiler", over the fakes of the SDK and of HIP. */
#include "unit/cuda/cuda_session.h"

#include <math.h>

#include "backend/gpu/captured_nodes.h"

static struct {
	uint64_t (*capture_stream)(void);
	void (*set_capture_number)(uint64_t number);
	void (*run_captured)(void);
	void (*hold_streams)(bool is_held);
	void (*run_held)(void);
} hip;

static int start_hip(void)
{
	int session = start();
	void *sdk = fake_open("PROTON_ROCPROFILER_SDK_PATH");
	void *library = fake_open("PROTON_HIP_PATH");

	fake_find(&hip.capture_stream, sdk, "fake_capture_stream");
	fake_find(&hip.set_capture_number, library, "fake_set_capture_number");
	fake_find(&hip.run_captured, library, "fake_run_captured");
	fake_find(&hip.hold_streams, library, "fake_hold_streams");
	fake_find(&hip.run_held, library, "fake_run_held");
	return session;
}

static void add_loss(const double *loss, uint64_t stream)
{
	struct proton_device_metric metric = device_double("loss", loss, stream);
	struct proton_error err = {0};

	CHECK_OK(proton_metrics_add_device(proton_context_here(), &metric, &err), err);
}

static double value_of(const struct profile *profile, const char *path)
{
	const struct profile_value *value = rec_value(profile, path, "loss");

	return value ? value->as.float64 : NAN;
}

TEST(a_flush_waits_for_the_values_of_a_stream)
{
	struct profile *profile;
	int session = start_hip();
	uint64_t token = proton_scope_enter("step");
	double loss = 0;

	hip.hold_streams(true);
	fake.set_waiting(hip.run_held); /* the GPU works while the flush waits for it */
	launch_ns("k", 5);
	add_loss(&loss, 0x5010);
	add_loss(&loss, 0);
	loss = 1.5;
	proton_scope_exit(token, NULL);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "kernels"), 1);
	profile = finish();
	CHECK_NEAR(value_of(profile, "step"), 3, 0);
	CHECK_U64(rec_count(profile, "step/k"), 1);
	profile_free(profile);
}

TEST(each_replay_has_its_value_and_its_kernels)
{
	struct profile *profile;
	uint64_t token;
	uint32_t graph;
	uint32_t exec;
	double loss = 0;

	start_hip();
	hip.set_capture_number(1);
	graph = fake.graph_create();
	token = proton_scope_enter("cap");
	fake.call(CUPTI_CALL_BEGIN_CAPTURE, 0);
	fake.graph_capture_kernel(graph, "node");
	add_loss(&loss, hip.capture_stream());
	fake.graph_capture_kernel(graph, "node");
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	proton_scope_exit(token, NULL);
	exec = fake.graph_instantiate(graph);
	for (int i = 0; i < 6; i++) {
		token = proton_scope_enter(i % 2 ? "odd" : "even");
		fake.graph_launch(exec, "node", true);
		proton_scope_exit(token, NULL);
		loss = 1 << i;
		hip.run_captured();
	}
	fake.graph_destroy(graph);
	fake.graph_exec_destroy(exec);
	profile = finish();
	CHECK_NEAR(value_of(profile, "even/<captured_at>/cap"), 1 + 4 + 16, 0);
	CHECK_NEAR(value_of(profile, "odd/<captured_at>/cap"), 2 + 8 + 32, 0);
	CHECK_U64(rec_count(profile, "even/<captured_at>/cap/node"), 6);
	CHECK_U64(rec_count(profile, "odd/<captured_at>/cap/node"), 6);
	CHECK_EQ(captured_nodes_count(), 0);
	profile_free(profile);
}

/* A graph of one kernel, launched while the runtime has a kernel to run before it. */
static struct profile *run_something_before_a_graph(const char *version)
{
	void *sdk = fake_open("PROTON_ROCPROFILER_SDK_PATH");
	void (*extra_dispatches)(uint32_t count);
	uint32_t graph;
	uint32_t exec;

	setenv("FAKE_SDK_VERSION", version, 1);
	fake_find(&extra_dispatches, sdk, "fake_sdk_extra_dispatches");
	start_hip();
	rec_begin_saying();
	graph = fake.graph_create();
	fake.call(CUPTI_CALL_BEGIN_CAPTURE, 0);
	fake.graph_capture_kernel(graph, "node");
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	exec = fake.graph_instantiate(graph);
	extra_dispatches(1);
	fake.graph_launch(exec, "node", true);
	return finish();
}

TEST(with_events_of_graphs_work_of_the_runtime_is_not_taken_for_the_graphs)
{
	struct profile *profile = run_something_before_a_graph("10300");

	CHECK_U64(rec_count(profile, "<captured_at>/node"), 1);
	CHECK_U64(rec_count(profile, "__amd_rocclr_initHeap"), 1);
	CHECK_EQ(rec_printed("another number of kernels"), 0);
	profile_free(profile);
}

TEST(without_events_a_graph_with_work_of_the_runtime_is_shown_by_name)
{
	struct profile *profile = run_something_before_a_graph("10201");

	CHECK_U64(rec_count(profile, "node"), 1);
	CHECK_U64(rec_count(profile, "__amd_rocclr_initHeap"), 1);
	CHECK_EQ(rec_printed("another number of kernels"), 1);
	profile_free(profile);
}
