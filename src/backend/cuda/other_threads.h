/* Whether the other threads of the process are outside of the CUDA driver. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Waits, while the calling thread holds the others (thread_hold()), until each other thread waits
 * for the end of the hold, or has used no processor for 10 ms while none was in an ioctl on files
 * with paths that begin with `devices`. A thread that waits for a lock of the driver sleeps too,
 * but then the thread with the lock runs, or is in an ioctl. False if this takes longer than the
 * limit. Where the kernel does not show this, only waits as system_call_await_ioctl() does.
 */
bool other_threads_await_outside(const char *devices, uint64_t limit_ns);
