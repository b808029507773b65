/* Memory copies and memsets, with the fake libraries. */
#include "unit/cuda/cuda_session.h"
#include "unit/recorded_trace.h"

#include "backend/cuda/memory.h"

static int start_flags(const char *name, uint32_t flags, struct proton_error *err)
{
	load_fake();
	return start_with((struct proton_session_options){.name = rec_path(name), .flags = flags},
			  err);
}

static int start_memory(const char *name)
{
	return start_options((struct proton_session_options){.name = rec_path(name),
							     .flags = PROTON_SESSION_MEMORY});
}

static uint32_t call_number(const char *wanted)
{
	static const struct {
		const char *name;
		uint32_t number;
	} calls[] = {
#define M(name, number) {#name, number},
#define B(name, number) {#name, number},
#include "backend/cuda/memory_calls.def"
#undef M
#undef B
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (strcmp(calls[i].name, wanted) == 0)
			return calls[i].number;
	FAIL("%s is not a memory call", wanted);
}

/* A driver call that launches nothing; its correlation id. */
static uint32_t call_driver(uint32_t call)
{
	return fake.launch(&(struct fake_launch){.call = call, .context = &fake});
}

static void record_copy(uint32_t correlation, uint8_t kind, uint8_t from, uint8_t to,
			uint64_t bytes, uint64_t node_id)
{
	struct cupti_memcpy record = {
		.kind = CUPTI_KIND_MEMCPY,
		.copy_kind = kind,
		.source_kind = from,
		.destination_kind = to,
		.bytes = bytes,
		.start_ns = 1000,
		.end_ns = 1100,
		.correlation_id = correlation,
		.graph_node_id = node_id,
	};

	fake.record(&record, sizeof(record));
}

static void record_set(uint32_t correlation, uint64_t bytes)
{
	struct cupti_memset record = {
		.kind = CUPTI_KIND_MEMSET,
		.memory_kind = 3,
		.bytes = bytes,
		.start_ns = 1000,
		.end_ns = 1020,
		.correlation_id = correlation,
	};

	fake.record(&record, sizeof(record));
}

/* The same with HIP: one call, with `records` records. Its correlation ID. */
static uint32_t copy_hip(const char *call, uint32_t operation, uint64_t bytes, uint32_t records)
{
	return (uint32_t)fake.copy(&(struct fake_copy){
		.call = call,
		.operation = operation,
		.kernel = "__amd_rocclr_fillBufferAligned",
		.records = records,
		.bytes = bytes,
		.start_ns = 1000,
		.end_ns = operation ? 1100 : 1020,
	});
}

/* One copy to the device, with CUDA from pinned memory. */
static uint32_t copy_in(uint64_t bytes)
{
	if (!tests_cuda())
		return copy_hip("hipMemcpyHtoDAsync", SDK_COPY_HOST_TO_DEVICE, bytes, 1);
	uint32_t call = call_driver(call_number("cuMemcpyHtoDAsync_v2"));
	record_copy(call, 1, 2, 3, bytes, 0);
	return call;
}

static void copy_out(uint64_t bytes)
{
	if (tests_cuda())
		record_copy(call_driver(call_number("cuMemcpyDtoH_v2")), 2, 3, 1, bytes, 0);
	else
		copy_hip("hipMemcpyDtoH", SDK_COPY_DEVICE_TO_HOST, bytes, 1);
}

static uint32_t set(uint64_t bytes)
{
	if (!tests_cuda())
		return copy_hip("hipMemsetAsync", 0, bytes, 1);
	uint32_t call = call_driver(call_number("cuMemsetD8Async"));
	record_set(call, bytes);
	return call;
}

/* AMD's libraries do not report the kind of host memory. */
static const char *in(void)
{
	return tests_cuda() ? "Memcpy HtoD (Pinned -> Device)" : "Memcpy HtoD (Unknown -> Device)";
}

static const char *out(void)
{
	return tests_cuda() ? "Memcpy DtoH (Device -> Pageable)"
			    : "Memcpy DtoH (Device -> Unknown)";
}

static const char *below(const char *scope, const char *name)
{
	static char path[96];

	snprintf(path, sizeof(path), "%s/%s", scope, name);
	return path;
}

static int64_t memory_bytes(const struct profile *profile, const char *path)
{
	const struct profile_value *value = rec_value(profile, path, "memory_bytes");

	return value ? value->as.int64 : -1;
}

TEST(copies_and_memsets_are_attributed_like_kernels)
{
	int session = start_memory("a");
	uint64_t token = proton_scope_enter("load");

	copy_in(4096);
	copy_in(100);
	copy_out(8);
	set(64);
	proton_scope_exit(token, NULL);
	launch_ns("mm", 5);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "kernels"), 1);
	CHECK_U64(rec_counter(session, "memory operations"), 4);
	struct profile *profile = finish();
	CHECK_U64(rec_count(profile, below("load", in())), 2);
	CHECK_EQ(memory_bytes(profile, below("load", in())), 4196);
	CHECK_U64(rec_count(profile, below("load", out())), 1);
	CHECK_U64(rec_count(profile, "load/Memset (Device)"), 1);
	CHECK_EQ(memory_bytes(profile, "load/Memset (Device)"), 64);
	const struct profile_kernel *kernel =
		&profile->kernels[profile->nodes[rec_node(profile, "load/Memset (Device)")]
					  .first_kernel];
	CHECK_U64(kernel->total_ns, 20);
	CHECK_U64(kernel->first_config, 0);
	CHECK_STR(profile_text(profile, profile->devices[kernel->device].type),
		  tests_cuda() ? "CUDA" : "HIP");
	CHECK_U64(rec_count(profile, "mm"), 1);
	CHECK_PTR(rec_value(profile, "load/Memset (Device)", "bytes"), NULL);
	CHECK(fake.is_idle());
}

static void start_memory_trace(void)
{
	start_options(
		(struct proton_session_options){.data = "trace", .flags = PROTON_SESSION_MEMORY});
}

/* An event of a memory operation: its bytes, time, stream, and the call that it leads to. */
static void check_event(const struct profile *profile, enum event_kind kind, const char *path,
			uint64_t bytes, uint64_t ns, uint32_t call)
{
	const struct row_event *event = need_event(profile, kind, path);
	const struct row_event *launch = trace_event(profile->trace, event->link);

	CHECK_U64(trace_bytes(profile->trace, event), bytes);
	CHECK_U64(event->detail, bytes < UINT32_MAX ? bytes : UINT32_MAX);
	CHECK_U64(event->end_ns - event->start_ns, ns);
	CHECK_EQ(event->flags, 0);
	CHECK_EQ(profile->trace->lanes[event->lane].kind, LANE_STREAM);
	CHECK(launch);
	CHECK_EQ(launch->kind, EVENT_LAUNCH);
	CHECK_EQ(launch->flags, EVENT_OF_MEMORY);
	if (!tests_backend("rocprofiler")) /* the backend makes the numbers */
		CHECK_EQ(launch->detail, call);
	CHECK_STR(event_path(profile, launch), "load");
}

TEST(copies_and_memsets_are_separate_kinds_of_events)
{
	uint32_t calls[3];

	start_memory_trace();
	uint64_t token = proton_scope_enter("load");
	calls[0] = copy_in(4096);
	calls[1] = set(64);
	calls[2] = set(5000000000);
	proton_scope_exit(token, NULL);
	struct profile *profile = finish();
	CHECK_U64(count_events(profile), 7);
	check_event(profile, EVENT_COPY, below("load", in()), 4096, 100, calls[0]);
	CHECK(find_event(profile, EVENT_SET, "load/Memset (Device)", 1));
	/* Handed over newest first. A size beyond 32 bits is in the row that follows. */
	check_event(profile, EVENT_SET, "load/Memset (Device)", 5000000000, 20, calls[2]);
	CHECK(!find_event(profile, EVENT_COPY, "load/Memset (Device)", 0));
}

TEST(a_copy_between_devices_is_recorded)
{
	struct cupti_memcpy_peer record = {
		.kind = CUPTI_KIND_MEMCPY_PEER,
		.copy_kind = 10,
		.source_kind = 3,
		.destination_kind = 3,
		.bytes = 77,
		.start_ns = 1,
		.end_ns = 3,
		.device_id = 1,
	};

	start_memory("a");
	if (tests_cuda()) {
		record.correlation_id = call_driver(call_number("cuMemcpyPeerAsync"));
		fake.record(&record, sizeof(record));
	} else {
		copy_hip("hipMemcpyPeerAsync", SDK_COPY_DEVICE_TO_DEVICE, 77, 1);
	}
	struct profile *profile = finish();
	CHECK_EQ(memory_bytes(profile, tests_cuda() ? "Memcpy PtoP (Device -> Device)"
						    : "Memcpy DtoD (Device -> Device)"),
		 77);
}

TEST(unknown_kinds_have_names)
{
	ONLY_CUDA("CUPTI alone has kinds of host memory, and a kind of copy for each pair of them");
	start_memory("a");
	record_copy(call_driver(call_number("cuMemcpy")), 200, 99, 8, 1, 0);
	EXPECT(finish(), {"Memcpy ? (Unknown -> Unknown)", 1});
}

/* All calls that this backend has; returns their number. */
static uint32_t make_every_call(void)
{
	static const char *const hip[] = {
#define L(name, arguments, records)
#define G(name)
#define D(name)
#define M(name, records, stream, unit) #name,
#include "backend/amd/hip_calls.def"
	};
	static const uint32_t hip_calls = sizeof(hip) / sizeof(hip[0]);
	uint32_t calls = 0;

	for (uint32_t i = 0; !tests_cuda() && i < hip_calls; i++)
		copy_hip(hip[i], SDK_COPY_HOST_TO_DEVICE, 1, 1);
	if (!tests_cuda())
		return hip_calls;
	for (uint32_t call = 0; call < 1024; call++) {
		if (!memory_is_call(call))
			continue;
		record_copy(call_driver(call), 1, 1, 3, 1, 0);
		calls++;
	}
	return calls;
}

TEST(every_memory_call_is_recorded)
{
	int session = start_memory("a");
	uint32_t calls = make_every_call();

	CHECK_LT(tests_cuda() ? 100 : 50, (int)calls);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "lost: memory record without a known call"), 0);
	struct profile *profile = finish();
	CHECK_U64(rec_count(profile, tests_cuda() ? "Memcpy HtoD (Pageable -> Device)" : in()),
		  calls);
}

TEST(a_batch_makes_many_records_of_one_call)
{
	uint32_t correlation;

	start_memory("a");
	if (tests_cuda()) {
		correlation = call_driver(call_number("cuMemcpyBatchAsync_v2"));
		for (int i = 0; i < 5; i++)
			record_copy(correlation, 8, 3, 3, 10, 0);
	} else {
		copy_hip("hipMemcpyBatchAsync", SDK_COPY_DEVICE_TO_DEVICE, 10, 5);
	}
	CHECK_EQ(memory_bytes(finish(), "Memcpy DtoD (Device -> Device)"), 50);
}

/* The entry point that enables records. */
static const char *enabling(void)
{
	return tests_cuda()                 ? "cuptiActivityEnable"
	       : tests_backend("roctracer") ? "roctracer_enable_op_activity_expl"
					    : "start_context";
}

/* rocprofiler-sdk: a context that was started is never stopped. */
static void check_disabled(uint32_t times)
{
	if (tests_cuda())
		CHECK_U64(fake.calls("cuptiActivityDisable"), times ? 3 : 0);
	else if (tests_backend("roctracer"))
		CHECK_U64(fake.calls("roctracer_disable_op_activity"), times);
}

TEST(memory_calls_are_enabled_only_during_sessions_with_memory)
{
	struct proton_error err;
	uint32_t before, enabled;

	CHECK_LE(0, start_flags("a", 0, &err));
	before = fake.calls(enabling());
	copy_in(10);
	int second = start_memory("b");
	enabled = fake.calls(enabling());
	CHECK_U64(enabled, before + (tests_cuda() ? 3 : 1));
	copy_in(10);
	start_memory("c");
	CHECK_U64(fake.calls(enabling()), enabled);
	rec_finalize(second, "proton");
	check_disabled(0);
	copy_in(10);
	rec_finalize(second + 1, "proton");
	check_disabled(1);
	copy_in(10);
	launch_ns("mm", 5);
	struct profile *profile = finish();
	CHECK_U64(rec_count(profile, "mm"), 1);
	CHECK_EQ(rec_node(profile, in()), REC_NOWHERE);
	profile = rec_load("b.proton");
	CHECK_EQ(memory_bytes(profile, in()), 10);
	profile = rec_load("c.proton");
	CHECK_EQ(memory_bytes(profile, in()), 10);
	CHECK(fake.is_idle());
}

TEST(an_older_cupti_does_not_know_the_newest_calls)
{
	struct proton_error err;

	ONLY_CUDA("calls are found by name in the other libraries");
	load_fake();
	/* Some of the calls at the end; those of launches and captures came before. */
	fake.fail("cuptiEnableCallback", 133, 8, 1);
	CHECK_LE(0, start_flags("a", PROTON_SESSION_MEMORY, &err));
	copy_in(10);
	CHECK_EQ(memory_bytes(finish(), "Memcpy HtoD (Pinned -> Device)"), 10);
}

TEST(unavailable_records_make_the_start_fail)
{
	struct proton_error err = {0};

	load_fake();
	/* rocprofiler-sdk: the first context that is started has the code objects. */
	fake.fail(enabling(), tests_cuda() ? 3 : 2, FAKE_ALWAYS, 35);
	CHECK_LT(start_flags("a", PROTON_SESSION_MEMORY, &err), 0);
	CHECK_EQ(err.status, tests_cuda() ? PROTON_E_PERMISSION : PROTON_E_IO);
	CHECK_HAS(err.text, enabling());
	CHECK(!proton_is_profiling());
	CHECK(fake.is_idle());
	CHECK(!rec_exists("a.proton"));
	fake.fail(enabling(), 0, 0, 0);
	start_memory("a");
	copy_in(10);
	CHECK_EQ(memory_bytes(finish(), in()), 10);
}

#define NODE(graph, index) ((uint64_t)(graph) << 32 | (index))

TEST(a_replay_shows_captured_copies_and_the_kernel_keeps_its_metrics)
{
	struct proton_metric flops = {
		.name = "flops16", .type = PROTON_METRIC_DOUBLE, .value.float64 = 100};
	struct proton_context where;
	uint32_t correlation;

	ONLY_CUDA("copies in HIP's graphs are matched by their order: test_hip_graphs");
	start_memory("a");
	fake.call(CUPTI_CALL_BEGIN_CAPTURE_V2, 0);
	uint64_t token = proton_scope_enter("cap");
	proton_op_enter(proton_frame("mm_64", 5), &where);
	CHECK_EQ(proton_metrics_add(proton_context_here(), &flops, 1, NULL), PROTON_OK);
	call_driver(call_number("cuMemsetD8Async"));
	fake.graph_event(CUPTI_RESOURCE_GRAPHNODE_CREATED, NODE(1, 0), 0, CUDA_GRAPH_NODE_MEMCPY);
	fake.graph_event(CUPTI_RESOURCE_GRAPHNODE_CREATED, NODE(1, 1), 0, CUDA_GRAPH_NODE_KERNEL);
	proton_op_exit();
	proton_scope_exit(token, NULL);
	for (uint32_t i = 0; i < 2; i++)
		fake.graph_event(CUPTI_RESOURCE_GRAPHNODE_CLONED, NODE(2, i), NODE(1, i),
				 i ? CUDA_GRAPH_NODE_KERNEL : CUDA_GRAPH_NODE_MEMCPY);
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	for (int i = 0; i < 3; i++) {
		correlation = fake.launch(&(struct fake_launch){.call = CUPTI_CALL_GRAPH_LAUNCH,
								.name = "node",
								.records = 1,
								.start_ns = 1,
								.end_ns = 3,
								.node_id = NODE(2, 1)});
		record_copy(correlation, 8, 3, 3, 10, NODE(2, 0));
	}
	struct profile *profile = finish();
	CHECK_EQ(memory_bytes(profile, "<captured_at>/cap/mm_64/Memcpy DtoD (Device -> Device)"),
		 30);
	EXPECT(profile, {"<captured_at>/cap/mm_64", 3},
	       {"<captured_at>/cap/mm_64", 300, "flops16"});
}

TEST(records_without_a_call_are_counted_in_sessions_with_memory)
{
	struct cupti_memcpy record = {.kind = CUPTI_KIND_MEMCPY};
	struct proton_error err;
	int session, other;

	ONLY_CUDA("HIP's own copies have no call");
	session = start_memory("a");
	other = start_flags("b", 0, &err);
	record.correlation_id = call_driver(call_number("cuMemcpyHtoD_v2"));
	record_copy(123456, 1, 1, 3, 1, 0);
	fake.record(&record, sizeof(record)); /* without times */
	CHECK_EQ(proton_deactivate(PROTON_ALL_SESSIONS, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "lost: memory record without a known call"), 1);
	CHECK_U64(rec_counter(other, "lost: memory record without a known call"), 0);
	CHECK_U64(rec_counter(session, "lost: kernel record without a timestamp"), 1);
	CHECK_U64(rec_counter(session, "memory operations"), 0);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}

TEST(work_during_a_pause_of_all_sessions_does_not_count_as_lost)
{
	int session = start_memory("a");

	proton_deactivate(session, false, NULL);
	copy_in(10);
	launch_ns("off", 5);
	proton_activate(session, NULL);
	copy_in(10);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "lost: memory record without a known call"), 0);
	CHECK_U64(rec_counter(session, "lost: kernel record without a known launch"), 0);
	CHECK_U64(rec_counter(session, "memory operations"), 1);
	CHECK_U64(rec_counter(session, "kernels"), 0);
	rec_finalize(session, "none");
}
