/* Threads in the driver: facts that the kernel has and CUPTI does not report. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The call of a thread. The number is -1 if the thread runs, or waits for a processor. */
struct system_call {
	bool is_running;
	long number;
	unsigned long argument; /* the first */
};

/* False: the thread has ended, or the kernel does not show it. */
bool system_call_read(pid_t thread, struct system_call *out);
/* True for an ioctl on a file whose path begins with `devices`. */
bool system_call_is_ioctl(const struct system_call *call, const char *devices);

/*
 * Waits until no other thread has been in a long ioctl on files whose paths begin with `devices`
 * for 8 ms: a thread that creates a CUDA context, which takes 0.1 to 0.9 s (H200), is in one most
 * of that time. False if that takes longer than the limit.
 */
bool system_call_await_ioctl(const char *devices, uint64_t limit_ns);
/* True if the thread runs or waits for a processor, outside of a system call; not if it sleeps. */
bool system_call_is_running(pid_t thread);
