/* Device metrics on AMD: copies and host functions, eager and in graphs. */
#include "unit/amd/hip_session.h"

#include "driver/hip_functions.h"
#include "record/names/frames.h"

#define EXEC 0x9000u
#define GRAPH 0x8000u

static int releases;

static void on_release(void *user)
{
	releases++;
}

/* Reads `count` numbers at `address` on a stream. */
static int read_on(uint64_t stream, const char *name, const double *address, uint32_t count)
{
	struct device_metric metric = {
		.where = proton_context_here(),
		.name = metric_names_add(name),
		.type = count > 1 ? PROTON_METRIC_DOUBLE_VECTOR : PROTON_METRIC_DOUBLE,
		.element = PROTON_ELEMENT_FLOAT64,
		.count = count,
		.bytes = count * (uint32_t)sizeof(*address),
		.address = (uintptr_t)address,
		.stream = stream,
		.release = on_release,
	};
	struct proton_error err = {0};

	return tensors_read(&metric, &err);
}

static int read_numbers(const char *name, const double *address, uint32_t count)
{
	return read_on(STREAM, name, address, count);
}

/* ------------------------------------------------------------------ graphs */

static void begin_capture(void)
{
	uint64_t arguments[3] = {STREAM};

	hip_fake.set_capture_number(7);
	hip_fake.set_capture(STREAM, 1);
	hip_graphs_on_call(HIP_GRAPH_BEGIN_CAPTURE, arguments, false, false, false);
}

/* Ends the capture; EXEC is the graph's executable. */
static void end_capture(void)
{
	uint64_t graph = GRAPH;
	uint64_t exec = EXEC;
	uint64_t arguments[3] = {STREAM, (uintptr_t)&graph};

	hip_graphs_on_call(HIP_GRAPH_END_CAPTURE, arguments, false, true, false);
	hip_fake.set_capture(0, 0);
	hip_graphs_on_call(HIP_GRAPH_END_CAPTURE, arguments, false, false, false);
	arguments[0] = (uintptr_t)&exec;
	arguments[1] = graph;
	hip_graphs_on_call(HIP_GRAPH_INSTANTIATE, arguments, false, false, false);
}

/* EXEC reads the number. */
static void capture_loss(const double *loss)
{
	begin_capture();
	CHECK_EQ(read_numbers("loss", loss, 1), PROTON_OK);
	end_capture();
}

static void replay(const char *scope)
{
	uint64_t token = proton_scope_enter(scope);
	struct launch_call launch = {
		.correlation = ++last_correlation, .kind = LAUNCH_GRAPH, .records = LAUNCH_MANY};

	hip_replays_begin(EXEC, launch.correlation, launches_begin(&launch));
	hip_replays_end(false);
	launches_end(&launch, false);
	proton_scope_exit(token, NULL);
}

/* ------------------------------------------------------------------ tests */

TEST(a_value_is_read_in_stream_order_without_waiting)
{
	int session = start(HIP_REPLAYS_BY_REQUEST);
	uint64_t token = proton_scope_enter("eager");
	double loss = 1;

	hip_fake.hold_streams(true);
	CHECK_EQ(read_numbers("loss", &loss, 1), PROTON_OK);
	CHECK_EQ(read_numbers("loss", &loss, 1), PROTON_OK);
	proton_scope_exit(token, NULL);
	loss = 20; /* the kernel that computes it has run now */
	tensors_collect();
	CHECK_EQ(releases, 0);
	hip_fake.run_held();
	flush();
	CHECK_EQ(releases, 2);
	EXPECT(finish(session), {"eager", 40, "loss"});
}

/* The device of the thread after a read on a stream. */
static int read_with_device(uint64_t stream, int current)
{
	static const double loss = 3;
	int device = -1;

	CHECK_EQ(hip_fake.set_device(current), 0);
	CHECK_EQ(read_on(stream, "loss", &loss, 1), PROTON_OK);
	CHECK_EQ(hip_fake.get_device(&device), 0);
	return device;
}

TEST(a_default_stream_is_that_of_the_device_of_the_memory)
{
	int session = start(HIP_REPLAYS_BY_REQUEST);

	hip_fake.hold_streams(true);
	for (uint64_t stream = 0; stream <= 2; stream++) {
		hip_fake.set_memory_device(1);
		CHECK_EQ(read_with_device(stream, 0), 0);
		CHECK_EQ(hip_fake.copied_on(), 1);
		CHECK_EQ(read_with_device(stream, 1), 1);
		CHECK_EQ(hip_fake.copied_on(), 1);
		/* Unknown memory: the current device, as HIP has it. */
		hip_fake.set_memory_device(-1);
		CHECK_EQ(read_with_device(stream, 0), 0);
		CHECK_EQ(hip_fake.copied_on(), 0);
		CHECK_EQ(read_with_device(stream, 1), 1);
		CHECK_EQ(hip_fake.copied_on(), 1);
	}
	/* Another stream has its device. */
	hip_fake.set_memory_device(1);
	CHECK_EQ(read_with_device(STREAM, 0), 0);
	CHECK_EQ(hip_fake.copied_on(), 0);
	hip_fake.run_held();
	EXPECT(finish(session), {"", 39, "loss"});
}

TEST(vectors_of_all_sizes_are_read)
{
	static double numbers[PROTON_DEVICE_METRIC_MAX_BYTES / sizeof(double)];
	uint32_t max = PROTON_DEVICE_METRIC_MAX_BYTES / sizeof(double);
	int session = start(HIP_REPLAYS_BY_REQUEST);

	for (uint32_t i = 0; i < max; i++)
		numbers[i] = i;
	for (int i = 0; i < 100; i++) {
		CHECK_EQ(read_numbers("v2", numbers + 1, 2), PROTON_OK);
		CHECK_EQ(read_numbers("v9", numbers, 9), PROTON_OK);
		CHECK_EQ(read_numbers("all", numbers, max), PROTON_OK);
	}
	struct profile *profile = finish(session);
	CHECK_EQ(releases, 300);
	CHECK(rec_value(profile, "", "v2"));
	CHECK(rec_value(profile, "", "v9"));
	CHECK(rec_value(profile, "", "all"));
}

TEST(each_replay_adds_its_value_below_itself)
{
	int session = start(HIP_REPLAYS_BY_REQUEST);
	uint64_t token = proton_scope_enter("cap");
	double loss = 0;

	capture_loss(&loss);
	proton_scope_exit(token, NULL);
	for (int i = 0; i < 10; i++) {
		replay(i % 2 ? "odd" : "even");
		loss = 1 << i;
		hip_fake.run_captured();
	}
	CHECK_EQ(hip_fake.unsafe_calls(), 0);
	struct profile *profile = finish(session);
	CHECK(!rec_value(profile, "cap", "loss"));
	CHECK_EQ(releases, 1);
	CHECK_EQ(captured_nodes_count(), 0);
	EXPECT(profile, {"even/<captured_at>/cap", 341, "loss"},
	       {"odd/<captured_at>/cap", 682, "loss"});
}

/* A replay outside sessions has a value too, which belongs to no session. */
TEST(values_after_the_session_are_dropped)
{
	int session = start(HIP_REPLAYS_BY_REQUEST);
	double loss = 3;

	capture_loss(&loss);
	replay("one");
	hip_fake.run_captured();
	finish(session);
	for (int i = 0; i < 200000; i++)
		hip_fake.run_captured(); /* more than the queue takes */
	session = start(HIP_REPLAYS_BY_REQUEST);
	CHECK_EQ(read_numbers("later", &loss, 1), PROTON_OK);
	struct profile *profile = finish(session);
	CHECK(!rec_value(profile, "", "loss"));
	EXPECT(profile, {"", 3, "later"});
}

TEST(a_full_queue_counts_its_losses)
{
	int session = start(HIP_REPLAYS_BY_REQUEST);
	double loss = 3;

	hip_fake.hold_streams(true);
	capture_loss(&loss);
	for (int i = 0; i < 300000; i++)
		hip_fake.run_captured();
	tensors_collect();
	CHECK_LE(1, rec_counter(session, "lost: device or CUDA graph metric value"));
	finish(session);
}

TEST(calls_that_fail_are_refused_and_lose_nothing_else)
{
	static const char *const calls[] = {"hipHostMalloc", "hipMemcpyDtoHAsync"};
	int session = start(HIP_REPLAYS_BY_REQUEST);
	double loss = 5;

	for (int i = 0; i < 2; i++) {
		hip_fake.fail(calls[i], 1, 1, 999);
		CHECK_EQ(read_numbers("loss", &loss, 1), PROTON_E_UNSUPPORTED);
		CHECK_EQ(releases, 0);
	}
	CHECK_EQ(read_numbers("loss", &loss, 1), PROTON_OK);
	EXPECT(finish(session), {"", 5, "loss"});
	CHECK_EQ(releases, 1);
}

TEST(a_capture_that_has_failed_loses_the_value_and_reports_it_once)
{
	int session = start(HIP_REPLAYS_BY_REQUEST);
	double loss = 5;

	rec_begin_saying();
	hip_fake.set_capture_number(7);
	hip_fake.set_capture(STREAM, 2);
	CHECK_EQ(read_numbers("loss", &loss, 1), PROTON_OK);
	CHECK_EQ(read_numbers("loss", &loss, 1), PROTON_OK);
	hip_fake.set_capture(0, 0);
	CHECK_EQ(releases, 2);
	CHECK_EQ(rec_printed("metric lost during HIP graph capture"), 1);
	CHECK_U64(rec_counter(session, "lost: device or CUDA graph metric value"), 2);
	finish(session);
}

/* Asking about a legacy default stream, 0 or 1, would fail the captures of other streams. */
TEST(a_capture_has_a_number_unless_it_has_failed)
{
	int session = start(HIP_REPLAYS_BY_REQUEST);
	uint64_t number = 1;

	hip_fake.set_capture_number(7);
	CHECK(!hip_streams_capture(STREAM, &number));
	for (uint64_t stream = 0; stream <= 2; stream++) {
		hip_fake.set_capture(stream, 1);
		CHECK_EQ(hip_streams_capture(stream, &number), stream == 2);
		CHECK_U64(number, stream == 2 ? 7 : 1);
	}
	hip_fake.set_capture(STREAM, 2);
	CHECK(hip_streams_capture(STREAM, &number));
	CHECK_U64(number, 0);
	hip_fake.fail("hipStreamGetCaptureInfo", 1, 1, 999);
	CHECK(!hip_streams_capture(STREAM, &number));
	hip_fake.set_capture(0, 0);
	finish(session);
}

/* The beginning of the capture was not seen: the session started later. */
TEST(an_unknown_capture_loses_the_value)
{
	int session = start(HIP_REPLAYS_BY_REQUEST);
	double loss = 5;

	rec_begin_saying();
	hip_fake.set_capture_number(9);
	hip_fake.set_capture(STREAM, 1);
	CHECK_EQ(read_numbers("loss", &loss, 1), PROTON_OK);
	hip_fake.set_capture(0, 0);
	CHECK_EQ(rec_printed("HIP did not report the captured node"), 1);
	CHECK_EQ(releases, 1);
	hip_fake.run_captured();
	finish(session);
}
