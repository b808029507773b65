/* Controls of the fake libamdhip64, found with dlsym() (unit/amd/hip_controls.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Called in each launch, in place of the device. The parameters are the kernel's. */
typedef void (*fake_kernel_fn)(uint32_t ctas, uint32_t threads, uint64_t stream, void **parameters);

/* X(type, name, arguments): fake_NAME() in libamdhip64. */
#define FAKE_HIP_CONTROLS(X)                                                                       \
	/* The first call of HIP initializes it: hip_register.c. */                                \
	X(void, hip_initialize, (void))                                                            \
	/* The rate of the device's timer; 0: HIP does not know it. */                             \
	X(void, set_wall_clock, (int khz))                                                         \
	/* Captures that calls have broken. */                                                     \
	X(uint32_t, invalidated_captures, (void))                                                  \
	/* The result of hipGetLastError() on this thread. */                                      \
	X(int, last_error, (void))                                                                 \
	X(void, set_error, (int error))                                                            \
	X(void, set_kernel, (fake_kernel_fn function))                                             \
	/* The number of the capture that fake_set_capture() begins next. */                       \
	X(void, set_capture_number, (uint64_t number))                                             \
	/* This stream is being captured, in addition; number 0: not any more. */                  \
	X(void, set_stream_capture, (uint64_t stream, uint64_t number))                            \
	/* One replay of the copies and host functions captured since the last */                  \
	/* fake_set_capture_number(). */                                                           \
	X(void, run_captured, (void))                                                              \
	/* While held, copies to the host and host functions outside captures wait for */          \
	/* fake_run_held(). */                                                                     \
	X(void, hold_streams, (bool is_held))                                                      \
	X(void, run_held, (void))                                                                  \
	/* The device that was the current one in the last copy to the host. */                    \
	X(int, copied_on, (void))                                                                  \
	/* The device of all memory, 0 at first; -1: HIP knows none of it. */                      \
	X(void, set_memory_device, (int device))

#define FAKE_DECLARE(type, name, arguments) type fake_##name arguments;
FAKE_HIP_CONTROLS(FAKE_DECLARE)
#undef FAKE_DECLARE

/* hip_streams.c. A copy to the host on `stream`; true: it was captured or is held. */
bool fake_hip_keep_copy(void *to, const void *from, size_t bytes, void *stream);
