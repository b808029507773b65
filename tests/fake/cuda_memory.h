/* What a test tells the fake libcuda about device memory and events. */
#ifndef TESTS_FAKE_CUDA_MEMORY_H
#define TESTS_FAKE_CUDA_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* While held, what is recorded on a stream does not come to pass: kernels are still running. */
void fake_hold_events(bool is_held);
/* Device memory that is allocated now, in bytes, and the most there may be (0: no limit). */
size_t fake_device_bytes(void);
void fake_limit_device(size_t bytes);

#endif
