/*
 * GPU drivers, loaded at run time: `libcuda` is NVIDIA's, and `driver` the instrumented kernels'
 * driver, which is libcuda or HIP adapted to the same interface (hip_driver.h). The first
 * instrumented kernel determines which, because a process may have both libraries. Does not need
 * vendor headers or libraries to build.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define DRIVER_OUT_OF_MEMORY 2
#define DRIVER_DEINITIALIZED 4
#define DRIVER_CAPTURE_RELAXED 2
#define DRIVER_STREAM_NON_BLOCKING 1u
#define DRIVER_EVENT_QUIET 3u /* blocking wait, no timing */
#define DRIVER_EVENT_TIMING 0u
#define DRIVER_NOT_READY 600
#define DRIVER_HOST_PORTABLE 1u
#define DRIVER_ATTRIBUTE_CLOCK_RATE 13
#define DRIVER_ATTRIBUTE_PROCESSORS 16
#define DRIVER_ATTRIBUTE_MEMORY_CLOCK_RATE 36
#define DRIVER_ATTRIBUTE_BUS_WIDTH 37
#define DRIVER_ATTRIBUTE_CC_MAJOR 75
#define DRIVER_ATTRIBUTE_CC_MINOR 76

#define DRIVER_MEMORY_HOST 1
#define DRIVER_MEMORY_DEVICE 2

/* CUDA_MEMCPY2D: copies rows of bytes. */
struct driver_copy {
	size_t from_x;
	size_t from_y;
	int from_kind;
	const void *from_host;
	uint64_t from_device;
	void *from_array;
	size_t from_pitch;
	size_t to_x;
	size_t to_y;
	int to_kind;
	void *to_host;
	uint64_t to_device;
	void *to_array;
	size_t to_pitch;
	size_t width_bytes;
	size_t rows;
};

_Static_assert(sizeof(struct driver_copy) == 128 && offsetof(struct driver_copy, rows) == 120,
	       "CUDA_MEMCPY2D");

/* A function that the library does not have is NULL. */
struct driver {
#define X(name, version, arguments, users) int(*name) arguments;
#include "driver/cuda_functions.def"
#undef X
};

/* Users of libcuda's functions. One without a user in the list is optional. */
enum driver_user {
	FOR_RECORDING = 1,
	FOR_METRICS = 2, /* device metrics */
	FOR_INTRA = 4,
	FOR_CALIBRATION = 8, /* of the record overhead */
};

/* Set by driver_load_cuda(). */
extern struct driver libcuda;
/* Set by driver_load_hip(): HIP with the same interface (hip_driver.h). */
extern struct driver libhip;
/* Set by driver_bind(). */
extern struct driver driver;

/* True if this machine seems to have an NVIDIA driver; opens libcuda, initializes nothing. */
bool driver_cuda_is_likely(void);
/* Fills `libcuda`, once. E_NOLIB; E_VERSION, E_UNSUPPORTED if it lacks a function for `user`. */
int driver_load_cuda(enum driver_user user, struct proton_error *err);
/* Waits for all work in the context, which is current then. False if the driver refuses. */
bool driver_cuda_synchronize(void *context);
/* Fills `libhip`, once. E_NOLIB, E_UNSUPPORTED. */
int driver_load_hip(struct proton_error *err);

/* Checks whether instrumented kernels can run at all, without initializing anything. E_NOLIB. */
int driver_look(struct proton_error *err);
/* Fills `driver`, once. E_NOLIB; E_UNSUPPORTED, also if it was filled for the other vendor. */
int driver_bind(bool is_amd, struct proton_error *err);
/* True after driver_bind(); then the calling thread sees `driver`. */
bool driver_is_bound(void);
/* True if `driver` is HIP. */
bool driver_is_hip(void);

/* Converts the integer form of a driver handle. */
static inline void *driver_handle(uint64_t value)
{
	return (void *)(uintptr_t)value;
}

/*
 * While a thread captures a graph, calls such as cuMemAlloc fail on every thread and invalidate the
 * capture, unless the calling thread has relaxed its capture mode. Also excludes the thread's GPU
 * work from all profiles until driver_own_end(), of which the argument is returned. `driver` must
 * be bound.
 */
int driver_own_begin(void);
void driver_own_end(int mode);

/* GPUs and their properties, read once per GPU. record/store/devices.h has their ids. */

/* The GPU with this number in libcuda. */
uint32_t gpu_device_of_cuda(uint32_t ordinal);
/* The GPU with this number in libhip. */
uint32_t gpu_device_of_hip(uint32_t ordinal);
/* The current context's GPU, in `driver`; DEVICE_NONE if there is no context. */
uint32_t gpu_device_here(void);
/* Rate of the global timer in unit headers, on the current context's GPU. */
uint64_t gpu_device_timer_khz(void);
