/*
 * The kernel shows the system call of each thread in /proc/PID/task/TID/syscall, and its time on a
 * processor, in nanoseconds, in .../schedstat (proc(5)).
 *
 * Threads that wait for Python's lock wake every 5 ms, so their time on a processor grows. They are
 * known by the address that they wait at, which a thread shows that waits for the lock too. While
 * the lock is held they stay there.
 */
#include "backend/cuda/other_threads.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/cuda/system_call.h"
#include "base/clock.h"
#include "base/guest.h"
#include "record/thread/thread.h"

#define POLL_US 500u
#define IDLE_NS 10000000ull
#define PROBE_NS 20000000ull
#define OTHERS_MAX 1024u
/* glibc has the futexes of a condition variable, and of the mutex after it, within so many. */
#define LOCK_BYTES 64ull

/* ------------------------------------------------------------------ where held threads wait */

/* A thread that waits as held threads do, and ends after the hold. */
enum probe_state {
	PROBE_NONE,
	PROBE_STARTS, /* it may be given up */
	PROBE_WAITS,
};

static _Atomic int probe_state;
static _Atomic pid_t probe;

static void *wait_as_held(void *unused)
{
	int before = PROBE_STARTS;

	atomic_store(&probe, gettid());
	if (!atomic_compare_exchange_strong(&probe_state, &before, PROBE_WAITS))
		return unused;
	thread_wait_for_release();
	atomic_store(&probe_state, PROBE_NONE);
	return unused;
}

static bool start_probe(void)
{
	int before = PROBE_NONE;
	pthread_t thread;

	if (!atomic_compare_exchange_strong(&probe_state, &before, PROBE_STARTS))
		return true; /* that of an earlier hold is there still */
	if (own_thread_start(&thread, wait_as_held, NULL) != 0) {
		atomic_store(&probe_state, PROBE_NONE);
		return false;
	}
	pthread_detach(thread);
	return true;
}

static uint64_t futex_of(pid_t thread)
{
	struct system_call call;

	return system_call_read(thread, &call) && call.number == SYS_futex ? call.argument : 0;
}

/* The address that held threads wait at; 0: not known, or they do not wait. */
static uint64_t find_address(void)
{
	uint64_t start_ns = clock_monotonic_ns();
	uint64_t address = 0;
	int state = start_probe() ? PROBE_STARTS : PROBE_NONE;

	while (state != PROBE_NONE && clock_monotonic_ns() - start_ns < PROBE_NS) {
		uint64_t before = address;

		usleep(POLL_US);
		state = atomic_load(&probe_state);
		address = state == PROBE_WAITS ? futex_of(atomic_load(&probe)) : 0;
		if (address && address == before)
			return address;
	}
	state = PROBE_STARTS;
	atomic_compare_exchange_strong(&probe_state, &state, PROBE_NONE);
	return 0;
}

/* ------------------------------------------------------------------ one look at each thread */

struct other {
	pid_t thread;
	bool is_held;      /* for as long as the hold lasts */
	uint64_t used_ns;  /* of a processor */
	uint64_t since_ns; /* it has used none */
};

/* Of one hold; the calling thread has the holder. */
static struct other others[OTHERS_MAX];
static uint32_t count;

static struct other *find_other(pid_t thread)
{
	for (uint32_t i = 0; i < count; i++)
		if (others[i].thread == thread)
			return &others[i];
	if (count == OTHERS_MAX)
		return NULL;
	others[count] = (struct other){.thread = thread};
	return &others[count++];
}

static uint64_t read_used_ns(pid_t thread)
{
	char path[64], text[64] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", (int)thread);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	return strtoull(text, NULL, 10);
}

/* The time since which the thread is outside; UINT64_MAX: it is not. */
static uint64_t outside_since(pid_t thread, const char *devices, uint64_t address, uint64_t now_ns)
{
	struct other *other = find_other(thread);
	struct system_call call;
	uint64_t used_ns;

	if (!other)
		return UINT64_MAX;
	if (other->is_held || !system_call_read(thread, &call)) /* it has ended */
		return 0;
	if (address && call.number == SYS_futex &&
	    call.argument + LOCK_BYTES - address <= 2 * LOCK_BYTES) {
		other->is_held = true;
		return 0;
	}
	used_ns = read_used_ns(thread);
	if (call.is_running || used_ns != other->used_ns || system_call_is_ioctl(&call, devices)) {
		other->used_ns = used_ns;
		other->since_ns = now_ns;
		return UINT64_MAX;
	}
	return other->since_ns;
}

/* The time since which all are outside; UINT64_MAX: one is not. */
static uint64_t all_outside_since(const char *devices, uint64_t address)
{
	DIR *threads = opendir("/proc/self/task");
	uint64_t now_ns = clock_monotonic_ns();
	uint64_t result = threads ? 0 : UINT64_MAX;
	struct dirent *entry;

	while (threads && (entry = readdir(threads)) != NULL) {
		pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
		uint64_t since_ns = 0;

		if (thread && thread != gettid() && thread != atomic_load(&probe))
			since_ns = outside_since(thread, devices, address, now_ns);
		if (since_ns > result)
			result = since_ns;
	}
	if (threads)
		closedir(threads);
	return result;
}

bool other_threads_await_outside(const char *devices, uint64_t limit_ns)
{
	uint64_t start_ns = clock_monotonic_ns();
	struct system_call here;
	uint64_t address;

	if (!system_call_read(gettid(), &here) || !read_used_ns(gettid()))
		return system_call_await_ioctl(devices, limit_ns);
	count = 0;
	address = find_address();
	while (clock_monotonic_ns() - start_ns < limit_ns) {
		uint64_t since_ns = all_outside_since(devices, address);

		if (since_ns != UINT64_MAX && clock_monotonic_ns() - since_ns >= IDLE_NS)
			return true;
		usleep(POLL_US);
	}
	return false;
}
