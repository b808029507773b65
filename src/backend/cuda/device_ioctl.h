/* Calls of the driver that CUPTI does not report, because it is not subscribed yet. */
#ifndef BACKEND_CUDA_DEVICE_IOCTL_H
#define BACKEND_CUDA_DEVICE_IOCTL_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Waits until no other thread has been in a long ioctl on files whose paths begin with `devices`
 * for 8 ms: a thread that creates a CUDA context, which takes 0.1 to 0.9 s (H200), is in one most
 * of that time. False if that takes longer than the limit.
 */
bool device_ioctl_await(const char *devices, uint64_t limit_ns);

#endif
