/*
 * Every entry point of libcupti and libcuda that the CUDA backend calls fails, in turn, at its
 * first call, at its second, and always; and every one is missing, in turn. The program
 * continues, the error is reported, nothing stays subscribed, and after the fault everything
 * works again.
 */
#include "unit/cuda/cuda_session.h"

#include "driver/driver.h"

#define KERNELS 10
#define REPLAYS 3
#define NODES 2

struct entry {
	const char *name;
	bool is_driver;
	bool is_optional; /* recording works without it */
	bool is_first;    /* CUPTI's second interface works without it */
};

static const struct entry entries[] = {
#define O(name, args) {#name, false, true, false},
#define F(name, args) {#name, false, false, true},
#define V(name, args) {#name, false, false, false},
#include "backend/cuda/cupti_symbols.def"
#undef V
#define X(name, version, args, users) {#name #version, true, !((users)&FOR_RECORDING), false},
#include "driver/cuda_functions.def"
#undef X
};
#define ENTRIES (sizeof(entries) / sizeof(entries[0]))

static void fail(const struct entry *entry, uint32_t first, uint32_t count)
{
	if (entry->is_driver)
		fake.cuda_fail(entry->name, first, count, 999);
	else
		fake.fail(entry->name, first, count, 999);
}

/* Kernels, and replays of a graph that is destroyed before their records come. */
static void work(void)
{
	uint32_t graph;
	uint32_t exec;

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
	struct profile *profile;
	uint64_t known;
	int flushed;
	int session = start_named("a", tested_backend(), &err);

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
	flushed = proton_deactivate(session, true, &flush_err);
	known = rec_counter(session, "kernels") + losses(session);
	if (flushed != PROTON_OK)
		CHECK_LT(20, strlen(flush_err.text));
	if (known < KERNELS && flushed == PROTON_OK)
		FAIL("%s: %d kernels ran, %d are accounted for", entry->name, KERNELS, (int)known);
	proton_activate(session, NULL);
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
	if (!may_stay && !fake.is_idle())
		FAIL("%s: something stayed on after the end", entry->name);
	profile = rec_load("a.proton");
	if (rec_count(profile, "k") != KERNELS && !rec_printed("\n") && !known)
		FAIL("%s: kernels are missing without a warning", entry->name);
	profile_free(profile);
	CHECK_EQ(fake.pushed(), entry->is_driver && strstr(entry->name, "Pop") ? fake.pushed() : 0);
	return true;
}

/* After the fault everything works as before. */
static void session_without_fault(const struct entry *entry)
{
	struct profile *profile;

	start();
	work();
	profile = finish();
	if (rec_count(profile, "k") != KERNELS ||
	    rec_count(profile, "<captured_at>/node") != REPLAYS * NODES)
		FAIL("%s: not whole after the fault", entry->name);
	profile_free(profile);
	if (!fake.is_idle())
		FAIL("%s: not idle after the fault", entry->name);
	CHECK_EQ(fake.buffers_out(), 0);
}

static void try_fault(const struct entry *entry, uint32_t first, uint32_t count)
{
	/* If CUPTI refuses to disable something, it stays enabled. */
	bool may_stay = strcmp(entry->name, "cuptiUnsubscribe") == 0 ||
			strncmp(entry->name, "cuptiActivityDisable", 20) == 0;

	load_fake();
	rec_begin_saying();
	fail(entry, first, count);
	session_with_fault(entry, may_stay);
	if (rec_printed("\n") > 4)
		FAIL("%s: said %d times", entry->name, rec_printed("\n"));
	fail(entry, 0, 0);
	session_without_fault(entry);
}

/* Each in its own process: a loaded library stays loaded. */
static void in_child(void (*run)(const struct entry *, uint32_t, uint32_t),
		     const struct entry *entry, uint32_t first, uint32_t count)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
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

TEST(every_entry_point_may_fail_at_its_first_call)
{
	load_fake();
	for (size_t i = 0; i < ENTRIES; i++)
		if (!entries[i].is_driver || !entries[i].is_optional)
			in_child(try_fault, &entries[i], 1, 1);
}

TEST(every_entry_point_may_fail_at_its_second_call)
{
	load_fake();
	for (size_t i = 0; i < ENTRIES; i++)
		if (!entries[i].is_driver || !entries[i].is_optional)
			in_child(try_fault, &entries[i], 2, 1);
}

TEST(every_entry_point_may_always_fail)
{
	load_fake();
	for (size_t i = 0; i < ENTRIES; i++)
		if (!entries[i].is_driver || !entries[i].is_optional)
			in_child(try_fault, &entries[i], 1, FAKE_ALWAYS);
}

/* Start makes dozens of calls to enable callbacks: each may be the one that fails. */
TEST(a_start_that_fails_half_way_leaves_nothing)
{
	static const struct entry enable = {"cuptiEnableCallback", false, false, false};
	uint32_t calls;

	start();
	calls = fake.calls("cuptiEnableCallback");
	rec_finalize(PROTON_ALL_SESSIONS, "none");
	CHECK_LT(10, calls);
	for (uint32_t call = 1; call <= calls; call++) {
		struct proton_error err = {0};

		fail(&enable, call, 1);
		if (start_named("a", tested_backend(), &err) >= 0) /* an optional one */
			rec_finalize(PROTON_ALL_SESSIONS, "none");
		else
			CHECK_HAS(err.text, "cuptiEnableCallback failed");
		CHECK(fake.is_idle());
	}
	fail(&enable, 0, 0);
	session_without_fault(&enable);
}

static int start_data(const char *name, const char *data, struct proton_error *err)
{
	struct proton_session_options options = {
		.size = sizeof(options),
		.name = rec_path(name),
		.data = data,
		.backend = tested_backend(),
		.flags = PROTON_SESSION_QUIET,
	};
	int session = -1;

	return proton_start(&options, &session, err) == PROTON_OK ? session : -1;
}

/* A failed start takes up neither one of 32 sessions nor one of 4 traces. */
TEST(any_number_of_starts_may_fail_before_one_works)
{
	static const struct entry subscribe = {"cuptiSubscribe", false, false, false};
	struct proton_error err = {0};
	char name[16];

	load_fake();
	fail(&subscribe, 1, FAKE_ALWAYS);
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		CHECK_LT(start_data(name, i % 2 ? "trace" : "tree", &err), 0);
		CHECK_HAS(err.text, " failed: FAKE_ERROR_999");
		snprintf(name, sizeof(name), "f%d.proton", i);
		CHECK(!rec_exists(name));
	}
	for (int i = 0; i < 100; i++) {
		CHECK_LT(start_data("nowhere/a", i % 2 ? "trace" : "tree", &err), 0);
		CHECK_HAS(err.text, "No such file or directory");
	}
	CHECK(!proton_is_profiling());
	fail(&subscribe, 0, 0);
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
		profile_free(profile);
	}
	session_without_fault(&subscribe);
}

/* ------------------------------------------------------------------ missing symbols */

static void try_missing(const struct entry *entry, uint32_t unused, uint32_t unused_too)
{
	const char *variable = entry->is_driver ? "PROTON_CUDA_PATH" : "PROTON_CUPTI_PATH";
	struct proton_session_options options = {
		.size = sizeof(options), .name = rec_path("a"), .backend = tested_backend()};
	struct proton_error err = {0};
	char *whole = strdup(getenv(variable));
	int session;

	(void)unused;
	(void)unused_too;
	setenv(variable, rec_without(whole, entry->name), 1);
	if (entry->is_optional || (entry->is_first && tests_second())) {
		free(whole);
		find_fake_of_cuda(); /* in the copy */
		session_without_fault(entry);
		return;
	}
	CHECK_EQ(proton_start(&options, &session, &err), PROTON_E_VERSION);
	CHECK_HAS(err.text, entry->name);
	CHECK_HAS(err.text, entry->is_driver ? "a newer driver" : "older than");
	CHECK(!proton_is_profiling());
	CHECK(!rec_exists("a.proton"));
	setenv(variable, whole, 1); /* a failed start is not remembered */
	free(whole);
	session_without_fault(entry);
}

TEST(every_entry_point_may_be_missing)
{
	load_fake();
	for (size_t i = 0; i < ENTRIES; i++)
		in_child(try_missing, &entries[i], 0, 0);
}
