/*
 * Every entry point of roctracer, and of HIP, that the backend calls fails, in turn, at its first
 * call, at its second, and always; and every one of roctracer is missing, in turn. The program
 * continues, the error is reported, nothing stays enabled, and after the fault everything works
 * again.
 */
#include "unit/amd/roctracer_session.h"

#include <sys/wait.h>

#define KERNELS 10

struct entry {
	const char *name;
	bool is_hip;
};

static const struct entry entries[] = {
#define V(name, args) {#name, false},
#include "backend/amd/roctracer_symbols.def"
#undef V
	{"hipGetDevice", true},
	{"hipSetDevice", true},
	{"hipDeviceGetAttribute", true},
	{"hipDeviceGetName", true},
	{"hipGetDevicePropertiesR0600", true},
};
#define ENTRIES (sizeof(entries) / sizeof(entries[0]))

static void fail(const struct entry *entry, uint32_t first, uint32_t count)
{
	(entry->is_hip ? fake.hip_fail : fake.fail)(entry->name, first, count, 999);
}

static void work(void)
{
	struct fake_hip_launch captured = {.call = "hipStreamBeginCapture",
					   .stream = &captured,
					   .words = {(uintptr_t)&captured}};

	for (int i = 0; i < KERNELS; i++)
		launch_ns("k", 5);
	fake.launch(&captured);
	captured.is_captured = true;
	captured.call = "hipModuleLaunchKernel";
	fake.launch(&captured);
	captured.call = "hipStreamEndCapture";
	fake.launch(&captured);
}

/* Loss counters of the only session together. */
static uint64_t losses(int session)
{
	struct proton_counter counters[64];
	int count = proton_statistics(session, counters, 64, NULL);
	uint64_t sum = 0;

	for (int i = 0; i < count; i++)
		if (counters[i].is_loss)
			sum += counters[i].value;
	return sum;
}

static void check_refused(const struct entry *entry, const struct proton_error *err, bool may_stay)
{
	CHECK_LT(err->status, 0);
	CHECK_LT(20, strlen(err->text)); /* an error message */
	CHECK(!proton_is_profiling());
	CHECK(!rec_exists("a.proton"));
	if (!may_stay && !fake.is_idle())
		FAIL("%s: a start that failed left something on", entry->name);
	work();
}

/* A session while the fault is on. */
static void session_with_fault(const struct entry *entry, bool may_stay)
{
	struct proton_error err = {0};
	struct proton_error flush_err = {0};
	uint64_t known;
	int flushed;
	int session = start_with((struct proton_session_options){0}, &err);

	if (session < 0) {
		check_refused(entry, &err, may_stay);
		return;
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
}

/* After the fault everything works as before. */
static void session_without_fault(const struct entry *entry)
{
	struct profile *profile;

	start();
	work();
	profile = finish();
	if (rec_count(profile, "k") != KERNELS)
		FAIL("%s: not whole after the fault", entry->name);
	profile_free(profile);
	if (!fake.is_idle())
		FAIL("%s: not idle after the fault", entry->name);
}

static void try_fault(const struct entry *entry, uint32_t first, uint32_t count)
{
	/* If roctracer refuses to disable something, it stays enabled. */
	bool may_stay = strstr(entry->name, "_disable_");

	load_fake();
	rec_begin_saying();
	fail(entry, first, count);
	session_with_fault(entry, may_stay);
	if (rec_printed("\n") > 5)
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
	for (size_t i = 0; i < ENTRIES; i++)
		in_child(try_fault, &entries[i], 1, 1);
}

TEST(every_entry_point_may_fail_at_its_second_call)
{
	for (size_t i = 0; i < ENTRIES; i++)
		in_child(try_fault, &entries[i], 2, 1);
}

TEST(every_entry_point_may_always_fail)
{
	for (size_t i = 0; i < ENTRIES; i++)
		in_child(try_fault, &entries[i], 1, FAKE_ALWAYS);
}

/* Start makes many calls to enable callbacks: each may be the one that fails. */
TEST(a_start_that_fails_half_way_leaves_nothing)
{
	static const struct entry enable = {"roctracer_enable_op_callback", false};
	uint32_t calls;

	start();
	calls = fake.calls(enable.name);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
	CHECK_LT(10, calls);
	for (uint32_t call = 1; call <= calls; call++) {
		struct proton_error err = {0};

		fail(&enable, call, 1);
		if (start_with((struct proton_session_options){0}, &err) >= 0) /* of ranges */
			rec_finalize(PROTON_ALL_SESSIONS, "none");
		else
			CHECK_HAS(err.text, "roctracer_enable_op_callback failed");
		CHECK(fake.is_idle());
	}
	fail(&enable, 0, 0);
	session_without_fault(&enable);
}

static void try_missing(const struct entry *entry, uint32_t unused, uint32_t unused_too)
{
	struct proton_error err = {0};
	char *whole = strdup(getenv("PROTON_ROCTRACER_PATH"));

	(void)unused;
	(void)unused_too;
	make_machine();
	load_hip();
	setenv("PROTON_ROCTRACER_PATH", rec_without(whole, entry->name), 1);
	free(whole);
	CHECK_LT(start_with((struct proton_session_options){0}, &err), 0);
	CHECK_EQ(err.status, PROTON_E_VERSION);
	CHECK_HAS(err.text, entry->name);
	CHECK(!proton_is_profiling());
	CHECK(!rec_exists("a.proton"));
}

TEST(every_entry_point_of_roctracer_may_be_missing)
{
	for (size_t i = 0; i < ENTRIES; i++)
		if (!entries[i].is_hip)
			in_child(try_missing, &entries[i], 0, 0);
}
