/*
 * Sessions over and over: descriptors, threads, mappings and memory do not grow with their number,
 * and the threads of an idle session seldom wake up. With the host backend and a fake driver.
 */
#include "unit/cuda/cuda_session.h"

#include <dirent.h>
#include <malloc.h>

#include "base/clock.h"

#define SESSIONS 50
#define WARM_UP 5
#define HEAP_GROWTH_MAX (24u << 10) /* of 50 sessions */
#define WAKE_UPS_MAX 10             /* per second: the flush thread has 2 */

struct held {
	size_t descriptors, threads, mappings, heap_bytes;
};

static size_t entries_of(const char *path)
{
	DIR *directory = opendir(path);
	size_t count = 0;

	CHECK(directory != NULL);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static struct held held_now(void)
{
	struct mallinfo2 heap = mallinfo2();
	FILE *maps = fopen("/proc/self/maps", "r");
	struct held held = {
		.descriptors = entries_of("/proc/self/fd"),
		.threads = entries_of("/proc/self/task"),
		.heap_bytes = heap.uordblks + heap.hblkhd,
	};

	CHECK(maps != NULL);
	for (int c; (c = fgetc(maps)) != EOF;)
		held.mappings += c == '\n';
	fclose(maps);
	return held;
}

static int start_as(const char *backend, const char *data)
{
	return start_options((struct proton_session_options){.data = data, .backend = backend});
}

static void one_session(const char *backend, const char *data, bool is_gpu)
{
	int session = start_as(backend, data);

	for (int i = 0; i < 20; i++) {
		char name[16];
		uint64_t token;

		snprintf(name, sizeof(name), "s%d", i % 5);
		token = proton_scope_enter(name);
		if (is_gpu)
			launch_ns("k", 5);
		else
			rec_kernel("k");
		proton_scope_exit(token, NULL);
	}
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_EQ(proton_activate(session, NULL), PROTON_OK);
	rec_finalize(session,
		     *data == 't' && data[1] == 'r' && data[2] == 'a' ? "chrome_trace" : "hatchet");
}

static void check_sessions(const char *backend, const char *data, bool is_gpu)
{
	struct held before, after;

	for (int i = 0; i < WARM_UP; i++)
		one_session(backend, data, is_gpu);
	before = held_now();
	for (int i = 0; i < SESSIONS; i++)
		one_session(backend, data, is_gpu);
	after = held_now();
	CHECK_EQ(after.descriptors, before.descriptors);
	CHECK_EQ(after.threads, before.threads);
	printf("# heap: %+ld bytes\n", (long)(after.heap_bytes - before.heap_bytes));
	if (TAP_IS_SANITIZED) /* sanitizers map and allocate too */
		return;
	CHECK_LE(after.mappings, before.mappings + 4); /* of malloc */
	CHECK_LE(after.heap_bytes, before.heap_bytes + HEAP_GROWTH_MAX);
}

TEST(trees_of_the_host_return_what_they_used)
{
	check_sessions("host", "tree", false);
}

TEST(traces_of_the_host_return_what_they_used)
{
	check_sessions("host", "trace", false);
}

TEST(trees_of_a_gpu_return_what_they_used)
{
	load_fake();
	check_sessions(tested_backend(), "tree", true);
}

TEST(traces_of_a_gpu_return_what_they_used)
{
	load_fake();
	check_sessions(tested_backend(), "trace", true);
}

/* Switches of all threads but this one. */
static long switches(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	long sum = 0;

	CHECK(tasks != NULL);
	while ((entry = readdir(tasks)) != NULL) {
		char path[300], line[128];
		FILE *status;

		if (*entry->d_name == '.' || atoi(entry->d_name) == getpid())
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
		status = fopen(path, "r");
		while (status && fgets(line, sizeof(line), status))
			if (strncmp(line, "voluntary_ctxt_switches:", 24) == 0)
				sum += atol(line + 24);
		if (status)
			fclose(status);
	}
	closedir(tasks);
	return sum;
}

static double wake_ups_per_second(void)
{
	uint64_t begin_ns = clock_monotonic_ns();

	long count = switches();

	usleep(500000);
	count = switches() - count;
	return (double)count * 1e9 / (double)(clock_monotonic_ns() - begin_ns);
}

static void check_idle(const char *backend, double max)
{
	int session = start_as(backend, "tree");
	double count = max + 3;

	if (TAP_IS_SANITIZED)
		SKIP("a thread of ThreadSanitizer wakes up 10 times per second");
	/* A first time, threads may still begin. */
	for (int i = 0; i < 20 && count > max + 2; i++)
		count = wake_ups_per_second();
	rec_finalize(session, "none");
	printf("# %s: %.1f wake-ups per second\n", backend, count);
	CHECK(count <= max + 2);
}

TEST(an_idle_session_of_the_host_has_no_thread_that_wakes_up)
{
	check_idle("host", 0);
}

TEST(threads_of_an_idle_session_of_a_gpu_seldom_wake_up)
{
	load_fake();
	check_idle(tested_backend(), WAKE_UPS_MAX);
}
