/* HIP adapter: implements the functions of `struct driver` with HIP. */
#include "driver/hip_driver.h"

#include <stdio.h>
#include <unistd.h>

#include "base/array.h"
#include "base/environment.h"
#include "base/mutex.h"
#include "driver/amd_library.h"
#include "driver/driver.h"
#include "driver/hip_functions.h"

#define DEVICES_MAX 64
#define NESTING_MAX 8
#define TIMER_KHZ 100000 /* for everything after gfx9, and if HIP does not report it */

/* Error codes and flags have the same numbers as in CUDA. */
_Static_assert(HIP_E_OUT_OF_MEMORY == DRIVER_OUT_OF_MEMORY, "hipErrorOutOfMemory");
_Static_assert(HIP_E_DEINITIALIZED == DRIVER_DEINITIALIZED, "hipErrorDeinitialized");
_Static_assert(HIP_E_NOT_READY == DRIVER_NOT_READY, "hipErrorNotReady");
_Static_assert(HIP_CAPTURE_RELAXED == DRIVER_CAPTURE_RELAXED, "hipStreamCaptureModeRelaxed");
_Static_assert(HIP_STREAM_NON_BLOCKING == DRIVER_STREAM_NON_BLOCKING, "hipStreamNonBlocking");
_Static_assert((HIP_EVENT_BLOCKING_SYNC | HIP_EVENT_DISABLE_TIMING) == DRIVER_EVENT_QUIET,
	       "hipEventBlockingSync, hipEventDisableTiming");
_Static_assert(HIP_HOST_PORTABLE == DRIVER_HOST_PORTABLE, "hipHostMallocPortable");

/* A handle from cuEventCreate(). */
struct event {
	void *launched; /* on the launch's stream, after the launch */
	void *seen;     /* on `watcher`, after a wait for the first */
	void *watcher;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *watchers[DEVICES_MAX]; /* one stream per device, kept */
static _Thread_local int before[NESTING_MAX];
static _Thread_local int depth;

/* Functions that one of HIP's can do: X(name, name in HIP, arguments, values...). */
#define WRAPPERS(X)                                                                                \
	X(cuCtxGetDevice, hipGetDevice, (int *device), device)                                     \
	X(cuCtxSynchronize, hipStreamSynchronize, (void), NULL)                                    \
	/* Events on the watcher: those on the program's stream may be of a capture by now. */     \
	X(cuEventElapsedTime, hipEventElapsedTime, (float *milliseconds, void *from, void *to),    \
	  milliseconds, ((struct event *)from)->seen, ((struct event *)to)->seen)                  \
	X(cuEventQuery, hipEventQuery, (void *event), ((struct event *)event)->seen)               \
	X(cuEventSynchronize, hipEventSynchronize, (void *event), ((struct event *)event)->seen)   \
	X(cuDeviceGetName, hipDeviceGetName, (char *name, int length, int device), name, length,   \
	  device)                                                                                  \
	X(cuMemFree, hipFree, (uint64_t address), driver_handle(address))                          \
	X(cuMemFreeHost, hipHostFree, (void *memory), memory)                                      \
	X(cuMemHostAlloc, hipHostMalloc, (void **memory, size_t bytes, unsigned flags), memory,    \
	  bytes, flags)                                                                            \
	X(cuMemcpyDtoHAsync, hipMemcpyDtoHAsync,                                                   \
	  (void *to, uint64_t from, size_t bytes, void *stream), to, driver_handle(from), bytes,   \
	  stream)                                                                                  \
	X(cuMemsetD8Async, hipMemsetD8Async,                                                       \
	  (uint64_t address, unsigned char value, size_t count, void *stream),                     \
	  driver_handle(address), value, count, stream)                                            \
	X(cuStreamCreate, hipStreamCreateWithFlags, (void **stream, unsigned flags), stream,       \
	  flags)                                                                                   \
	X(cuStreamDestroy, hipStreamDestroy, (void *stream), stream)                               \
	X(cuStreamIsCapturing, hipStreamIsCapturing, (void *stream, int *status), stream, status)  \
	X(cuStreamSynchronize, hipStreamSynchronize, (void *stream), stream)                       \
	X(cuThreadExchangeStreamCaptureMode, hipThreadExchangeStreamCaptureMode, (int *mode), mode)

#define WRAPPER(name, hip_name, arguments, ...)                                                    \
	static int name arguments                                                                  \
	{                                                                                          \
		return hip_clear_error(hip.hip_name(__VA_ARGS__));                                 \
	}
WRAPPERS(WRAPPER)
#undef WRAPPER

/* ------------------------------------------------------------------ contexts are devices */

static int get_context(void **context)
{
	int device = 0;
	int result = cuCtxGetDevice(&device);

	if (result == 0)
		*context = driver_handle((uint64_t)device + 1);
	return result;
}

static int push_context(void *context)
{
	int device = 0;
	int result = !context || depth == NESTING_MAX ? HIP_E_INVALID_CONTEXT
						      : cuCtxGetDevice(&device);

	if (result == 0)
		result = hip_clear_error(hip.hipSetDevice((int)((uintptr_t)context - 1)));
	if (result == 0)
		before[depth++] = device;
	return result;
}

static int pop_context(void **context)
{
	int result = depth ? get_context(context) : HIP_E_INVALID_CONTEXT;

	return result ? result : hip_clear_error(hip.hipSetDevice(before[--depth]));
}

/* ------------------------------------------------------------------ devices */

static int get_attribute(int *value, int attribute, int device)
{
	static const int hip_attributes[] = {
		[DRIVER_ATTRIBUTE_CLOCK_RATE] = HIP_ATTRIBUTE_CLOCK_RATE,
		[DRIVER_ATTRIBUTE_PROCESSORS] = HIP_ATTRIBUTE_PROCESSORS,
		[DRIVER_ATTRIBUTE_MEMORY_CLOCK_RATE] = HIP_ATTRIBUTE_MEMORY_CLOCK_RATE,
		[DRIVER_ATTRIBUTE_BUS_WIDTH] = HIP_ATTRIBUTE_BUS_WIDTH,
	};

	if ((size_t)attribute >= ARRAY_LENGTH(hip_attributes) || !hip_attributes[attribute])
		return HIP_E_NOT_SUPPORTED; /* compute capabilities: see hip_driver_arch() */
	return hip_clear_error(hip.hipDeviceGetAttribute(value, hip_attributes[attribute], device));
}

void hip_driver_arch(int device, char *arch, size_t capacity)
{
	struct hip_properties properties = {0};

	*arch = '\0';
	if (hip_clear_error(hip.hipGetDevicePropertiesR0600(&properties, device)) != 0)
		return;
	properties.arch[sizeof(properties.arch) - 1] = '\0';
	/* After the colon: features that the driver has enabled. */
	snprintf(arch, capacity, "%.*s", (int)strcspn(properties.arch, ":"), properties.arch);
}

uint64_t hip_driver_timer_khz(int device)
{
	int khz = 0;
	int result = hip_clear_error(
		hip.hipDeviceGetAttribute(&khz, HIP_ATTRIBUTE_WALL_CLOCK_RATE, device));

	return result == 0 && khz > 0 ? (uint64_t)khz : TIMER_KHZ;
}

/* ------------------------------------------------------------------ streams and events */

/* The current device's stream on which launches are waited for. */
static int get_watcher(void **stream)
{
	int device = 0, lowest = 0;
	int greatest;
	int result = cuCtxGetDevice(&device);

	if (result == 0 && (device < 0 || device >= DEVICES_MAX))
		result = HIP_E_NOT_SUPPORTED;
	if (result)
		return result;
	MUTEX_HOLD(&lock);
	if (!watchers[device]) {
		if (hip_clear_error(hip.hipDeviceGetStreamPriorityRange(&lowest, &greatest)) != 0)
			lowest = 0;
		result = hip_clear_error(hip.hipStreamCreateWithPriority(
			&watchers[device], HIP_STREAM_NON_BLOCKING, lowest));
		if (result)
			watchers[device] = NULL;
	}
	*stream = watchers[device];
	return result;
}

void hip_driver_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	memset(watchers, 0, sizeof(watchers));
	hip_functions_forked();
}

static int destroy_event(void *event)
{
	struct event *both = event;
	int result = 0;

	if (both->launched)
		result = hip_clear_error(hip.hipEventDestroy(both->launched));
	if (both->seen)
		result = hip_clear_error(hip.hipEventDestroy(both->seen)) || result;
	free(both);
	return result;
}

static int create_event(void **event, unsigned flags)
{
	struct event *both = calloc(1, sizeof(*both));
	int result = both ? get_watcher(&both->watcher) : HIP_E_OUT_OF_MEMORY;

	if (result == 0)
		result =
			hip_clear_error(hip.hipEventCreateWithFlags(&both->launched, flags)
						?: hip.hipEventCreateWithFlags(&both->seen, flags));
	if (result == 0)
		*event = both;
	else if (both)
		destroy_event(both);
	return result;
}

static int record_event(void *event, void *stream)
{
	struct event *both = event;

	return hip_clear_error(hip.hipEventRecord(both->launched, stream)
				       ?: hip.hipStreamWaitEvent(both->watcher, both->launched, 0)
				       ?: hip.hipEventRecord(both->seen, both->watcher));
}

/* ------------------------------------------------------------------ memory */

static int allocate(uint64_t *address, size_t bytes)
{
	void *memory = NULL;
	int result = hip_clear_error(hip.hipMalloc(&memory, bytes));

	if (result == 0)
		*address = (uintptr_t)memory;
	return result;
}

/* Only what the backend uses: rows from host to device, at offset 0. */
static int copy_rows(const struct driver_copy *copy, void *stream)
{
	return hip_clear_error(hip.hipMemcpy2DAsync(
		driver_handle(copy->to_device), copy->to_pitch, copy->from_host, copy->from_pitch,
		copy->width_bytes, copy->rows, HIP_COPY_TO_DEVICE, stream));
}

static const struct driver hip_driver = {
#define WRAPPER(name, ...) .name = name,
	WRAPPERS(WRAPPER)
#undef WRAPPER
		.cuCtxGetCurrent = get_context,
	.cuCtxPushCurrent = push_context,
	.cuCtxPopCurrent = pop_context,
	.cuDeviceGetAttribute = get_attribute,
	.cuEventCreate = create_event,
	.cuEventDestroy = destroy_event,
	.cuEventRecord = record_event,
	.cuMemAlloc = allocate,
	.cuMemcpy2DAsync = copy_rows,
};

/* ------------------------------------------------------------------ loading */

bool hip_driver_is_likely(void)
{
	if (amd_library_is_likely())
		return true;
	/* WSL has no kernel driver of AMD GPUs, only ROCm. */
	return !environment_get("PROTON_HIP_PATH") &&
	       access("/opt/rocm/lib/libamdhip64.so", F_OK) == 0;
}

int hip_driver_bind(struct driver *out, struct proton_error *err)
{
	struct proton_error why;

	if (out->cuCtxGetDevice)
		return PROTON_OK;
	void *library = amd_library_open(AMD_HIP, &why);
	if (!library)
		return err_set(err, why.status, "AMD kernels require HIP: %s", why.text);
	const char *missing = hip_functions_bind(library);
	if (missing)
		return err_set(
			err, PROTON_E_UNSUPPORTED,
			"instrumentation requires ROCm 6.0 or later: libamdhip64.so does not "
			"provide %s",
			missing);
	*out = hip_driver;
	return PROTON_OK;
}
