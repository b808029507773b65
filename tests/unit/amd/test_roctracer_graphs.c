/* roctracer backend: HIP graphs and device metrics, with fake libraries. */
#include "unit/amd/hip_controls.h"
#include "unit/amd/roctracer_session.h"

#include "record/backend.h"
#include "record/names/frames.h"
#include "record/record.h"
#include "record/thread/captured.h"

#define STREAM ((void *)0x5010)
#define OTHER_STREAM ((void *)0x5020)
#define GRAPH 0x8000u
#define EXEC 0x9000u

/* A call on graphs, with its arguments in HIP's structure. */
static void call(const char *name, uint64_t a, uint64_t b, uint64_t c)
{
	struct fake_hip_launch launch = {.call = name, .words = {a, b, c}};

	tracer.hip_call(&launch);
}

static void begin_capture(void)
{
	static uint64_t captures;

	find_hip();
	hip_fake.set_capture_number(++captures);
	call("hipStreamBeginCapture", (uintptr_t)STREAM, 0, 0);
}

/* The capture becomes `graph`, and its executable `exec`. */
static void end_capture(uint64_t graph, uint64_t exec)
{
	call("hipStreamEndCapture", (uintptr_t)STREAM, (uintptr_t)&graph, graph);
	call("hipGraphInstantiate", (uintptr_t)&exec, exec, graph);
}

static void capture(const char *name)
{
	struct fake_hip_launch launch = kernel(name, 0);

	launch.stream = STREAM;
	launch.is_captured = true;
	tracer.hip_call(&launch);
}

static void capture_copy(void)
{
	struct fake_hip_launch launch = {
		.call = "hipMemcpyAsync", .stream = STREAM, .is_captured = true};

	tracer.hip_call(&launch);
}

/* A replay with these kernels. */
static void replay(uint64_t exec, const char *const *names, uint32_t count)
{
	struct fake_hip_launch launch = {
		.call = "hipGraphLaunch",
		.names = names,
		.records = count,
		.kind = ROCTRACER_COMMAND_TASK,
		.node = NODE_FIRST,
		.stream = STREAM,
		.start_ns = 1000,
		.end_ns = 1010,
		.graph = (void *)(uintptr_t)exec,
	};

	tracer.hip_call(&launch);
}

static void add_flops(double flops)
{
	struct proton_metric metric = {
		.name = "flops16", .type = PROTON_METRIC_DOUBLE, .value.float64 = flops};

	CHECK_EQ(proton_metrics_add(proton_context_here(), &metric, 1, NULL), PROTON_OK);
}

static const char *const two[] = {"node", "raw_symbol"};

/* "node", and within the op "mm_64", which has flops, another one. */
static void capture_two(void)
{
	struct proton_context where;

	begin_capture();
	uint64_t token = proton_scope_enter("cap");
	capture("node");
	proton_op_enter(proton_frame("mm_64", 5), &where);
	add_flops(100);
	capture("raw_symbol");
	proton_op_exit();
	proton_scope_exit(token, NULL);
	end_capture(GRAPH, EXEC);
}

TEST(captured_launches_are_not_waited_for)
{
	int session = start();

	capture_two();
	launch_ns("k", 5);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "lost: kernel record never received"), 0);
	CHECK_U64(rec_counter(session, "kernels"), 1);
	rec_finalize(session, "none");
}

TEST(a_launch_into_another_stream_during_a_capture_runs)
{
	struct fake_hip_launch launch = kernel("k", 5);

	start();
	begin_capture();
	uint64_t token = proton_scope_enter("cap");
	capture("node");
	launch.stream = OTHER_STREAM;
	tracer.hip_call(&launch);
	proton_scope_exit(token, NULL);
	end_capture(GRAPH, EXEC);
	replay(EXEC, two, 1);
	EXPECT(finish(), {"cap/k", 1}, {"<captured_at>/cap/node", 1});
}

/* Nothing is attributed to the wrong kernel. */
TEST(a_replay_with_another_number_of_kernels_is_shown_by_name)
{
	static const char *const three[] = {"node", "raw_symbol", "unknown"};

	start();
	rec_begin_saying();
	capture_two();
	replay(EXEC, three, 3);
	struct profile *profile = finish();
	CHECK_U64(rec_count(profile, "<captured_at>/cap/node") + rec_count(profile, "node"), 1);
	EXPECT(profile, {"unknown", 1}, {"<captured_at>/cap/unknown", 0});
}

TEST(captured_copies_belong_to_their_scope)
{
	static const uint32_t kinds[] = {ROCTRACER_COMMAND_TASK, ROCTRACER_COMMAND_DTOD};
	struct fake_hip_launch launch = {
		.call = "hipGraphLaunch",
		.name = "node",
		.records = 2,
		.kinds = kinds,
		.node = NODE_FIRST,
		.start_ns = 1000,
		.end_ns = 1010,
		.bytes = 64,
		.graph = (void *)(uintptr_t)EXEC,
	};

	start_options((struct proton_session_options){.flags = PROTON_SESSION_MEMORY});
	begin_capture();
	uint64_t token = proton_scope_enter("cap");
	capture("node");
	capture_copy();
	proton_scope_exit(token, NULL);
	end_capture(GRAPH, EXEC);
	tracer.hip_call(&launch);
	EXPECT(finish(), {"<captured_at>/cap/node", 1},
	       {"<captured_at>/cap/Memcpy DtoD (Device -> Device)", 1});
}

/* ------------------------------------------------------------------ device metrics */

static int releases;

static void on_release(void *user)
{
	releases++;
}

static void read_loss(const double *loss)
{
	struct device_metric metric = {
		.where = proton_context_here(),
		.name = metric_names_add("loss"),
		.type = PROTON_METRIC_DOUBLE,
		.element = PROTON_ELEMENT_FLOAT64,
		.count = 1,
		.bytes = sizeof(*loss),
		.address = (uintptr_t)loss,
		.stream = (uintptr_t)STREAM,
		.release = on_release,
	};

	CHECK_DONE(roctracer_backend.read_metric(&metric, &err));
}

TEST(numbers_in_device_memory_are_metrics)
{
	double loss = 21;

	start();
	uint64_t token = proton_scope_enter("step");
	read_loss(&loss);
	read_loss(&loss);
	launch_ns("k", 5);
	proton_scope_exit(token, NULL);
	EXPECT(finish(), {"step", 42, "loss"});
	CHECK_EQ(releases, 2);
}

TEST(numbers_that_a_capture_reads_are_read_by_each_replay)
{
	double loss = 0;

	start();
	begin_capture();
	uint64_t token = proton_scope_enter("cap");
	capture("node");
	read_loss(&loss);
	proton_scope_exit(token, NULL);
	end_capture(GRAPH, EXEC);
	for (int i = 1; i <= 3; i++) {
		loss = i;
		replay(EXEC, two, 1);
		hip_fake.run_captured();
	}
	EXPECT(finish(), {"<captured_at>/cap/node", 3}, {"<captured_at>/cap", 6, "loss"});
}
