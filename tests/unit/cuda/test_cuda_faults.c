/*
 * Every entry point that a backend calls, in its own library and in that of the driver, fails in
 * turn: at its first call, at its second, and always; and every one is missing, in turn. The
 * program continues, the error is reported, nothing stays enabled, and after the fault everything
 * works again. (rocprofiler-sdk lets a process register once: a failure of that stays an error.)
 */
#include "unit/cuda/cuda_session.h"

#include "driver/driver.h"
#include "driver/hip_abi.h"

#define KERNELS 10
#define REPLAYS 3
#define NODES 2

struct entry {
	const char *name;
	bool is_driver;
	bool is_optional; /* recording works without it */
	bool is_first;    /* CUPTI's second interface works without it */
};

static const struct entry cuda_entries[] = {
#define O(name, args) {#name, false, true, false},
#define F(name, args) {#name, false, false, true},
#define V(name, args) {#name, false, false, false},
#include "backend/cuda/cupti_symbols.def"
#undef V
#define X(name, version, args, users) {#name #version, true, !((users)&FOR_RECORDING), false},
#include "driver/cuda_functions.def"
#undef X
};

/* Functions of HIP that recording calls; instrumentation calls more (test_hip_driver.c). */
#define HIP_ENTRIES                                                                                \
	{"hipGetDevice", true, false, false}, {"hipSetDevice", true, false, false},                \
		{"hipDeviceGetAttribute", true, false, false},                                     \
		{"hipDeviceGetName", true, false, false},                                          \
		{"hipGetDevicePropertiesR0600", true, false, false},                               \
		{"hipDeviceSynchronize", true, false, false},                                      \
		{"hipStreamIsCapturing", true, false, false},                                      \
		{"hipStreamGetCaptureInfo", true, false, false},                                   \
		{"hipLaunchHostFunc", true, false, false}, {"hipHostMalloc", true, false, false},  \
		{"hipHostFree", true, false, false}, {"hipMemcpyDtoHAsync", true, false, false},   \
		{"hipGetDeviceCount", true, false, false},

static const struct entry sdk_entries[] = {
#define O(name, args) {#name, false, true, false},
#define V(name, args) {#name, false, false, false},
#include "backend/amd/sdk_symbols.def"
#undef V
	HIP_ENTRIES};

static const struct entry roctracer_entries[] = {
#define V(name, args) {#name, false, false, false},
#include "backend/amd/roctracer_symbols.def"
#undef V
	HIP_ENTRIES};

static const struct entry *entries(size_t *count_out)
{
	*count_out = tests_cuda() ? sizeof(cuda_entries) / sizeof(cuda_entries[0])
		     : tests_backend("roctracer")
			     ? sizeof(roctracer_entries) / sizeof(roctracer_entries[0])
			     : sizeof(sdk_entries) / sizeof(sdk_entries[0]);
	return tests_cuda()                 ? cuda_entries
	       : tests_backend("roctracer") ? roctracer_entries
					    : sdk_entries;
}

/* Sessions have no PM sampling (test_pm_sampling.c), and the tests themselves call cuInit(). */
static bool is_of_sessions(const struct entry *entry)
{
	static const char *const others[] = {"cuptiPm", "cuptiProfiler", "cuptiDeviceGetChipName",
					     "cuInit"};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strncmp(entry->name, others[i], strlen(others[i])) == 0)
			return false;
	return true;
}

/* AMD: sessions with memory operations, and PC samples for the functions that give these. */
static int start_all(const struct entry *entry, struct proton_error *err)
{
	bool has_samples = entry && strstr(entry->name, "pc_sampling");
	struct proton_session_options options = {
		.mode = has_samples && !tests_cuda() ? "pcsampling" : NULL,
		.flags = tests_cuda() ? 0 : PROTON_SESSION_MEMORY,
	};

	load_fake();
	return start_with(options, err);
}

static void fail(const struct entry *entry, uint32_t first, uint32_t count)
{
	if (entry->is_driver)
		fake.cuda_fail(entry->name, first, count, 999);
	else
		fake.fail(entry->name, first, count, 999);
}

/* A copy, and a metric in device memory: these call more of HIP. */
static void work_of_hip(void)
{
	static const double loss = 1;
	struct proton_device_metric metric = device_double("loss", &loss, 0x5010);

	fake.copy(&(struct fake_copy){.call = "hipMemcpyHtoDAsync",
				      .operation = SDK_COPY_HOST_TO_DEVICE,
				      .bytes = 8,
				      .start_ns = 1,
				      .end_ns = 3});
	proton_metrics_add_device(proton_context_here(), &metric, NULL);
}

/* Kernels, and replays of a graph that is destroyed before their records come. */
static void work(void)
{
	uint32_t graph, exec;

	if (!tests_cuda())
		work_of_hip();

	for (int i = 0; i < KERNELS; i++)
		launch_ns("k", 5);
	fake.call(CUPTI_CALL_BEGIN_CAPTURE_V2, 0);
	graph = fake.graph_create();
	for (int i = 0; i < NODES; i++)
		fake.graph_capture_kernel(graph, "node");
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	exec = fake.graph_instantiate(graph);
	fake.graph_destroy(graph);
	for (int i = 0; i < REPLAYS; i++)
		fake.graph_launch(exec, "node", true);
	fake.graph_exec_destroy(exec);
}

/* Loss counters of the only session together. */
static uint64_t losses(int session)
{
	struct proton_counter counters[32];
	int count = proton_statistics(session, counters, 32, NULL);
	uint64_t sum = 0;

	for (int i = 0; i < count; i++)
		if (counters[i].is_loss)
			sum += counters[i].value;
	return sum;
}

/* A session while the fault is on. Returns whether it started. */
static bool session_with_fault(const struct entry *entry, bool may_stay)
{
	struct proton_error err = {0};
	struct proton_error flush_err = {0};
	int session = start_all(entry, &err);

	if (session < 0) {
		CHECK_LT(err.status, 0);
		CHECK_LT(20, strlen(err.text)); /* an error message */
		CHECK(!proton_is_profiling());
		CHECK(!rec_exists("a.proton"));
		if (!may_stay && !fake.is_idle())
			FAIL("%s: a start that failed left something on", entry->name);
		work();
		return false;
	}
	work();
	int flushed = proton_deactivate(session, true, &flush_err);
	uint64_t known = rec_counter(session, "kernels") + losses(session);
	if (flushed != PROTON_OK)
		CHECK_LT(20, strlen(flush_err.text));
	if (known < KERNELS && flushed == PROTON_OK)
		FAIL("%s: %d kernels ran, %d are accounted for", entry->name, KERNELS, (int)known);
	proton_activate(session, NULL);
	/* An error only if the backend could record nothing. */
	if (proton_finalize(PROTON_ALL_SESSIONS, "proton", &err) != PROTON_OK &&
	    (flushed == PROTON_OK || !strstr(flush_err.text, err.text)))
		FAIL("%s: end: %s", entry->name, err.text);
	if (!may_stay && !is_resting())
		FAIL("%s: something stayed on after the end", entry->name);
	struct profile *profile = rec_load("a.proton");
	if (rec_count(profile, "k") != KERNELS && !rec_printed("\n") && !known)
		FAIL("%s: kernels are missing without a warning", entry->name);
	if (tests_cuda() && !strstr(entry->name, "Pop"))
		CHECK_EQ(fake.pushed(), 0);
	return true;
}

/* This HIP cannot tell captures apart: kernels of graphs are shown by their names. */
static bool are_captures_unknown;

/* After the fault everything works as before. */
static void session_without_fault(const struct entry *entry)
{
	struct proton_error err = {0};

	if (start_all(entry, &err) < 0) {
		/* The registration failed, and cannot be repeated; or HIP lacks the function. */
		if (!tests_backend("rocprofiler") && !strstr(err.text, entry->name))
			FAIL("%s: start after the fault: %s", entry->name, err.text);
		return;
	}
	work();
	struct profile *profile = finish();
	if (rec_count(profile, "k") != KERNELS ||
	    rec_count(profile, "<captured_at>/node") +
			    (are_captures_unknown ? rec_count(profile, "node") : 0) !=
		    REPLAYS * NODES)
		FAIL("%s: not whole after the fault", entry->name);
	if (!fake.is_idle())
		FAIL("%s: not idle after the fault", entry->name);
	CHECK_EQ(fake.buffers_out(), 0);
}

static void try_fault(const struct entry *entry, uint32_t first, uint32_t count)
{
	/* If disabling is refused, things stay enabled; if a flush is, the buffer has records. */
	bool may_stay = strcmp(entry->name, "cuptiUnsubscribe") == 0 ||
			strcmp(entry->name, "flush_buffer") == 0 ||
			strncmp(entry->name, "cuptiActivityDisable", 20) == 0 ||
			strstr(entry->name, "_disable_");

	load_fake();
	rec_begin_saying();
	fail(entry, first, count);
	session_with_fault(entry, may_stay);
	/* The AMD backends print that they are experimental. */
	if (rec_printed("\n") > (tests_cuda() ? 4 : 5))
		FAIL("%s: said %d times", entry->name, rec_printed("\n"));
	fail(entry, 0, 0);
	session_without_fault(entry);
}

/* Each in its own process: a loaded library stays loaded. */
static void in_child(void (*run)(const struct entry *, uint32_t, uint32_t),
		     const struct entry *entry, uint32_t first, uint32_t count)
{
	int status;

	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		*rec_directory = '\0';
		run(entry, first, count);
		exit(0);
	}
	CHECK_LT(0, pid);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		FAIL("%s, call %u, %s: see above", entry->name, first,
		     count == FAKE_ALWAYS ? "always" : "once");
}

static void each(uint32_t first, uint32_t count)
{
	size_t entry_count;
	const struct entry *entry = entries(&entry_count);

	setenv("ROCPROFILER_PC_SAMPLING_BETA_ENABLED", "1", 1);
	load_fake();
	for (size_t i = 0; i < entry_count; i++)
		if (is_of_sessions(&entry[i]) && (!entry[i].is_driver || !entry[i].is_optional))
			in_child(try_fault, &entry[i], first, count);
}

TEST(every_entry_point_may_fail_at_its_first_call)
{
	each(1, 1);
}

TEST(every_entry_point_may_fail_at_its_second_call)
{
	each(2, 1);
}

TEST(every_entry_point_may_always_fail)
{
	each(1, FAKE_ALWAYS);
}

/* Or its failure would show nothing. */
static void check_called(const struct entry *entry, uint32_t unused, uint32_t unused_too)
{
	struct proton_error err = {0};

	(void)unused;
	(void)unused_too;
	if (start_all(entry, &err) < 0)
		FAIL("start: %s", err.text);
	work();
	rec_finalize(PROTON_ALL_SESSIONS, "none");
	if (!(entry->is_driver ? fake.cuda_calls : fake.calls)(entry->name))
		FAIL("%s was not called", entry->name);
}

TEST(every_entry_point_is_called)
{
	/* In a forked child, or if another function fails. */
	static const char rare[] = "stop_context hipHostFree is_initialized hipStreamIsCapturing";
	size_t entry_count;
	const struct entry *entry = entries(&entry_count);

	ONLY_AMD("CUPTI's entry points for PC sampling are those of test_cuda_pc_sampling.c");
	setenv("ROCPROFILER_PC_SAMPLING_BETA_ENABLED", "1", 1);
	load_fake();
	for (size_t i = 0; i < entry_count; i++)
		if (!strstr(rare, entry[i].name))
			in_child(check_called, &entry[i], 0, 0);
}

/* A start makes dozens of calls to enable callbacks: each may be the one that fails. */
TEST(a_start_that_fails_half_way_leaves_nothing)
{
	static const struct entry enable_cupti = {"cuptiEnableCallback", false, false, false};
	static const struct entry enable_roctracer = {"roctracer_enable_op_callback", false, false,
						      false};
	const struct entry *enable = tests_cuda() ? &enable_cupti : &enable_roctracer;

	NOT_WITH("rocprofiler", "a process registers once: each_call_of_a_registration_may_fail");
	start();
	uint32_t calls = fake.calls(enable->name);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
	CHECK_LT(10, calls);
	for (uint32_t call = 1; call <= calls; call++) {
		struct proton_error err = {0};

		fail(enable, call, 1);
		if (start_named("a", tested_backend(), &err) >= 0) /* an optional one */
			rec_finalize(PROTON_ALL_SESSIONS, "none");
		else
			CHECK_HAS(err.text, enable->name);
		CHECK(is_resting());
	}
	fail(enable, 0, 0);
	session_without_fault(enable);
}

TEST(each_call_of_a_registration_may_fail)
{
	static const char *const names[] = {
		"create_context",
		"create_buffer",
		"start_context",
		"configure_buffer_tracing_service",
		"configure_callback_tracing_service",
		"configure_external_correlation_id_request_service",
		"create_callback_thread",
		"assign_callback_thread",
	};

	if (!tests_backend("rocprofiler"))
		SKIP("only rocprofiler-sdk has a registration");
	load_fake();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		for (uint32_t call = 1; call <= 8; call++)
			in_child(try_fault, &(struct entry){names[i], false, false, false}, call,
				 1);
}

static int start_data(const char *name, const char *data, struct proton_error *err)
{
	return start_with((struct proton_session_options){.name = rec_path(name), .data = data},
			  err);
}

/* A failed start takes up neither one of 32 sessions nor one of 4 traces. */
TEST(any_number_of_starts_may_fail_before_one_works)
{
	static const struct entry firsts[] = {{"cuptiSubscribe", false, false, false},
					      {"start_context", false, false, false},
					      {"roctracer_open_pool_expl", false, false, false}};
	const struct entry *first = &firsts[tests_cuda() ? 0 : tests_backend("roctracer") ? 2 : 1];
	struct proton_error err = {0};
	char name[16];

	load_fake();
	if (tests_backend("rocprofiler")) /* it is registered, and has the code objects */
		proton_prepare();
	fail(first, 1, FAKE_ALWAYS);
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		CHECK_LT(start_data(name, i % 2 ? "trace" : "tree", &err), 0);
		CHECK_HAS(err.text, tests_cuda() ? " failed: FAKE_ERROR_999" : " failed");
		snprintf(name, sizeof(name), "f%d.proton", i);
		CHECK(!rec_exists(name));
	}
	for (int i = 0; i < 100; i++) {
		CHECK_LT(start_data("nowhere/a", i % 2 ? "trace" : "tree", &err), 0);
		CHECK_HAS(err.text, "No such file or directory");
	}
	CHECK(!proton_is_profiling());
	fail(first, 0, 0);
	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "t%d", i);
		CHECK_LE(0, start_data(name, "trace", &err));
	}
	launch_ns("k", 10);
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
	for (int i = 0; i < 4; i++) {
		struct profile *profile;

		snprintf(name, sizeof(name), "t%d.proton", i);
		profile = rec_load(name);
		CHECK_U64(rec_count(profile, "k"), 1);
	}
	session_without_fault(first);
}

/* ------------------------------------------------------------------ missing symbols */

static void try_missing(const struct entry *entry, uint32_t unused, uint32_t unused_too)
{
	const char *variable = library_variable(entry->is_driver);
	struct proton_session_options options = {
		.size = sizeof(options), .name = rec_path("a"), .backend = tested_backend()};
	struct proton_error err = {0};
	char name[96];
	char *whole = strdup(getenv(variable));
	int session;

	(void)unused;
	(void)unused_too;
	snprintf(name, sizeof(name), "%s%s",
		 tests_backend("rocprofiler") && !entry->is_driver ? "rocprofiler_" : "",
		 entry->name);
	setenv(variable, rec_without(whole, name), 1);
	are_captures_unknown = strcmp(name, "hipStreamGetCaptureInfo") == 0;
	/* A HIP that lacks something gives no device, stream or value, but kernels. */
	if (entry->is_optional || (entry->is_first && tests_second()) ||
	    (entry->is_driver && !tests_cuda())) {
		free(whole);
		(tests_cuda() ? find_fake_of_cuda : find_fake_of_hip)(); /* in the copy */
		session_without_fault(entry);
		return;
	}
	CHECK_EQ(proton_start(&options, &session, &err), PROTON_E_VERSION);
	CHECK_HAS(err.text, name);
	CHECK_HAS(err.text, entry->is_driver             ? "a newer driver"
			    : tests_backend("roctracer") ? "is required"
							 : "older than");
	CHECK(!proton_is_profiling());
	CHECK(!rec_exists("a.proton"));
	setenv(variable, whole, 1);
	free(whole);
	if (tests_cuda()) /* a failed start is not remembered; ROCm's library stays chosen */
		session_without_fault(entry);
}

TEST(every_entry_point_may_be_missing)
{
	size_t entry_count;
	const struct entry *entry = entries(&entry_count);

	setenv("ROCPROFILER_PC_SAMPLING_BETA_ENABLED", "1", 1);
	load_fake();
	for (size_t i = 0; i < entry_count; i++)
		if (is_of_sessions(&entry[i]))
			in_child(try_missing, &entry[i], 0, 0);
}
