/*
 * Every function of rocprofiler-sdk that the backend calls fails, in turn, at its first call, at
 * its second, and always; and every one is missing, in turn. The program continues, and the error
 * is reported.
 */
#include "unit/cuda/cuda_session.h"

#include <fcntl.h>
#include <sys/wait.h>

#include "fake/fake_sdk.h"

#define KERNELS 10

struct entry {
	const char *name;
	bool is_optional; /* recording works without it */
};

static const struct entry entries[] = {
#define O(name, args) {#name, true},
#define V(name, args) {#name, false},
#include "backend/amd/sdk_symbols.def"
#undef V
};
#define ENTRIES (sizeof(entries) / sizeof(entries[0]))

static void work(void)
{
	for (int i = 0; i < KERNELS; i++)
		launch_ns("k", 5);
}

static int start_memory(struct proton_error *err)
{
	struct proton_session_options options = {
		.size = sizeof(options),
		.name = rec_path("a"),
		.backend = "rocprofiler",
		.flags = PROTON_SESSION_QUIET | PROTON_SESSION_MEMORY,
	};
	int session = -1;

	return proton_start(&options, &session, err) == PROTON_OK ? session : -1;
}

/* All kernels are in the profile, or counted as lost, or the flush failed with an error. */
static void check_session(const struct entry *entry, int session)
{
	struct proton_counter counters[32];
	struct proton_error err = {0};
	uint64_t known = 0;
	int flushed;
	int count;

	work();
	flushed = proton_deactivate(session, true, &err);
	count = proton_statistics(session, counters, 32, NULL);
	for (int i = 0; i < count; i++)
		if (counters[i].is_loss || strcmp(counters[i].name, "kernels") == 0)
			known += counters[i].value;
	if (flushed != PROTON_OK)
		CHECK_LT(20, strlen(err.text));
	else if (known < KERNELS)
		FAIL("%s: %d kernels ran, %d are accounted for", entry->name, KERNELS, (int)known);
	proton_activate(session, NULL);
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
}

static void try_fault(const struct entry *entry, uint32_t first, uint32_t count)
{
	load_fake();
	rec_begin_saying();
	fake.fail(entry->name, first, count, 999);
	/* The second session is after the first has failed or ended. */
	for (int i = 0; i < 2; i++) {
		struct proton_error err = {0};
		int session = start_memory(&err);

		if (session >= 0) {
			check_session(entry, session);
			continue;
		}
		CHECK_LT(err.status, 0);
		CHECK_LT(20, strlen(err.text)); /* an error message */
		CHECK(!proton_is_profiling());
		if (i == 0)
			CHECK(!rec_exists("a.proton"));
		work();
	}
	if (rec_printed("\n") > 8) /* in two sessions */
		FAIL("%s: %d messages", entry->name, rec_printed("\n"));
}

/* Each in its own process: the library is registered with once. */
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

static void each(void (*run)(const struct entry *, uint32_t, uint32_t), uint32_t first,
		 uint32_t count)
{
	load_fake();
	for (size_t i = 0; i < ENTRIES; i++)
		in_child(run, &entries[i], first, count);
}

TEST(every_function_may_fail_at_its_first_call)
{
	each(try_fault, 1, 1);
}

TEST(every_function_may_fail_at_its_second_call)
{
	each(try_fault, 2, 1);
}

TEST(every_function_may_always_fail)
{
	each(try_fault, 1, FAKE_ALWAYS);
}

/* A copy of the library that has another name in place of `name`. */
static const char *copy_without(const char *path, const char *name)
{
	const char *copy = rec_path("copy.so");
	size_t length = strlen(name);
	struct proton_error err;
	char *bytes;
	size_t size;
	int fd;

	CHECK_OK(file_read_all(path, 0, &bytes, &size, &err), err);
	for (size_t i = 0; i + length < size; i++)
		if (memcmp(bytes + i, name, length + 1) == 0 && bytes[i - 1] == '\0')
			bytes[i] = 'R';
	fd = open(copy, O_CREAT | O_EXCL | O_WRONLY, 0700);
	CHECK_LE(0, fd);
	CHECK_EQ(write(fd, bytes, size), (ssize_t)size);
	close(fd);
	free(bytes);
	return copy;
}

static void try_missing(const struct entry *entry, uint32_t first, uint32_t count)
{
	struct proton_error err = {0};
	char name[96];
	int session;

	(void)first;
	(void)count;
	snprintf(name, sizeof(name), "rocprofiler_%s", entry->name);
	setenv("PROTON_ROCPROFILER_SDK_PATH",
	       copy_without(getenv("PROTON_ROCPROFILER_SDK_PATH"), name), 1);
	find_fake_of_hip(); /* in the copy */
	session = start_memory(&err);
	if (entry->is_optional) {
		CHECK_LE(0, session);
		check_session(entry, session);
		return;
	}
	CHECK_LT(session, 0);
	CHECK_EQ(err.status, PROTON_E_VERSION);
	CHECK_HAS(err.text, name);
	CHECK_HAS(err.text, "older than ROCm 7.0");
	CHECK(!proton_is_profiling());
}

TEST(every_function_may_be_missing)
{
	load_fake();
	for (size_t i = 0; i < ENTRIES; i++)
		in_child(try_missing, &entries[i], 0, 0);
}
