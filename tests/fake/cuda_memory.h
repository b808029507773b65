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

/* Called in each copy and set, on the thread that makes it: the test plays CUPTI. */
void fake_set_on_memory(void (*on_memory)(void));
/* What FAKE_CUDA_FAIL says of the entry point; for all files of the library. */
int play_failure(const char *name);

#endif
