/* Whether the other threads of the process are outside of the CUDA driver. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * While the calling thread holds the others (thread_hold()): waits until each of them waits for the
 * end of the hold, or has used no processor for 10 ms while none was in an ioctl on files whose
 * paths begin with `devices`. Threads that wait for a lock of the driver sleep too, but then the
 * one with the lock runs, or is in an ioctl. False if that takes longer than the limit. Where the
 * kernel does not tell what threads do, only waits as system_call_await_ioctl() does.
 */
bool other_threads_await_outside(const char *devices, uint64_t limit_ns);
