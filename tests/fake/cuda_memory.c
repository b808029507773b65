/* Fake libcuda for instrumentation: host memory, streams that run at once, events to hold. */
#include "fake/cuda_memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fake/fake_cupti.h"
#include "fake/faults.h"

#define NOT_READY 600
#define OUT_OF_MEMORY 2

struct event {
	bool is_pending;
	uint64_t at_ns;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t now_ns; /* on the device */
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
static bool is_held;
static size_t bytes_now;
static size_t bytes_max;
static void (*on_memory)(void);

FAKE_EXPORT void fake_set_on_memory(void (*wanted)(void))
{
	on_memory = wanted;
}

static void free_lock_in_child(void)
{
	pthread_mutex_init(&lock, NULL);
}

/* A thread that does not exist in the child may have held it. */
__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, free_lock_in_child);
}

FAKE_EXPORT void fake_hold_events(bool wanted)
{
	pthread_mutex_lock(&lock);
	is_held = wanted;
	pthread_cond_broadcast(&released);
	pthread_mutex_unlock(&lock);
}

FAKE_EXPORT size_t fake_device_bytes(void)
{
	size_t bytes;

	pthread_mutex_lock(&lock);
	bytes = bytes_now;
	pthread_mutex_unlock(&lock);
	return bytes;
}

FAKE_EXPORT void fake_limit_device(size_t bytes)
{
	pthread_mutex_lock(&lock);
	bytes_max = bytes;
	pthread_mutex_unlock(&lock);
}

/* ------------------------------------------------------------------ the driver's calls */

/* Each can be made to fail, like those of the CUDA backend (faults.h). */
const char *const fault_more[] = {
	"cuCtxGetDevice",
	"cuStreamCreate",
	"cuStreamDestroy_v2",
	"cuStreamSynchronize",
	"cuEventCreate",
	"cuEventDestroy_v2",
	"cuEventElapsedTime",
	"cuEventRecord",
	"cuEventQuery",
	"cuEventSynchronize",
	"cuMemAlloc_v2",
	"cuMemFree_v2",
	"cuMemHostAlloc",
	"cuMemFreeHost",
	"cuMemcpyDtoHAsync_v2",
	"cuMemsetD8Async",
	"cuMemcpy2DAsync_v2",
	/* The fake HIP has these. */
	"hipDeviceSynchronize",
	"hipGetDeviceCount",
	"hipLaunchHostFunc",
	"hipStreamGetCaptureInfo",
	NULL,
};

#define MAY_FAIL(name)                                                                             \
	do {                                                                                       \
		int fault;                                                                         \
                                                                                                   \
		if (fault_strikes_more(name, &fault))                                              \
			return fault;                                                              \
	} while (0)

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* the driver's are its own */

FAKE_EXPORT int cuCtxGetDevice(int *device)
{
	MAY_FAIL("cuCtxGetDevice");
	*device = 0;
	return 0;
}

FAKE_EXPORT int cuStreamCreate(void **stream, unsigned flags)
{
	int code;

	MAY_FAIL("cuStreamCreate");
	code = fake_failure("cuStreamCreate");
	if (code)
		return code;
	*stream = malloc(1);
	return flags == 1 && *stream ? 0 : 1;
}

FAKE_EXPORT int cuStreamDestroy_v2(void *stream)
{
	MAY_FAIL("cuStreamDestroy_v2");
	free(stream);
	return 0;
}

FAKE_EXPORT int cuStreamSynchronize(void *stream)
{
	MAY_FAIL("cuStreamSynchronize");
	return stream ? fake_failure("cuStreamSynchronize") : 1;
}

FAKE_EXPORT int cuStreamQuery(void *stream)
{
	int result;

	pthread_mutex_lock(&lock);
	result = is_held ? NOT_READY : fake_failure("cuStreamQuery");
	pthread_mutex_unlock(&lock);
	return stream || result ? result : 1; /* a lost context: whatever the stream */
}

FAKE_EXPORT int cuEventCreate(void **event, unsigned flags)
{
	MAY_FAIL("cuEventCreate");
	*event = calloc(1, sizeof(struct event));
	return *event ? 0 : OUT_OF_MEMORY;
}

FAKE_EXPORT int cuEventDestroy_v2(void *event)
{
	MAY_FAIL("cuEventDestroy_v2");
	free(event);
	return 0;
}

FAKE_EXPORT int cuEventRecord(void *event, void *stream)
{
	MAY_FAIL("cuEventRecord");
	pthread_mutex_lock(&lock);
	((struct event *)event)->is_pending = true;
	((struct event *)event)->at_ns = now_ns;
	pthread_mutex_unlock(&lock);
	return 0;
}

/* The time that kernels of the test took: the device runs nothing else. */
FAKE_EXPORT void fake_take_time(uint64_t ns)
{
	pthread_mutex_lock(&lock);
	now_ns += ns;
	pthread_mutex_unlock(&lock);
}

FAKE_EXPORT int cuEventElapsedTime(float *milliseconds, void *before, void *after)
{
	int result;

	MAY_FAIL("cuEventElapsedTime");
	pthread_mutex_lock(&lock);
	result = is_held && ((struct event *)after)->is_pending ? NOT_READY : 0;
	if (!result)
		*milliseconds =
			(float)(((struct event *)after)->at_ns - ((struct event *)before)->at_ns) /
			1e6f;
	pthread_mutex_unlock(&lock);
	return result;
}

FAKE_EXPORT int cuEventQuery(void *event)
{
	int result;

	MAY_FAIL("cuEventQuery");
	pthread_mutex_lock(&lock);
	if (!is_held)
		((struct event *)event)->is_pending = false;
	result = ((struct event *)event)->is_pending ? NOT_READY : 0;
	pthread_mutex_unlock(&lock);
	return result;
}

FAKE_EXPORT int cuEventSynchronize(void *event)
{
	MAY_FAIL("cuEventSynchronize");
	pthread_mutex_lock(&lock);
	while (is_held && ((struct event *)event)->is_pending)
		pthread_cond_wait(&released, &lock);
	((struct event *)event)->is_pending = false;
	pthread_mutex_unlock(&lock);
	return 0;
}

/* The size is stored before the memory, which is filled with an unlikely byte. */
FAKE_EXPORT int cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
	uint8_t *memory;
	bool is_full;
	int code = fake_failure("cuMemAlloc");

	MAY_FAIL("cuMemAlloc_v2");
	if (code)
		return code;
	pthread_mutex_lock(&lock);
	is_full = bytes_max && bytes_now + bytes > bytes_max;
	if (!is_full)
		bytes_now += bytes;
	pthread_mutex_unlock(&lock);
	memory = is_full ? NULL : malloc(bytes + 256);
	if (!memory)
		return OUT_OF_MEMORY;
	memcpy(memory, &bytes, sizeof(bytes));
	memset(memory + 256, 0xa5, bytes);
	*address = (uintptr_t)memory + 256;
	return 0;
}

FAKE_EXPORT int cuMemFree_v2(uint64_t address)
{
	uint8_t *memory = (uint8_t *)(uintptr_t)address - 256;
	size_t bytes;

	MAY_FAIL("cuMemFree_v2");
	memcpy(&bytes, memory, sizeof(bytes));
	pthread_mutex_lock(&lock);
	bytes_now -= bytes;
	pthread_mutex_unlock(&lock);
	free(memory);
	return 0;
}

FAKE_EXPORT int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
	MAY_FAIL("cuMemHostAlloc");
	*memory = malloc(bytes);
	return *memory && flags == 1 ? 0 : OUT_OF_MEMORY;
}

FAKE_EXPORT int cuMemFreeHost(void *memory)
{
	MAY_FAIL("cuMemFreeHost");
	free(memory);
	return 0;
}

FAKE_EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream)
{
	MAY_FAIL("cuMemcpyDtoHAsync_v2");
	if (on_memory)
		on_memory();
	memcpy(to, (const void *)(uintptr_t)from, bytes);
	return stream ? fake_failure("cuMemcpyDtoHAsync") : 1;
}

FAKE_EXPORT int cuMemsetD8Async(uint64_t address, unsigned char value, size_t count, void *stream)
{
	MAY_FAIL("cuMemsetD8Async");
	if (on_memory)
		on_memory();
	memset((void *)(uintptr_t)address, value, count);
	return fake_failure("cuMemsetD8Async");
}

/* CUDA_MEMCPY2D, from the host to a device. */
struct copy {
	size_t from_x, from_y;
	int from_kind;
	const void *from_host;
	uint64_t from_device;
	void *from_array;
	size_t from_pitch;
	size_t to_x, to_y;
	int to_kind;
	void *to_host;
	uint64_t to_device;
	void *to_array;
	size_t to_pitch;
	size_t width, height;
};

FAKE_EXPORT int cuMemcpy2DAsync_v2(const struct copy *copy, void *stream)
{
	MAY_FAIL("cuMemcpy2DAsync_v2");
	if (!stream || copy->from_kind != 1 || copy->to_kind != 2 ||
	    copy->from_pitch < copy->width || copy->to_pitch < copy->width)
		return 1;
	if (on_memory)
		on_memory();
	for (size_t row = 0; row < copy->height; row++)
		memcpy((uint8_t *)(uintptr_t)copy->to_device + row * copy->to_pitch,
		       (const uint8_t *)copy->from_host + row * copy->from_pitch, copy->width);
	return 0;
}
