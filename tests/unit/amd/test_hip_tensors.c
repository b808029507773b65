/*
 * Device metrics on AMD: copies and host functions of the fake libamdhip64, eager and in graphs,
 * without a backend's library.
 */
#include "unit/fakes.h"
#include "unit/recorded.h"

#include "backend/amd/hip_graphs.h"
#include "backend/amd/hip_replays.h"
#include "backend/amd/hip_tensors.h"
#include "backend/gpu/captured_nodes.h"
#include "backend/gpu/launches.h"
#include "driver/hip_streams.h"
#include "record/names/metric_names.h"
#include "record/record.h"
#include "record/thread/captured.h"
#include "record/thread/correlate.h"

#define STREAM 0x5010u
#define EXEC 0x9000u
#define GRAPH 0x8000u

static struct {
	void (*set_capture)(uint64_t stream, int status);
	void (*set_capture_number)(uint64_t number);
	void (*run_captured)(void);
	void (*hold_streams)(bool is_held);
	void (*run_held)(void);
	void (*fail)(const char *name, uint32_t first, uint32_t count, int code);
	uint32_t (*unsafe_calls)(void);
	int (*copied_on)(void);
	void (*set_memory_device)(int device);
	int (*set_device)(int device);
	int (*get_device)(int *device);
} hip;

static uint32_t last_correlation;
static int releases;

static int start(void)
{
	void *library = fake_open("PROTON_HIP_PATH");
	int session = rec_start("a");

	fake_find(&hip.set_capture, library, "fake_set_capture");
	fake_find(&hip.set_capture_number, library, "fake_set_capture_number");
	fake_find(&hip.run_captured, library, "fake_run_captured");
	fake_find(&hip.hold_streams, library, "fake_hold_streams");
	fake_find(&hip.run_held, library, "fake_run_held");
	fake_find(&hip.fail, library, "fake_fail");
	fake_find(&hip.unsafe_calls, library, "fake_unsafe_calls");
	fake_find(&hip.copied_on, library, "fake_copied_on");
	fake_find(&hip.set_memory_device, library, "fake_set_memory_device");
	fake_find(&hip.set_device, library, "hipSetDevice");
	fake_find(&hip.get_device, library, "hipGetDevice");
	CHECK_EQ(correlate_init(NULL), PROTON_OK);
	launches_start();
	tensors_start(&hip_tensors_reader);
	hip_replays_start(HIP_REPLAYS_BY_REQUEST);
	return session;
}

static void flush(void)
{
	tensors_collect();
	hip_replays_settle(last_correlation);
	tensors_settle();
	captured_nodes_forget_destroyed(UINT64_MAX);
}

static struct profile *finish(int session)
{
	flush();
	rec_finalize(session, "proton");
	correlate_clear();
	hip_replays_clear();
	hip_graphs_clear();
	captured_nodes_clear();
	captured_clear();
	tensors_stop();
	launches_stop();
	return rec_load("a.proton");
}

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

	hip.set_capture_number(7);
	hip.set_capture(STREAM, 1);
	hip_graphs_on_call(HIP_GRAPH_BEGIN_CAPTURE, arguments, false, false, false);
}

/* Ends the capture; EXEC is the graph's executable. */
static void end_capture(void)
{
	uint64_t graph = GRAPH;
	uint64_t exec = EXEC;
	uint64_t arguments[3] = {STREAM, (uintptr_t)&graph};

	hip_graphs_on_call(HIP_GRAPH_END_CAPTURE, arguments, false, true, false);
	hip.set_capture(0, 0);
	hip_graphs_on_call(HIP_GRAPH_END_CAPTURE, arguments, false, false, false);
	arguments[0] = (uintptr_t)&exec;
	arguments[1] = graph;
	hip_graphs_on_call(HIP_GRAPH_INSTANTIATE, arguments, false, false, false);
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

static double value_of(const struct profile *profile, const char *path, const char *metric)
{
	const struct profile_value *value = rec_value(profile, path, metric);

	if (!value)
		FAIL("no %s at %s", metric, path);
	return value->as.float64;
}

/* ------------------------------------------------------------------ tests */

TEST(a_value_is_read_in_stream_order_without_waiting)
{
	int session = start();
	uint64_t token = proton_scope_enter("eager");
	double loss = 1;
	struct profile *profile;

	hip.hold_streams(true);
	CHECK_EQ(read_numbers("loss", &loss, 1), PROTON_OK);
	CHECK_EQ(read_numbers("loss", &loss, 1), PROTON_OK);
	proton_scope_exit(token, NULL);
	loss = 20; /* the kernel that computes it has run now */
	tensors_collect();
	CHECK_EQ(releases, 0);
	hip.run_held();
	flush();
	CHECK_EQ(releases, 2);
	profile = finish(session);
	CHECK_NEAR(value_of(profile, "eager", "loss"), 40, 0);
	profile_free(profile);
}

/* The device of the thread after a read on a stream. */
static int read_with_device(uint64_t stream, int current)
{
	static const double loss = 3;
	int device = -1;

	CHECK_EQ(hip.set_device(current), 0);
	CHECK_EQ(read_on(stream, "loss", &loss, 1), PROTON_OK);
	CHECK_EQ(hip.get_device(&device), 0);
	return device;
}

TEST(a_default_stream_is_that_of_the_device_of_the_memory)
{
	int session = start();
	struct profile *profile;

	hip.hold_streams(true);
	for (uint64_t stream = 0; stream <= 2; stream++) {
		hip.set_memory_device(1);
		CHECK_EQ(read_with_device(stream, 0), 0);
		CHECK_EQ(hip.copied_on(), 1);
		CHECK_EQ(read_with_device(stream, 1), 1);
		CHECK_EQ(hip.copied_on(), 1);
		/* Unknown memory: the current device, as HIP has it. */
		hip.set_memory_device(-1);
		CHECK_EQ(read_with_device(stream, 0), 0);
		CHECK_EQ(hip.copied_on(), 0);
		CHECK_EQ(read_with_device(stream, 1), 1);
		CHECK_EQ(hip.copied_on(), 1);
	}
	/* Another stream has its device. */
	hip.set_memory_device(1);
	CHECK_EQ(read_with_device(STREAM, 0), 0);
	CHECK_EQ(hip.copied_on(), 0);
	hip.run_held();
	profile = finish(session);
	CHECK_NEAR(value_of(profile, "", "loss"), 39, 0);
	profile_free(profile);
}

TEST(vectors_of_all_sizes_are_read)
{
	static double numbers[PROTON_DEVICE_METRIC_MAX_BYTES / sizeof(double)];
	uint32_t max = PROTON_DEVICE_METRIC_MAX_BYTES / sizeof(double);
	int session = start();
	struct profile *profile;

	for (uint32_t i = 0; i < max; i++)
		numbers[i] = i;
	for (int i = 0; i < 100; i++) {
		CHECK_EQ(read_numbers("v2", numbers + 1, 2), PROTON_OK);
		CHECK_EQ(read_numbers("v9", numbers, 9), PROTON_OK);
		CHECK_EQ(read_numbers("all", numbers, max), PROTON_OK);
	}
	profile = finish(session);
	CHECK_EQ(releases, 300);
	CHECK(rec_value(profile, "", "v2"));
	CHECK(rec_value(profile, "", "v9"));
	CHECK(rec_value(profile, "", "all"));
	profile_free(profile);
}

TEST(each_replay_adds_its_value_below_itself)
{
	int session = start();
	uint64_t token = proton_scope_enter("cap");
	double loss = 0;
	struct profile *profile;

	begin_capture();
	CHECK_EQ(read_numbers("loss", &loss, 1), PROTON_OK);
	end_capture();
	proton_scope_exit(token, NULL);
	for (int i = 0; i < 10; i++) {
		replay(i % 2 ? "odd" : "even");
		loss = 1 << i;
		hip.run_captured();
	}
	CHECK_EQ(hip.unsafe_calls(), 0);
	profile = finish(session);
	CHECK_NEAR(value_of(profile, "even/<captured_at>/cap", "loss"), 341, 0);
	CHECK_NEAR(value_of(profile, "odd/<captured_at>/cap", "loss"), 682, 0);
	CHECK(!rec_value(profile, "cap", "loss"));
	CHECK_EQ(releases, 1);
	CHECK_EQ(captured_nodes_count(), 0);
	profile_free(profile);
}

/* A replay outside sessions has a value too, which belongs to no session. */
TEST(values_after_the_session_are_dropped)
{
	int session = start();
	double loss = 3;
	struct profile *profile;

	begin_capture();
	CHECK_EQ(read_numbers("loss", &loss, 1), PROTON_OK);
	end_capture();
	replay("one");
	hip.run_captured();
	profile_free(finish(session));
	for (int i = 0; i < 200000; i++)
		hip.run_captured(); /* more than the queue takes */
	session = start();
	CHECK_EQ(read_numbers("later", &loss, 1), PROTON_OK);
	profile = finish(session);
	CHECK_NEAR(value_of(profile, "", "later"), 3, 0);
	CHECK(!rec_value(profile, "", "loss"));
	profile_free(profile);
}

TEST(a_full_queue_counts_its_losses)
{
	int session = start();
	double loss = 3;

	hip.hold_streams(true);
	begin_capture();
	CHECK_EQ(read_numbers("loss", &loss, 1), PROTON_OK);
	end_capture();
	for (int i = 0; i < 300000; i++)
		hip.run_captured();
	tensors_collect();
	CHECK_LE(1, rec_counter(session, "lost: device or CUDA graph metric value"));
	profile_free(finish(session));
}

TEST(calls_that_fail_are_refused_and_lose_nothing_else)
{
	static const char *const calls[] = {"hipHostMalloc", "hipMemcpyDtoHAsync"};
	int session = start();
	double loss = 5;
	struct profile *profile;

	for (int i = 0; i < 2; i++) {
		hip.fail(calls[i], 1, 1, 999);
		CHECK_EQ(read_numbers("loss", &loss, 1), PROTON_E_UNSUPPORTED);
		CHECK_EQ(releases, 0);
	}
	CHECK_EQ(read_numbers("loss", &loss, 1), PROTON_OK);
	profile = finish(session);
	CHECK_EQ(releases, 1);
	CHECK_NEAR(value_of(profile, "", "loss"), 5, 0);
	profile_free(profile);
}

TEST(a_capture_that_has_failed_loses_the_value_and_reports_it_once)
{
	int session = start();
	double loss = 5;

	rec_begin_saying();
	hip.set_capture_number(7);
	hip.set_capture(STREAM, 2);
	CHECK_EQ(read_numbers("loss", &loss, 1), PROTON_OK);
	CHECK_EQ(read_numbers("loss", &loss, 1), PROTON_OK);
	hip.set_capture(0, 0);
	CHECK_EQ(releases, 2);
	CHECK_EQ(rec_printed("metric lost during HIP graph capture"), 1);
	CHECK_U64(rec_counter(session, "lost: device or CUDA graph metric value"), 2);
	profile_free(finish(session));
}

/* Asking about a legacy default stream, 0 or 1, would fail the captures of other streams. */
TEST(a_capture_has_a_number_unless_it_has_failed)
{
	int session = start();
	uint64_t number = 1;

	hip.set_capture_number(7);
	CHECK(!hip_streams_capture(STREAM, &number));
	for (uint64_t stream = 0; stream <= 2; stream++) {
		hip.set_capture(stream, 1);
		CHECK_EQ(hip_streams_capture(stream, &number), stream == 2);
		CHECK_U64(number, stream == 2 ? 7 : 1);
	}
	hip.set_capture(STREAM, 2);
	CHECK(hip_streams_capture(STREAM, &number));
	CHECK_U64(number, 0);
	hip.fail("hipStreamGetCaptureInfo", 1, 1, 999);
	CHECK(!hip_streams_capture(STREAM, &number));
	hip.set_capture(0, 0);
	profile_free(finish(session));
}

/* The beginning of the capture was not seen: the session started later. */
TEST(an_unknown_capture_loses_the_value)
{
	int session = start();
	double loss = 5;

	rec_begin_saying();
	hip.set_capture_number(9);
	hip.set_capture(STREAM, 1);
	CHECK_EQ(read_numbers("loss", &loss, 1), PROTON_OK);
	hip.set_capture(0, 0);
	CHECK_EQ(rec_printed("HIP did not report the captured node"), 1);
	CHECK_EQ(releases, 1);
	hip.run_captured();
	profile_free(finish(session));
}
