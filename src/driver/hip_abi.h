/*
 * The part of HIP's ABI that Proton uses, from hip/hip_runtime_api.h of ROCm 6.0 to 7.1;
 * tests/python/test_hip_abi.py compares the two. Does not need vendor headers or libraries to
 * build.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define HIP_E_OUT_OF_MEMORY 2
#define HIP_E_DEINITIALIZED 4
#define HIP_E_INVALID_CONTEXT 201
#define HIP_E_NOT_READY 600
#define HIP_E_NOT_SUPPORTED 801

#define HIP_CAPTURE_RELAXED 2
#define HIP_STREAM_NON_BLOCKING 1u
#define HIP_EVENT_BLOCKING_SYNC 1u
#define HIP_EVENT_DISABLE_TIMING 2u
#define HIP_HOST_PORTABLE 1u
#define HIP_COPY_TO_DEVICE 1

/* Values of hipDeviceAttribute_t, which differ from CUDA's. */
#define HIP_ATTRIBUTE_CLOCK_RATE 5
#define HIP_ATTRIBUTE_BUS_WIDTH 59
#define HIP_ATTRIBUTE_MEMORY_CLOCK_RATE 60
#define HIP_ATTRIBUTE_PROCESSORS 63
#define HIP_ATTRIBUTE_WALL_CLOCK_RATE 10017

#define HIP_POINTER_DEVICE 9 /* hipPointer_attribute: the ordinal of the memory's device */

/* hipDeviceProp_tR0600: only the architecture name, such as "gfx942:sramecc+:xnack-". */
struct hip_properties {
	char before[1160];
	char arch[256];
	char after[680]; /* 56 bytes in 7.1; space for more */
};

_Static_assert(offsetof(struct hip_properties, arch) == 1160, "hipDeviceProp_tR0600.gcnArchName");
_Static_assert(sizeof(struct hip_properties) >= 1472, "hipDeviceProp_tR0600");
_Static_assert(sizeof(void *) == sizeof(uint64_t), "hipDeviceptr_t is a pointer, CUdeviceptr not");

/* Declared as in the header, with handles and hipDeviceptr_t as pointers; 0 is success. */
#define HIP_FUNCTIONS(X)                                                                           \
	X(hipGetLastError, (void))                                                                 \
	X(hipGetDevice, (int *device))                                                             \
	X(hipSetDevice, (int device))                                                              \
	X(hipDeviceGetAttribute, (int *value, int attribute, int device))                          \
	X(hipDeviceGetName, (char *name, int length, int device))                                  \
	X(hipGetDevicePropertiesR0600, (struct hip_properties * properties, int device))           \
	X(hipThreadExchangeStreamCaptureMode, (int *mode))                                         \
	X(hipStreamIsCapturing, (void *stream, int *status))                                       \
	X(hipDeviceGetStreamPriorityRange, (int *lowest, int *greatest))                           \
	X(hipStreamCreateWithFlags, (void **stream, unsigned flags))                               \
	X(hipStreamCreateWithPriority, (void **stream, unsigned flags, int priority))              \
	X(hipStreamDestroy, (void *stream))                                                        \
	X(hipStreamSynchronize, (void *stream))                                                    \
	X(hipStreamWaitEvent, (void *stream, void *event, unsigned flags))                         \
	X(hipEventCreateWithFlags, (void **event, unsigned flags))                                 \
	X(hipEventDestroy, (void *event))                                                          \
	X(hipEventRecord, (void *event, void *stream))                                             \
	X(hipEventElapsedTime, (float *milliseconds, void *before, void *after))                   \
	X(hipEventQuery, (void *event))                                                            \
	X(hipEventSynchronize, (void *event))                                                      \
	X(hipMalloc, (void **memory, size_t bytes))                                                \
	X(hipFree, (void *memory))                                                                 \
	X(hipHostMalloc, (void **memory, size_t bytes, unsigned flags))                            \
	X(hipHostFree, (void *memory))                                                             \
	X(hipMemcpyDtoHAsync, (void *to, void *from, size_t bytes, void *stream))                  \
	X(hipMemcpy2DAsync, (void *to, size_t to_pitch, const void *from, size_t from_pitch,       \
			     size_t width_bytes, size_t rows, int kind, void *stream))             \
	X(hipMemsetD8Async, (void *memory, unsigned char value, size_t count, void *stream))

typedef void (*hip_host_fn)(void *user);

/* Functions that recording uses where the library has them. */
#define HIP_OPTIONAL_FUNCTIONS(X)                                                                  \
	X(hipGetDeviceCount, (int *count))                                                         \
	X(hipDeviceSynchronize, (void))                                                            \
	X(hipPeekAtLastError, (void))                                                              \
	X(hipStreamGetCaptureInfo, (void *stream, int *status, unsigned long long *number))        \
	X(hipLaunchHostFunc, (void *stream, hip_host_fn function, void *user))                     \
	X(hipPointerGetAttribute, (void *value, int attribute, void *address))
