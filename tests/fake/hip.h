/* Controls of the fake libamdhip64, in addition to cuda_memory.h, cuda_append.h and faults.h. */
#ifndef TESTS_FAKE_HIP_H
#define TESTS_FAKE_HIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first call of HIP initializes it: hip_register.c. */
void fake_hip_initialize(void);

/* The rate of the device's timer; 0: HIP does not know it. */
void fake_set_wall_clock(int khz);
/* Captures that calls have broken. */
uint32_t fake_invalidated_captures(void);
/* The result of hipGetLastError() on this thread. */
int fake_last_error(void);
void fake_set_error(int error);

/* Called in each launch, in place of the device. The parameters are the kernel's. */
typedef void (*fake_kernel_fn)(uint32_t ctas, uint32_t threads, uint64_t stream, void **parameters);
void fake_set_kernel(fake_kernel_fn fn);
/* The handle of every function. */
uint64_t fake_function(void);

/* The number of the capture that fake_set_capture() begins next. */
void fake_set_capture_number(uint64_t number);
/* This stream is being captured, in addition; number 0: not any more. */
void fake_set_stream_capture(uint64_t stream, uint64_t number);
/* One replay of the copies and host functions captured since the last fake_set_capture_number(). */
void fake_run_captured(void);
/* While held, copies to the host and host functions outside captures wait for fake_run_held(). */
void fake_hold_streams(bool is_held);
void fake_run_held(void);

/* The device that was the current one in the last copy to the host. */
int fake_copied_on(void);
/* The device of all memory, 0 at first; -1: HIP knows none of it. */
void fake_set_memory_device(int device);

/* hip_streams.c. A copy to the host on `stream`; true: it was captured or is held. */
bool fake_hip_keep_copy(void *to, const void *from, size_t bytes, void *stream);

#endif
