/*
 * Device metrics, with the fake drivers: a kernel that appends to a ring buffer (CUDA,
 * tests/fake/cuda_append.c), copies and host functions (HIP, tests/fake/hip_fake_streams.c).
 */
#include "unit/cuda/cuda_session.h"

#include "backend/gpu/tensors.h"
#include "base/clock.h"
#include "fake/cuda_append.h"

#define STREAM 0x5000u
#define NODE(graph, index) ((uint64_t)(graph) << 32 | (index))
#define LOST "lost: device or CUDA graph metric value"

static struct {
	void (*set_on_launch)(fake_on_launch_fn);
	void (*set_capture)(uint64_t, int);
	void (*set_queueing)(bool);
	void (*run_queued)(void);
	void (*run_node)(uint32_t);
	uint32_t (*unsafe_calls)(void);
	/* HIP: copies captured so far are forgotten; one replay of the captured ones. */
	void (*set_capture_number)(uint64_t number);
	void (*run_captured)(void);
} device;

static uint32_t hip_graph; /* that is captured */
static uint32_t hip_exec;

static _Atomic int released;
static uint64_t now_ns = 1000;

static void count_release(void *user)
{
	CHECK(user == (void *)&device);
	atomic_fetch_add(&released, 1);
}

/* CUPTI's part when the appending kernel is launched. */
static void on_launch(bool is_captured, uint32_t node)
{
	fake.launch(&(struct fake_launch){.call = CUPTI_CALL_LAUNCH_KERNEL,
					  .name = "proton_append_metric",
					  .context = &device,
					  .records = is_captured ? 0 : 1,
					  .start_ns = 5,
					  .end_ns = 9});
	if (!is_captured)
		return;
	fake.graph_event(CUPTI_RESOURCE_GRAPHNODE_CREATED, NODE(1, node), 0,
			 CUDA_GRAPH_NODE_KERNEL);
	fake.graph_event(CUPTI_RESOURCE_GRAPHNODE_CLONED, NODE(2, node), NODE(1, node),
			 CUDA_GRAPH_NODE_KERNEL);
}

static int start_device_of_hip(void)
{
	int session = start();
	void *hip = fake_open("PROTON_HIP_PATH");

	fake_find(&device.set_queueing, hip, "fake_hold_streams");
	fake_find(&device.run_queued, hip, "fake_run_held");
	fake_find(&device.unsafe_calls, hip, "fake_unsafe_calls");
	fake_find(&device.set_capture_number, hip, "fake_set_capture_number");
	fake_find(&device.run_captured, hip, "fake_run_captured");
	device.set_queueing(false);
	atomic_store(&released, 0);
	return session;
}

static int start_device(void)
{
	if (!tests_cuda())
		return start_device_of_hip();
	int session = start();
	void *cuda = fake_open("PROTON_CUDA_PATH");

	fake_find(&device.set_on_launch, cuda, "fake_set_on_launch");
	fake_find(&device.set_capture, cuda, "fake_set_capture");
	fake_find(&device.set_queueing, cuda, "fake_set_queueing");
	fake_find(&device.run_queued, cuda, "fake_run_queued");
	fake_find(&device.run_node, cuda, "fake_run_node");
	fake_find(&device.unsafe_calls, cuda, "fake_unsafe_calls");
	device.set_on_launch(on_launch);
	device.set_capture(0, 0);
	device.set_queueing(false);
	atomic_store(&released, 0);
	return session;
}

static int add_at(struct proton_context where, const char *name, enum proton_metric_type type,
		  enum proton_element element, const void *address, uint32_t count,
		  struct proton_error *err)
{
	struct proton_device_metric metric =
		device_double(name, address, tests_cuda() ? STREAM : fake.capture_stream());

	metric.type = type;
	metric.element = element;
	metric.count = count;
	metric.release = count_release;
	metric.user = &device;
	return proton_metrics_add_device(where, &metric, err);
}

static void add_doubles(const char *name, const double *values, uint32_t count)
{
	CHECK_DONE(add_at(proton_context_here(), name,
			  count == 1 ? PROTON_METRIC_DOUBLE : PROTON_METRIC_DOUBLE_VECTOR,
			  PROTON_ELEMENT_FLOAT64, values, count, &err));
}

static void begin_capture(void)
{
	static uint64_t captures;

	if (!tests_cuda()) {
		device.set_capture_number(++captures);
		hip_graph = fake.graph_create();
		fake.call(CUPTI_CALL_BEGIN_CAPTURE, 0);
		fake.graph_capture_kernel(hip_graph, "node");
		return;
	}
	fake.call(CUPTI_CALL_BEGIN_CAPTURE_V2, 0);
	device.set_capture(STREAM, 1);
}

static void end_capture(void)
{
	if (!tests_cuda()) {
		fake.call(CUPTI_CALL_END_CAPTURE, 0);
		hip_exec = fake.graph_instantiate(hip_graph);
		return;
	}
	device.set_capture(0, 0);
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
}

/* One replay: captured appends 0 to `nodes` - 1 run, and their records come. */
static void replay(uint32_t nodes)
{
	if (!tests_cuda()) {
		fake.graph_launch(hip_exec, "node", true);
		device.run_captured();
		return;
	}
	for (uint32_t i = 0; i < nodes; i++) {
		device.run_node(i);
		fake.launch(&(struct fake_launch){.call = CUPTI_CALL_GRAPH_LAUNCH,
						  .name = "proton_append_metric",
						  .records = 1,
						  .start_ns = now_ns,
						  .end_ns = now_ns + 5,
						  .node_id = NODE(2, i)});
		now_ns += 10;
	}
}

static double double_at(const struct profile *profile, const char *path, const char *metric)
{
	const struct profile_value *value = rec_value(profile, path, metric);

	return value ? value->as.float64 : NAN;
}

/* A vector: its length, then its elements. */
static const uint64_t *vector_at(const struct profile *profile, const char *path,
				 const char *metric)
{
	return profile->words + rec_value(profile, path, metric)->as.vector;
}

static double double_of(uint64_t word)
{
	double value;

	memcpy(&value, &word, sizeof(value));
	return value;
}

TEST(a_device_value_is_read_in_stream_order)
{
	double value = 1;

	start_device();
	device.set_queueing(true);
	uint64_t token = proton_scope_enter("scope");
	add_doubles("loss", &value, 1);
	proton_scope_exit(token, NULL);
	value = 2.5; /* the producer runs now */
	CHECK_EQ(atomic_load(&released), 0);
	device.run_queued();
	struct profile *profile = finish();
	CHECK_NEAR(double_at(profile, "scope", "loss"), 2.5, 0);
	CHECK_EQ(atomic_load(&released), 1);
	/* The kernel that read it is not the user's. */
	CHECK_EQ(rec_node(profile, "proton_append_metric"), REC_NOWHERE);
	CHECK_EQ(rec_node(profile, "scope/proton_append_metric"), REC_NOWHERE);
}

static const int8_t i8[] = {-3};
static const uint8_t u8[] = {200};
static const int16_t i16[] = {-300};
static const uint16_t u16[] = {60000};
static const int32_t i32[] = {-70000};
static const uint32_t u32[] = {4000000000u};
static const int64_t i64[] = {-5000000000};
static const uint64_t u64[] = {12, 1ull << 63 | 1 << 20};
/* 1.5, -2, the smallest subnormal, infinity, NaN; -0.25 as bfloat16. */
static const uint16_t f16[] = {0x3e00, 0xc000, 0x0001, 0x7c00, 0x7e00};
static const uint16_t bf16[] = {0xbe80};
static const float f32[] = {0.5f};
static const double f64[] = {-1e300};
static const uint8_t yes[] = {7};
static const struct {
	const char *name;
	enum proton_element element;
	const void *address;
	double wanted;
} elements[] = {
	{"b", PROTON_ELEMENT_BOOL, yes, 1},
	{"i8", PROTON_ELEMENT_INT8, i8, -3},
	{"u8", PROTON_ELEMENT_UINT8, u8, 200},
	{"i16", PROTON_ELEMENT_INT16, i16, -300},
	{"u16", PROTON_ELEMENT_UINT16, u16, 60000},
	{"i32", PROTON_ELEMENT_INT32, i32, -70000},
	{"u32", PROTON_ELEMENT_UINT32, u32, 4e9},
	{"i64", PROTON_ELEMENT_INT64, i64, -5e9},
	{"u64", PROTON_ELEMENT_UINT64, u64, 12},
	{"u64 large", PROTON_ELEMENT_UINT64, u64 + 1, 0x1p63 + 0x1p20},
	{"f16", PROTON_ELEMENT_FLOAT16, f16, 1.5},
	{"f16n", PROTON_ELEMENT_FLOAT16, f16 + 1, -2},
	{"f16s", PROTON_ELEMENT_FLOAT16, f16 + 2, 0x1p-24},
	{"bf16", PROTON_ELEMENT_BFLOAT16, bf16, -0.25},
	{"f32", PROTON_ELEMENT_FLOAT32, f32, 0.5},
	{"f64", PROTON_ELEMENT_FLOAT64, f64, -1e300},
};

TEST(every_element_type_is_converted)
{
	start_device();
	for (size_t i = 0; i < sizeof(elements) / sizeof(elements[0]); i++) {
		CHECK_EQ(add_at(proton_context_here(), elements[i].name, PROTON_METRIC_DOUBLE,
				elements[i].element, elements[i].address, 1, NULL),
			 PROTON_OK);
	}
	CHECK_EQ(add_at(proton_context_here(), "whole", PROTON_METRIC_INT64, PROTON_ELEMENT_FLOAT64,
			f64, 1, NULL),
		 PROTON_OK);
	CHECK_EQ(add_at(proton_context_here(), "int", PROTON_METRIC_INT64, PROTON_ELEMENT_INT64,
			i64, 1, NULL),
		 PROTON_OK);
	CHECK_EQ(add_at(proton_context_here(), "most", PROTON_METRIC_INT64, PROTON_ELEMENT_FLOAT16,
			f16 + 3, 1, NULL),
		 PROTON_OK);
	CHECK_EQ(add_at(proton_context_here(), "nan", PROTON_METRIC_INT64, PROTON_ELEMENT_FLOAT16,
			f16 + 4, 1, NULL),
		 PROTON_OK);
	struct profile *profile = finish();
	for (size_t i = 0; i < sizeof(elements) / sizeof(elements[0]); i++)
		CHECK_NEAR(double_at(profile, "", elements[i].name), elements[i].wanted, 0);
	CHECK_EQ(rec_value(profile, "", "whole")->as.int64, INT64_MIN);
	CHECK_EQ(rec_value(profile, "", "int")->as.int64, -5000000000);
	CHECK_EQ(rec_value(profile, "", "most")->as.int64, INT64_MAX);
	CHECK_EQ(rec_value(profile, "", "nan")->as.int64, 0);
}

TEST(vectors_of_bytes_are_converted)
{
	const int8_t small[] = {-3, 4, 5};
	const uint8_t yes_and_no[] = {1, 0};

	start_device();
	CHECK_EQ(add_at(proton_context_here(), "small", PROTON_METRIC_INT64_VECTOR,
			PROTON_ELEMENT_INT8, small, 3, NULL),
		 PROTON_OK);
	CHECK_EQ(add_at(proton_context_here(), "bools", PROTON_METRIC_INT64_VECTOR,
			PROTON_ELEMENT_BOOL, yes_and_no, 2, NULL),
		 PROTON_OK);
	struct profile *profile = finish();
	const uint64_t *words = vector_at(profile, "", "small");
	CHECK_U64(words[0], 3);
	CHECK_EQ((int64_t)words[1], -3);
	CHECK_EQ((int64_t)words[2], 4);
	CHECK_EQ((int64_t)words[3], 5);
	words = vector_at(profile, "", "bools");
	CHECK_U64(words[0], 2);
	CHECK_U64(words[1], 1);
	CHECK_U64(words[2], 0);
}

TEST(vectors_and_kinds_of_metrics)
{
	double values[100];
	int64_t numbers[] = {1, -2, 3};
	double last = 3;

	start_device();
	for (int i = 0; i < 100; i++)
		values[i] = i;
	for (int round = 0; round < 2; round++) {
		add_doubles("long", values, 100);
		add_doubles("mine (exc)", values + 4, 1);
		add_doubles("last (pty)", &last, 1);
		CHECK_EQ(add_at(proton_context_here(), "ints", PROTON_METRIC_INT64_VECTOR,
				PROTON_ELEMENT_INT64, numbers, 3, NULL),
			 PROTON_OK);
	}
	struct profile *profile = finish();
	const uint64_t *words = vector_at(profile, "", "long");
	CHECK_U64(words[0], 100);
	for (int i = 0; i < 100; i++)
		CHECK_NEAR(double_of(words[1 + i]), 2 * i, 0);
	CHECK_EQ((int64_t)vector_at(profile, "", "ints")[2], -4);
	CHECK_NEAR(double_at(profile, "", "mine"), 8, 0);
	CHECK_NEAR(double_at(profile, "", "last"), 3, 0);
	CHECK_EQ(atomic_load(&released), 8);
}

TEST(the_ring_buffer_wraps_without_a_flush)
{
	double values[300];
	int session = start_device();

	for (int i = 0; i < 300; i++)
		values[i] = i;
	/* 2000 x 76 slots and 20000 x 1: more than the ring buffer has. */
	for (int i = 0; i < 2000; i++)
		add_doubles("v", values, 300);
	for (int i = 0; i < 20000; i++)
		add_doubles("n", values + 1, 1);
	CHECK_U64(rec_counter(session, LOST), 0);
	struct profile *profile = finish();
	const uint64_t *words = vector_at(profile, "", "v");
	for (int i = 0; i < 300; i++)
		CHECK_NEAR(double_of(words[1 + i]), 2000.0 * i, 0);
	CHECK_NEAR(double_at(profile, "", "n"), 20000, 0);
	CHECK_EQ(atomic_load(&released), 22000);
}

TEST(each_execution_in_a_graph_adds_its_value_below_its_replay)
{
	double loss = 0;
	int64_t tokens[] = {0, 100};
	struct proton_context where;

	start_device();
	begin_capture();
	uint64_t token = proton_scope_enter("cap");
	add_doubles("loss", &loss, 1);
	proton_op_enter(proton_frame("mm", 2), &where);
	CHECK_EQ(add_at(where, "tokens", PROTON_METRIC_INT64_VECTOR, PROTON_ELEMENT_INT64, tokens,
			2, NULL),
		 PROTON_OK);
	proton_op_exit();
	proton_scope_exit(token, NULL);
	end_capture();
	CHECK_EQ(device.unsafe_calls(), 0);
	for (int i = 1; i <= 10; i++) {
		token = proton_scope_enter(i % 2 ? "odd" : "even");
		loss = i;
		tokens[0] = i;
		replay(2);
		proton_scope_exit(token, NULL);
	}
	CHECK_EQ(atomic_load(&released), 0); /* the graph is still there */
	struct profile *profile = finish();
	CHECK_NEAR(double_at(profile, "odd/<captured_at>/cap", "loss"), 25, 0);
	CHECK_NEAR(double_at(profile, "even/<captured_at>/cap", "loss"), 30, 0);
	CHECK_EQ((int64_t)vector_at(profile, "odd/<captured_at>/cap/mm", "tokens")[1], 25);
	CHECK_EQ((int64_t)vector_at(profile, "odd/<captured_at>/cap/mm", "tokens")[2], 500);
	CHECK_PTR(rec_value(profile, "cap", "loss"), NULL);
	CHECK_EQ(rec_node(profile, "odd/proton_append_metric"), REC_NOWHERE);
	CHECK_EQ(atomic_load(&released), 2);
}

TEST(a_destroyed_graph_gives_its_memory_back)
{
	double value = 4;
	int session = start_device();

	begin_capture();
	add_doubles("x", &value, 1);
	end_capture();
	replay(1);
	if (tests_cuda()) {
		fake.graph_event(CUPTI_RESOURCE_GRAPH_DESTROY_STARTING, NODE(1, 0), 0, 0);
		fake.graph_event(CUPTI_RESOURCE_GRAPHEXEC_DESTROY_STARTING, NODE(2, 0), 0, 0);
	} else {
		fake.graph_destroy(hip_graph);
		fake.graph_exec_destroy(hip_exec);
	}
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_EQ(atomic_load(&released), 1);
	CHECK_NEAR(double_at(finish(), "<captured_at>", "x"), 4, 0);
}

TEST(sessions_count_what_they_were_active_for)
{
	double value = 1;
	struct proton_error err;
	int first = start_device();
	int second = start_named("b", tested_backend(), &err);

	proton_deactivate(second, false, NULL);
	begin_capture();
	add_doubles("x", &value, 1);
	end_capture();
	proton_activate(second, NULL);
	int third = start_named("c", tested_backend(), &err);
	CHECK_LE(0, third);
	replay(1);
	proton_deactivate(first, false, NULL);
	proton_deactivate(second, false, NULL);
	proton_deactivate(third, false, NULL);
	value = 1000; /* replayed without an active session */
	replay(1);
	proton_activate(first, NULL);
	value = 20;
	replay(1);
	CHECK_U64(rec_counter(first, LOST), 0);
	CHECK_U64(rec_counter(first, "lost: kernel record without a known launch"), 0);
	struct profile *profile = finish();
	CHECK_NEAR(double_at(profile, "<captured_at>", "x"), 21, 0);
	profile = rec_load("b.proton");
	CHECK_PTR(rec_value(profile, "<captured_at>", "x"), NULL);
	profile = rec_load("c.proton");
	CHECK_EQ(rec_node(profile, "<captured_at>"), REC_NOWHERE);
	CHECK_EQ(rec_node(profile, "proton_append_metric"), REC_NOWHERE);
}

TEST(a_graph_that_outlives_its_session_disturbs_no_other)
{
	double value = 1;
	int session;

	start_device();
	begin_capture();
	add_doubles("x", &value, 1);
	end_capture();
	replay(1);
	finish();
	replay(3); /* no session is active */
	session = start_device();
	add_doubles("y", &value, 1); /* takes the table entry of x */
	replay(3);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, LOST), 0);
	struct profile *profile = finish();
	CHECK_NEAR(double_at(profile, "", "y"), 1, 0);
	CHECK_EQ(rec_node(profile, "proton_append_metric"), REC_NOWHERE);
	CHECK_PTR(rec_value(profile, "", "x"), NULL);
}

TEST(a_value_is_added_even_if_its_record_is_lost)
{
	double value = 1;

	ONLY_CUDA("values do not depend on records with HIP");
	start_device();
	begin_capture();
	add_doubles("x", &value, 1);
	end_capture();
	uint64_t token = proton_scope_enter("replay");
	for (int i = 0; i < 5; i++) {
		replay(1);
		device.run_node(0); /* it has no record */
	}
	proton_scope_exit(token, NULL);
	CHECK_NEAR(double_at(finish(), "replay/<captured_at>", "x"), 10, 0);
}

/* The value of a replay of which nothing is known does not move those that follow. */
TEST(a_value_before_the_first_known_replay_is_lost)
{
	int session = start_device();
	double values[2] = {1, 2};

	ONLY_CUDA("values do not depend on records with HIP");
	begin_capture();
	add_doubles("x", values, 2);
	end_capture();
	device.run_node(0);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, LOST), 1);
	CHECK_EQ(proton_activate(session, NULL), PROTON_OK);
	for (int i = 0; i < 3; i++) {
		values[0] += 10;
		replay(1);
	}
	struct profile *profile = finish();
	CHECK_NEAR(double_of(vector_at(profile, "<captured_at>", "x")[1]), 11 + 21 + 31, 0);
	CHECK_NEAR(double_of(vector_at(profile, "<captured_at>", "x")[2]), 6, 0);
}

TEST(values_are_added_while_the_program_runs)
{
	int (*flush_all)(uint32_t) = NULL;
	double value = 3;

	start_device();
	if (tests_cuda())
		fake_find(&flush_all, fake_open("PROTON_CUPTI_PATH"), "cuptiActivityFlushAll");
	begin_capture();
	add_doubles("x", &value, 1);
	end_capture();
	add_doubles("y", &value, 1);
	replay(1);
	if (tests_cuda())
		flush_all(CUPTI_FLUSH_FORCED); /* this one waits for its buffers */
	tensors_catch_up();                    /* the order is certain the next time */
	tensors_catch_up();
	struct profile *profile = rec_load("a.proton");
	CHECK_NEAR(double_at(profile, "", "y"), 3, 0);
	CHECK_NEAR(double_at(profile, "<captured_at>", "x"), 3, 0);
	replay(1);
	profile = finish();
	CHECK_NEAR(double_at(profile, "<captured_at>", "x"), 6, 0);
}

TEST(values_that_do_not_fit_into_the_ring_buffer_are_counted)
{
	/* The thread that empties ring buffers twice a second has not run yet, or only slowly. */
	uint64_t in_time_ns = clock_monotonic_ns() + 450000000;
	double value = 1;

	ONLY_CUDA("HIP has a queue instead of a ring buffer: test_hip_tensors");
	int session = start_device();
	begin_capture();
	add_doubles("x", &value, 1);
	end_capture();
	replay(1);
	for (int i = 0; i < 131072 + 6; i++)
		device.run_node(0); /* the device is far ahead, and nothing is launched any more */
	bool is_in_time = clock_monotonic_ns() < in_time_ns;
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	if (is_in_time)
		CHECK_LE(1, rec_counter(session, LOST));
	struct profile *profile = finish();
	double found = double_at(profile, "<captured_at>", "x");
	if (is_in_time)
		CHECK_NEAR(found, 131072, 0); /* of 131079 */
	else
		CHECK(found >= 131072 && found <= 131079);
}

TEST(a_graph_launch_makes_space_in_time)
{
	double value = 1;

	ONLY_CUDA("HIP has a queue instead of a ring buffer: test_hip_tensors");
	int session = start_device();
	begin_capture();
	add_doubles("x", &value, 1);
	end_capture();
	for (int i = 0; i < 300; i++) {
		for (int j = 0; j < 1000; j++)
			device.run_node(0);
		replay(1);
	}
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, LOST), 0);
	CHECK_NEAR(double_at(finish(), "<captured_at>", "x"), 300300, 0);
}

TEST(unreadable_device_memory_is_reported)
{
	double value = 1;
	struct proton_error err;
	static const char *const failures[] = {"cuLaunchKernel=2", "cuCtxGetId=1"};

	ONLY_CUDA("HIP's calls fail in test_cuda_faults and test_hip_tensors");
	int session = start_device();
	struct proton_context where = proton_context_here();
	for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
		setenv("FAKE_CUDA_FAIL", failures[i], 1);
		CHECK_EQ(add_at(where, "x", PROTON_METRIC_DOUBLE, PROTON_ELEMENT_FLOAT64, &value, 1,
				&err),
			 PROTON_E_UNSUPPORTED);
		CHECK_HAS(err.text, "cannot read device metrics: cu");
		CHECK_EQ(atomic_load(&released), 0);
	}
	/* In a capture it cannot be read later: it is counted, and the program continues. */
	begin_capture();
	setenv("FAKE_CUDA_FAIL", "cuLaunchKernel=2", 1);
	add_doubles("x", &value, 1);
	unsetenv("FAKE_CUDA_FAIL");
	device.set_capture(STREAM, 2);
	add_doubles("x", &value, 1);
	end_capture();
	CHECK_U64(rec_counter(session, LOST), 2);
	CHECK_EQ(atomic_load(&released), 2);
	CHECK_PTR(rec_value(finish(), "", "x"), NULL);
}

TEST(invalid_descriptions_of_device_memory_are_refused)
{
	double value = 1;
	struct proton_error err;

	start_device();
	struct proton_context where = proton_context_here();
	CHECK_EQ(add_at(where, "", PROTON_METRIC_DOUBLE, PROTON_ELEMENT_FLOAT64, &value, 1, &err),
		 PROTON_E_INVALID);
	CHECK_EQ(add_at(where, "x", PROTON_METRIC_DOUBLE, PROTON_ELEMENT_FLOAT64, NULL, 1, &err),
		 PROTON_E_INVALID);
	CHECK_EQ(add_at(where, "x", PROTON_METRIC_DOUBLE, PROTON_ELEMENT_FLOAT64, &value, 2, &err),
		 PROTON_E_INVALID);
	CHECK_EQ(add_at(where, "x", PROTON_METRIC_STRING, PROTON_ELEMENT_FLOAT64, &value, 1, &err),
		 PROTON_E_INVALID);
	CHECK_EQ(add_at(where, "x", PROTON_METRIC_DOUBLE_VECTOR, PROTON_ELEMENT_FLOAT64, &value,
			8193, &err),
		 PROTON_E_INVALID);
	CHECK_HAS(err.text, "8193 elements exceed the limit of 65536 bytes");
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}

TEST(creating_the_ring_buffer_may_fail_and_works_later)
{
	static const char *const failures[][2] = {
		{"cuMemHostRegister_v2=1", "cuMemHostRegister failed (1)"},
		{"cuMemHostGetDevicePointer_v2=1", "cuMemHostGetDevicePointer failed (1)"},
		{"cuModuleLoadData=222", "cuModuleLoadData failed (222)"},
		{"cuModuleGetFunction=500", "cuModuleGetFunction failed (500)"},
	};
	double value = 1;
	struct proton_error err;

	ONLY_CUDA("HIP has a queue instead of a ring buffer: test_hip_tensors");
	if (!tap_is_forking)
		SKIP("the process already has a ring buffer");
	start_device();
	for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
		setenv("FAKE_CUDA_FAIL", failures[i][0], 1);
		CHECK_EQ(add_at(proton_context_here(), "x", PROTON_METRIC_DOUBLE,
				PROTON_ELEMENT_FLOAT64, &value, 1, &err),
			 PROTON_E_UNSUPPORTED);
		CHECK_HAS(err.text, failures[i][1]);
	}
	unsetenv("FAKE_CUDA_FAIL");
	add_doubles("x", &value, 1);
	CHECK_NEAR(double_at(finish(), "", "x"), 1, 0);
}

TEST(the_context_is_that_of_the_stream)
{
	double value = 1;
	struct proton_error err;
	struct proton_device_metric metric = device_double("x", &value, 0);

	ONLY_CUDA("HIP has no contexts");
	start_device();
	setenv("FAKE_CUDA_NO_CONTEXT", "1", 1);
	add_doubles("x", &value, 1);
	CHECK_EQ(fake.pushed(), 0);
	/* The default stream has no context, and no context owns the memory. */
	CHECK_EQ(proton_metrics_add_device(proton_context_here(), &metric, &err),
		 PROTON_E_UNSUPPORTED);
	CHECK_HAS(err.text, "device metrics require a current CUDA context");
	CHECK_EQ(fake.pushed(), 0);
	unsetenv("FAKE_CUDA_NO_CONTEXT");
	CHECK_EQ(proton_metrics_add_device(proton_context_here(), &metric, &err), PROTON_OK);
	CHECK_NEAR(double_at(finish(), "", "x"), 2, 0);
}

TEST(memory_is_released_even_if_the_value_never_arrives)
{
	double value = 1;

	start_device();
	device.set_queueing(true);
	add_doubles("x", &value, 1);
	struct profile *profile = finish();
	CHECK_EQ(atomic_load(&released), 1);
	CHECK_PTR(rec_value(profile, "", "x"), NULL);
	start_device();
	add_doubles("y", &value, 1);
	device.run_queued(); /* that of the previous session */
	profile = finish();
	CHECK_PTR(rec_value(profile, "", "x"), NULL);
	CHECK_NEAR(double_at(profile, "", "y"), 1, 0);
}

TEST(the_host_backend_has_no_device_memory)
{
	double value = 1;
	struct proton_error err;
	int session = rec_start("a");

	load_fake();

	atomic_store(&released, 0);
	CHECK_EQ(add_at(proton_context_here(), "x", PROTON_METRIC_DOUBLE, PROTON_ELEMENT_FLOAT64,
			&value, 1, &err),
		 PROTON_E_UNSUPPORTED);
	CHECK_HAS(err.text, "metric x: device memory can be read only with a GPU backend");
	rec_finalize(session, "none");
	/* Nothing is recorded: the memory goes back at once. */
	CHECK_EQ(add_at(proton_context_here(), "x", PROTON_METRIC_DOUBLE, PROTON_ELEMENT_FLOAT64,
			&value, 1, &err),
		 PROTON_OK);
	CHECK_EQ(atomic_load(&released), 1);
}

#define THREADS 8
#define ROUNDS 300

static _Atomic bool pauses_are_over;
static _Atomic uint32_t added;

static void *add_many(void *unused)
{
	static double one = 1;

	(void)unused;
	while (!atomic_load(&pauses_are_over)) {
		add_doubles("n", &one, 1);
		atomic_fetch_add(&added, 1);
	}
	for (int i = 0; i < ROUNDS; i++)
		add_doubles("n", &one, 1);
	return NULL;
}

TEST(threads_add_while_a_graph_is_replayed_and_flushed)
{
	pthread_t threads[THREADS];
	double value = 1;
	int session = start_device();

	atomic_store(&pauses_are_over, false);
	atomic_store(&added, 0);
	begin_capture();
	add_doubles("x", &value, 1);
	end_capture();
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, add_many, NULL), 0);
	for (int i = 0; i < 100; i++) {
		replay(1);
		if (i % 20 == 0) {
			CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
			proton_activate(session, NULL);
		}
	}
	atomic_store(&pauses_are_over, true);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	struct profile *profile = finish();
	CHECK_NEAR(double_at(profile, "<captured_at>", "x"), 100, 0);
	/* Some of the earlier ones were in a pause. */
	CHECK_LE(THREADS * ROUNDS, double_at(profile, "", "n"));
	CHECK_LE(double_at(profile, "", "n"), THREADS * ROUNDS + atomic_load(&added));
}
