/* Controls of the fake libcuda: device memory and CUDA events. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* While held, recorded events do not complete, as if kernels were still running. */
void fake_hold_events(bool is_held);
/* Device memory that is allocated now, in bytes, and its limit (0: no limit). */
size_t fake_device_bytes(void);
void fake_limit_device(size_t bytes);

/* Called in each memory copy and memset, on the calling thread: the test acts as CUPTI. */
void fake_set_on_memory(void (*on_memory)(void));
/* The result that FAKE_CUDA_FAIL sets for the entry point; for all files of the library. */
int fake_failure(const char *name);
