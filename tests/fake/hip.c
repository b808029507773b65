/*
 * Fake libamdhip64: its functions are those of the fake libcuda (cuda_memory.c,
 * cuda_append.c) under HIP's names, with HIP's differences. Each can be made to fail.
 */
#include "fake/hip.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"
#include "driver/hip_abi.h"
#include "fake/fake_cupti.h"
#include "fake/faults.h"
#include "fake/gpus.h"

#define INVALID_VALUE 1
#define INVALID_DEVICE 101
#define INVALID_HANDLE 400
#define CAPTURED_EVENT 907

/* Defined by the fake libcuda. */
#define X(name, version, arguments, users) int name##version arguments;
#include "driver/cuda_functions.def"
#undef X

enum {
#define FAULT_INDEX(name, arguments) FAULT_##name,
	HIP_FUNCTIONS(FAULT_INDEX)
#undef FAULT_INDEX
};

const char *const fault_entries[] = {
#define FAULT_NAME(name, arguments) #name,
	HIP_FUNCTIONS(FAULT_NAME)
#undef FAULT_NAME
};
const size_t fault_entry_count = sizeof(fault_entries) / sizeof(fault_entries[0]);

struct event {
	void *event;
	void *stream; /* recorded on */
	int device;
};

static _Thread_local int current;
/* As in a library that is loaded with the program: one that is loaded later calls a function. */
static _Thread_local __attribute__((tls_model("initial-exec"))) int last_error;
static _Atomic int wall_clock_khz = 100000;
static _Atomic uint32_t invalidated;

static int done(int result)
{
	if (result)
		last_error = result;
	return result;
}

/* Each entry point begins with this: the injected fault, if there is one for this call. */
#define RETURN_FAULT(name)                                                                         \
	do {                                                                                       \
		int code;                                                                          \
		if (fault_strikes(FAULT_##name, &code))                                            \
			return done(code);                                                         \
	} while (0)

/* A function that does only this. */
#define FORWARD(name, arguments, ...)                                                              \
	FAKE_EXPORT int name arguments                                                             \
	{                                                                                          \
		RETURN_FAULT(name);                                                                \
		return done(__VA_ARGS__);                                                          \
	}

FAKE_SETTER(set_wall_clock, int, wall_clock_khz)
FAKE_GETTER(invalidated_captures, uint32_t, invalidated)
FAKE_GETTER(last_error, int, last_error)
FAKE_SETTER(set_error, int, last_error)

/* ------------------------------------------------------------------ devices */

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* HIP's are its own */

FAKE_EXPORT int hipGetLastError(void)
{
	int error = last_error;

	last_error = 0;
	return error;
}

FAKE_EXPORT int hipPeekAtLastError(void)
{
	return last_error;
}

FAKE_EXPORT int hipGetDeviceCount(int *count)
{
	int code;

	if (fault_strikes_more("hipGetDeviceCount", &code))
		return done(code);
	for (*count = 0; *count < 64 && fake_hip_gpu(*count); (*count)++)
		continue;
	return 0;
}

/* The fake roctracer calls back by itself. */
FAKE_EXPORT void hipRegisterTracerCallback(int (*report)(uint32_t, uint32_t, void *))
{
}

FAKE_EXPORT int hipGetDevice(int *device)
{
	int code;

	if (fault_strikes_scripted(FAULT_hipGetDevice, &code))
		return done(code);
	*device = current;
	if (getenv("FAKE_HIP_6")) /* clr of ROCm 6, hip_internal.hpp: HIP_RETURN stores success */
		last_error = 0;
	return 0;
}

static _Atomic(fake_hook_fn) on_set_device;

FAKE_SETTER(report_set_device, fake_hook_fn, on_set_device)

FAKE_EXPORT int hipSetDevice(int device)
{
	void (*report)(void) = atomic_load(&on_set_device);

	RETURN_FAULT(hipSetDevice);
	if (!fake_hip_gpu(device))
		return done(INVALID_DEVICE);
	current = device;
	if (report)
		report();
	return 0;
}

static _Atomic(fake_hook_fn) waiting;
static _Atomic unsigned synchronized;
static _Atomic unsigned devices_seen; /* bits */

FAKE_SETTER(set_waiting, fake_hook_fn, waiting)
FAKE_GETTER(synchronized, unsigned, synchronized)
FAKE_GETTER(synchronized_contexts, unsigned, (unsigned)__builtin_popcount(devices_seen))

FAKE_EXPORT int hipDeviceSynchronize(void)
{
	void (*wait)(void) = atomic_load(&waiting);
	int code;

	if (fault_strikes_more("hipDeviceSynchronize", &code))
		return done(code);
	if (wait)
		wait();
	atomic_fetch_add(&synchronized, 1);
	atomic_fetch_or(&devices_seen, 1u << current);
	return 0;
}

FAKE_EXPORT int hipDeviceGetAttribute(int *value, int attribute, int device)
{
	const struct fake_gpu *gpu = fake_hip_gpu(device);

	RETURN_FAULT(hipDeviceGetAttribute);
	if (!gpu)
		return done(INVALID_DEVICE);
	switch (attribute) {
	case HIP_ATTRIBUTE_CLOCK_RATE:
		*value = gpu->clock_khz;
		return 0;
	case HIP_ATTRIBUTE_PROCESSORS:
		*value = gpu->processors;
		return 0;
	case HIP_ATTRIBUTE_MEMORY_CLOCK_RATE:
		*value = gpu->memory_clock_khz;
		return 0;
	case HIP_ATTRIBUTE_BUS_WIDTH:
		*value = gpu->bus_width_bits;
		return 0;
	case HIP_ATTRIBUTE_WALL_CLOCK_RATE:
		*value = atomic_load(&wall_clock_khz);
		return *value ? 0 : done(INVALID_VALUE);
	default:
		return done(INVALID_VALUE);
	}
}

FAKE_EXPORT int hipDeviceGetName(char *name, int length, int device)
{
	RETURN_FAULT(hipDeviceGetName);
	snprintf(name, (size_t)length, "Fake Instinct %d", device);
	return 0;
}

FAKE_EXPORT int hipGetDevicePropertiesR0600(struct hip_properties *properties, int device)
{
	const struct fake_gpu *gpu = fake_hip_gpu(device);

	RETURN_FAULT(hipGetDevicePropertiesR0600);
	if (!gpu)
		return done(INVALID_DEVICE);
	memset(properties, 0x5a, 1472);
	memcpy(properties->before + 296, &(size_t){65536}, sizeof(size_t)); /* sharedMemPerBlock */
	memcpy(properties->before + 308, &(int){64}, sizeof(int));          /* warpSize */
	strcpy(properties->arch, gpu->gcn_arch);
	return 0;
}

/* ------------------------------------------------------------------ streams */

FORWARD(hipThreadExchangeStreamCaptureMode, (int *mode), cuThreadExchangeStreamCaptureMode(mode))
FORWARD(hipStreamIsCapturing, (void *stream, int *status), cuStreamIsCapturing(stream, status))

FAKE_EXPORT int hipDeviceGetStreamPriorityRange(int *lowest, int *greatest)
{
	RETURN_FAULT(hipDeviceGetStreamPriorityRange);
	*lowest = 1;
	*greatest = -1;
	return 0;
}

FORWARD(hipStreamCreateWithFlags, (void **stream, unsigned flags), cuStreamCreate(stream, flags))

/* Waiting on a stream that others use would delay their launches. */
FORWARD(hipStreamCreateWithPriority, (void **stream, unsigned flags, int priority),
	priority == 1 ? cuStreamCreate(stream, flags) : INVALID_VALUE)
FORWARD(hipStreamDestroy, (void *stream), cuStreamDestroy_v2(stream))

FAKE_EXPORT int hipStreamSynchronize(void *stream)
{
	RETURN_FAULT(hipStreamSynchronize);
	return 0;
}

FAKE_EXPORT int hipStreamWaitEvent(void *stream, void *event, unsigned flags)
{
	RETURN_FAULT(hipStreamWaitEvent);
	return done(stream && event && !flags ? 0 : INVALID_HANDLE);
}

/* ------------------------------------------------------------------ events */

FAKE_EXPORT int hipEventCreateWithFlags(void **event, unsigned flags)
{
	struct event *made;

	RETURN_FAULT(hipEventCreateWithFlags);
	made = calloc(1, sizeof(*made));
	if (!made)
		return done(HIP_E_OUT_OF_MEMORY);
	made->device = current;
	*event = made;
	return done(cuEventCreate(&made->event, flags));
}

FAKE_EXPORT int hipEventDestroy(void *event)
{
	RETURN_FAULT(hipEventDestroy);
	cuEventDestroy_v2(((struct event *)event)->event);
	free(event);
	return 0;
}

FAKE_EXPORT int hipEventRecord(void *event, void *stream)
{
	struct event *recorded = event;

	RETURN_FAULT(hipEventRecord);
	if (recorded->device != current)
		return done(INVALID_HANDLE);
	recorded->stream = stream;
	return done(cuEventRecord(recorded->event, stream));
}

FAKE_EXPORT int hipEventElapsedTime(float *milliseconds, void *before, void *after)
{
	RETURN_FAULT(hipEventElapsedTime);
	return done(cuEventElapsedTime(milliseconds, ((struct event *)before)->event,
				       ((struct event *)after)->event));
}

/* As HIP: a query of an event of a stream that is being captured breaks the capture. */
static bool breaks_capture(const struct event *event)
{
	int status = 0;

	if (cuStreamIsCapturing(event->stream, &status) != 0 || !status)
		return false;
	atomic_fetch_add(&invalidated, 1);
	return true;
}

FAKE_EXPORT int hipEventQuery(void *event)
{
	const struct event *asked = event;

	RETURN_FAULT(hipEventQuery);
	return done(breaks_capture(asked) ? CAPTURED_EVENT : cuEventQuery(asked->event));
}

FAKE_EXPORT int hipEventSynchronize(void *event)
{
	const struct event *asked = event;

	RETURN_FAULT(hipEventSynchronize);
	return done(breaks_capture(asked) ? CAPTURED_EVENT : cuEventSynchronize(asked->event));
}

/* ------------------------------------------------------------------ memory */

FAKE_EXPORT int hipMalloc(void **memory, size_t bytes)
{
	uint64_t address = 0;
	int result;

	RETURN_FAULT(hipMalloc);
	result = cuMemAlloc_v2(&address, bytes);
	*memory = (void *)(uintptr_t)address;
	return done(result);
}

FORWARD(hipFree, (void *memory), cuMemFree_v2((uintptr_t)memory))
FORWARD(hipHostMalloc, (void **memory, size_t bytes, unsigned flags),
	cuMemHostAlloc(memory, bytes, flags))
FORWARD(hipHostFree, (void *memory), cuMemFreeHost(memory))

static _Atomic int copied_on;

FAKE_GETTER(copied_on, int, copied_on)

FAKE_EXPORT int hipMemcpyDtoHAsync(void *to, void *from, size_t bytes, void *stream)
{
	RETURN_FAULT(hipMemcpyDtoHAsync);
	copied_on = current;
	if (fake_hip_keep_copy(to, from, bytes, stream))
		return 0;
	return done(cuMemcpyDtoHAsync_v2(to, (uintptr_t)from, bytes, stream));
}

FORWARD(hipMemsetD8Async, (void *memory, unsigned char value, size_t count, void *stream),
	cuMemsetD8Async((uintptr_t)memory, value, count, stream))

FAKE_EXPORT int hipMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
				 size_t width, size_t height, int kind, void *stream)
{
	struct driver_copy copy = {
		.from_kind = DRIVER_MEMORY_HOST,
		.from_host = from,
		.from_pitch = from_pitch,
		.to_kind = DRIVER_MEMORY_DEVICE,
		.to_device = (uintptr_t)to,
		.to_pitch = to_pitch,
		.width_bytes = width,
		.rows = height,
	};

	RETURN_FAULT(hipMemcpy2DAsync);
	return done(kind == HIP_COPY_TO_DEVICE ? cuMemcpy2DAsync_v2(&copy, stream) : INVALID_VALUE);
}
