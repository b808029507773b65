/* Fake libcuda: two devices, and contexts that synchronize at once. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake/entries.h"
#include "fake/fake_cupti.h"
#include "fake/gpus.h"

#define CONTEXT_MAX 1024
#define CUDA_E_INVALID_VALUE 1
#define CUDA_E_NOT_INITIALIZED 3
#define CUDA_E_INVALID_DEVICE 101

static _Atomic unsigned synchronized;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *seen[CONTEXT_MAX];
static unsigned seen_count;
static _Thread_local void *stack[16];
static _Thread_local int depth;
static void (*_Atomic waiting)(void);

static void *_Atomic primary;     /* of device 0 */
static _Atomic pid_t initialized; /* the process that called cuInit() */

/* As the driver: the first call loads CUDA_INJECTION64_PATH; children cannot use CUDA then. */
FAKE_EXPORT int cuInit(unsigned flags)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	int (*initialise)(void) = NULL;
	void *handle, *symbol;

	if (initialized)
		return initialized == getpid() ? 0 : CUDA_E_NOT_INITIALIZED;
	initialized = getpid();
	handle = path ? dlopen(path, RTLD_NOW) : NULL;
	symbol = handle ? dlsym(handle, "InitializeInjection") : NULL;
	memcpy(&initialise, &symbol, sizeof(symbol));
	if (initialise)
		initialise();
	return 0;
}

int fake_cuDriverGetVersion(int *version)
{
	const char *named = getenv("FAKE_CUDA_VERSION");

	*version = named ? atoi(named) : 13000;
	return 0;
}

int fake_cuDeviceGetAttribute(int *value, int attribute, int device)
{
	const struct fake_gpu *gpu = fake_cuda_gpu(device);

	if (!gpu)
		return CUDA_E_INVALID_DEVICE;
	switch (attribute) {
	case DRIVER_ATTRIBUTE_CC_MAJOR:
		*value = gpu->major;
		return 0;
	case DRIVER_ATTRIBUTE_CC_MINOR:
		*value = gpu->minor;
		return 0;
	case DRIVER_ATTRIBUTE_PROCESSORS:
		*value = gpu->processors;
		return 0;
	case DRIVER_ATTRIBUTE_CLOCK_RATE:
		*value = gpu->clock_khz;
		return 0;
	case DRIVER_ATTRIBUTE_MEMORY_CLOCK_RATE:
		*value = gpu->memory_clock_khz;
		return gpu->memory_clock_khz ? 0 : CUDA_E_INVALID_VALUE;
	case DRIVER_ATTRIBUTE_BUS_WIDTH:
		*value = gpu->bus_width_bits;
		return gpu->bus_width_bits ? 0 : CUDA_E_INVALID_VALUE;
	default:
		return CUDA_E_INVALID_VALUE; /* an attribute this driver does not know */
	}
}

int fake_cuDeviceGetCount(int *count)
{
	for (*count = 0; *count < 64 && fake_cuda_gpu(*count); (*count)++)
		continue;
	return initialized == getpid() ? 0 : CUDA_E_NOT_INITIALIZED;
}

int fake_cuDeviceGetName(char *name, int length, int device)
{
	snprintf(name, (size_t)length, "Fake GPU %d", device);
	return 0;
}

/* Optional for all users: make_entries.py makes no entry points. */
FAKE_EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *is_active);

FAKE_EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *is_active)
{
	const char *active = getenv("FAKE_CUDA_ACTIVE"); /* the device with a primary context */

	*flags = 0;
	*is_active = (active && atoi(active) == device) || (!device && atomic_load(&primary));
	return 0;
}

FAKE_EXPORT int cuDevicePrimaryCtxRetain(void **context, int device);
FAKE_EXPORT int cuDevicePrimaryCtxRelease_v2(int device);

static _Atomic(void (*)(void)) retaining;

int cuDevicePrimaryCtxRetain(void **context, int device)
{
	void (*first)(void) = atomic_load(&retaining);

	if (first)
		first();
	*context = device ? NULL : atomic_load(&primary);
	return *context ? 0 : 101;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
	return device ? 101 : 0;
}

FAKE_EXPORT void fake_set_retaining(void (*new_retaining)(void))
{
	atomic_store(&retaining, new_retaining);
}

FAKE_EXPORT void fake_set_primary(void *context)
{
	atomic_store(&primary, context);
}

__attribute__((visibility("default"))) int cuDeviceGetPCIBusId(char *id, int length, int device);
__attribute__((visibility("default"))) int cuDeviceGetUuid_v2(unsigned char *bytes, int device);

int cuDeviceGetPCIBusId(char *id, int length, int device)
{
	snprintf(id, (size_t)length, "0000:%02x:00.0", device + 0x4e);
	return getenv("FAKE_CUDA_NO_ID") ? 999 : 0;
}

/* As FAKE_GPU_UUID. */
int cuDeviceGetUuid_v2(unsigned char *bytes, int device)
{
	for (int i = 0; i < 16; i++)
		bytes[i] = (unsigned char)(i < 12 ? device * 16 + i : getpid() >> 8 * (15 - i));
	return getenv("FAKE_CUDA_NO_ID") ? 999 : 0;
}

int fake_cuCtxPushCurrent_v2(void *context)
{
	if (!context || depth == 16)
		return 201;
	stack[depth++] = context;
	return 0;
}

int fake_cuCtxPopCurrent_v2(void **context)
{
	if (!depth)
		return 201;
	*context = stack[--depth];
	return 0;
}

int fake_cuCtxSynchronize(void)
{
	void (*wait)(void) = atomic_load(&waiting);
	unsigned i = 0;

	if (!depth)
		return 201;
	if (wait)
		wait();
	atomic_fetch_add(&synchronized, 1);
	pthread_mutex_lock(&lock);
	while (i < seen_count && seen[i] != stack[depth - 1])
		i++;
	if (i == seen_count && i < CONTEXT_MAX)
		seen[seen_count++] = stack[depth - 1];
	pthread_mutex_unlock(&lock);
	return 0;
}

FAKE_EXPORT void fake_set_waiting(void (*wait)(void))
{
	atomic_store(&waiting, wait);
}

FAKE_EXPORT unsigned fake_synchronized(void)
{
	return atomic_load(&synchronized);
}

FAKE_EXPORT unsigned fake_synchronized_contexts(void)
{
	unsigned count;

	pthread_mutex_lock(&lock);
	count = seen_count;
	pthread_mutex_unlock(&lock);
	return count;
}

FAKE_EXPORT int fake_pushed(void)
{
	return depth;
}
