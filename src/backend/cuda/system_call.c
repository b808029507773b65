/*
 * Which system call a thread is in: /proc/PID/task/TID/syscall, whose first two words are the
 * call's number and its first argument (proc(5)). It is "running" for a thread that is in none. A
 * kernel may lack the file: then nothing is waited for.
 */
#include "backend/cuda/system_call.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

#define POLL_US 1000u
#define FREE_NS 8000000ull
#define BUSY_MAX 64u
#define LONG_LOOKS 3u

static bool is_device(unsigned long fd, const char *devices)
{
	char path[64], target[64];
	size_t length = strlen(devices);

	snprintf(path, sizeof(path), "/proc/self/fd/%lu", fd);
	return length <= sizeof(target) &&
	       readlink(path, target, sizeof(target)) >= (ssize_t)length &&
	       memcmp(target, devices, length) == 0;
}

bool system_call_read(pid_t thread, struct system_call *out)
{
	char path[64], text[128], *end;
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)thread);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (length <= 0)
		return false;
	text[length] = '\0';
	*out = (struct system_call){.is_running = strncmp(text, "running", 7) == 0, .number = -1};
	if (out->is_running)
		return true;
	out->number = strtol(text, &end, 10);
	if (*end == ' ')
		out->argument = strtoul(end, NULL, 16);
	return true;
}

bool system_call_is_ioctl(const struct system_call *call, const char *devices)
{
	return call->number == SYS_ioctl && is_device(call->argument, devices);
}

bool system_call_is_running(pid_t thread)
{
	struct system_call call;

	return system_call_read(thread, &call) && call.is_running;
}

/* Threads in an ioctl, and in how many looks in a row; 0: no thread. */
struct busy {
	long threads[BUSY_MAX];
	uint32_t looks[BUSY_MAX];
};

static uint32_t looks_before(const struct busy *before, long thread)
{
	for (uint32_t i = 0; i < BUSY_MAX; i++)
		if (before->threads[i] == thread)
			return before->looks[i];
	return 0;
}

/* True if a thread was in an ioctl at this look and at those before. */
static bool look_again(struct busy *busy, const char *devices)
{
	DIR *threads = opendir("/proc/self/task");
	struct busy before = *busy;
	bool is_long = false;
	uint32_t count = 0;
	struct system_call call;
	struct dirent *thread;

	*busy = (struct busy){0};
	while (threads && count < BUSY_MAX && (thread = readdir(threads)) != NULL) {
		long id = strtol(thread->d_name, NULL, 10); /* 0: "." or ".." */

		if (!id || !system_call_read((pid_t)id, &call) ||
		    !system_call_is_ioctl(&call, devices))
			continue;
		busy->threads[count] = id;
		busy->looks[count] = looks_before(&before, busy->threads[count]) + 1;
		is_long |= busy->looks[count] >= LONG_LOOKS;
		count++;
	}
	if (threads)
		closedir(threads);
	return is_long;
}

bool system_call_await_ioctl(const char *devices, uint64_t limit_ns)
{
	uint64_t start_ns = clock_monotonic_ns();
	uint64_t free_ns = start_ns;
	uint64_t now_ns = start_ns;
	uint32_t looks = 0; /* since then; on a busy machine they are few */
	struct busy busy = {0};

	while (now_ns - free_ns < FREE_NS || looks < LONG_LOOKS) {
		if (now_ns - start_ns >= limit_ns)
			return false;
		usleep(POLL_US);
		now_ns = clock_monotonic_ns();
		looks++;
		if (look_again(&busy, devices)) {
			free_ns = now_ns;
			looks = 0;
		}
	}
	return true;
}
