/*
 * GPU driver for instrumentation, with CUDA's function names: NVIDIA's libcuda.so.1, or HIP adapted
 * to the same interface (gpu_driver_hip.h). The first instrumented kernel determines which, because
 * a process may have both libraries. Does not need vendor headers or libraries to build.
 */
#ifndef BACKEND_INTRA_GPU_DRIVER_H
#define BACKEND_INTRA_GPU_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define DRIVER_OUT_OF_MEMORY 2
#define DRIVER_DEINITIALIZED 4
#define DRIVER_CAPTURE_RELAXED 2
#define DRIVER_STREAM_NON_BLOCKING 1u
#define DRIVER_EVENT_QUIET 3u /* blocking wait, no timing */
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

/* Declared as in cuda.h, with handles as pointers; 0 is success. */
#define DRIVER_FUNCTIONS(X)                                                                        \
	X(cuCtxGetCurrent, (void **context))                                                       \
	X(cuCtxPushCurrent_v2, (void *context))                                                    \
	X(cuCtxPopCurrent_v2, (void **context))                                                    \
	X(cuCtxGetDevice, (int *device))                                                           \
	X(cuCtxSynchronize, (void))                                                                \
	X(cuDeviceGetAttribute, (int *value, int attribute, int device))                           \
	X(cuDeviceGetName, (char *name, int length, int device))                                   \
	X(cuStreamIsCapturing, (void *stream, int *status))                                        \
	X(cuThreadExchangeStreamCaptureMode, (int *mode))                                          \
	X(cuStreamCreate, (void **stream, unsigned flags))                                         \
	X(cuStreamDestroy_v2, (void *stream))                                                      \
	X(cuStreamSynchronize, (void *stream))                                                     \
	X(cuEventCreate, (void **event, unsigned flags))                                           \
	X(cuEventDestroy_v2, (void *event))                                                        \
	X(cuEventRecord, (void *event, void *stream))                                              \
	X(cuEventQuery, (void *event))                                                             \
	X(cuEventSynchronize, (void *event))                                                       \
	X(cuMemAlloc_v2, (uint64_t * address, size_t bytes))                                       \
	X(cuMemFree_v2, (uint64_t address))                                                        \
	X(cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags))                           \
	X(cuMemFreeHost, (void *memory))                                                           \
	X(cuMemcpyDtoHAsync_v2, (void *to, uint64_t from, size_t bytes, void *stream))             \
	X(cuMemcpy2DAsync_v2, (const struct driver_copy *copy, void *stream))                      \
	X(cuMemsetD8Async, (uint64_t address, unsigned char value, size_t count, void *stream))

/* For the calibration kernel (calibrate.h): all of them, or all NULL. */
#define DRIVER_KERNEL_FUNCTIONS(X)                                                                 \
	X(cuModuleLoadData, (void **module, const void *image))                                    \
	X(cuModuleUnload, (void *module))                                                          \
	X(cuModuleGetFunction, (void **function, void *module, const char *name))                  \
	X(cuLaunchKernel, (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,      \
			   unsigned block_x, unsigned block_y, unsigned block_z,                   \
			   unsigned shared_bytes, void *stream, void **parameters, void **extra))  \
	X(cuStreamQuery, (void *stream))

struct driver {
#define DRIVER_FIELD(name, arguments) int(*name) arguments;
	DRIVER_FUNCTIONS(DRIVER_FIELD)
	DRIVER_KERNEL_FUNCTIONS(DRIVER_FIELD)
#undef DRIVER_FIELD
};

/* A function of a library, and its offset in a struct of pointers. */
struct driver_name {
	const char *name;
	size_t offset;
};

/* Fills `functions`. If the library lacks one, sets none and returns its name. */
const char *driver_find(void *library, const struct driver_name *names, size_t count,
			void *functions);
/* Checks whether kernels can run at all, without initializing anything. E_NOLIB. */
int driver_look(struct proton_error *err);
/*
 * Fills `driver` for kernels of this vendor; idempotent. E_NOLIB; E_UNSUPPORTED, also if it was
 * filled for the other vendor.
 */
int driver_bind(bool is_amd, struct proton_error *err);
/* True after driver_bind(); then the calling thread sees `driver`. */
bool driver_is_bound(void);
/* After fork(), in the child. */
void driver_forget(void);
extern struct driver driver;

/* Converts the integer form of a driver handle. */
static inline void *driver_handle(uint64_t value)
{
	return (void *)(uintptr_t)value;
}

/*
 * While a thread captures a graph, calls such as cuMemAlloc fail on every thread and invalidate the
 * capture, unless the calling thread has relaxed its capture mode. Also excludes the thread's GPU
 * work from all profiles until driver_leave(). Returns the argument for driver_leave(). `driver`
 * must be bound.
 */
int driver_enter(void);
void driver_leave(int mode);

/*
 * ID (record/store/devices.h) of the current context's device, which is described if new; and its
 * clock rate.
 */
uint32_t driver_device(uint64_t *clock_khz);
/* Rate of the global timer in unit headers, on the current context's device. */
uint64_t driver_timer_khz(void);

#endif
