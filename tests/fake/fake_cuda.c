/* A libcuda that a test plays: two devices, contexts that synchronise at once. */
#include <stdio.h>
#include <stdlib.h>

#include "backend/cuda/cupti_abi.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int cuDriverGetVersion(int *version);
EXPORT int cuDeviceGet(int *device, int ordinal);
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device);
EXPORT int cuDeviceGetName(char *name, int length, int device);
EXPORT int cuCtxPushCurrent_v2(void *context);
EXPORT int cuCtxPopCurrent_v2(void **context);
EXPORT int cuCtxSynchronize(void);
EXPORT unsigned fake_synchronized(void);

static unsigned synchronized;

int cuDriverGetVersion(int *version)
{
	const char *told = getenv("FAKE_CUDA_VERSION");

	*version = told ? atoi(told) : 13000;
	return 0;
}

int cuDeviceGet(int *device, int ordinal)
{
	*device = ordinal;
	return ordinal < 2 ? 0 : 101;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	switch (attribute) {
	case CUDA_ATTRIBUTE_CC_MAJOR:
		*value = device ? 8 : 9;
		return 0;
	case CUDA_ATTRIBUTE_CC_MINOR:
		*value = 0;
		return 0;
	case CUDA_ATTRIBUTE_MULTIPROCESSOR_COUNT:
		*value = 132;
		return 0;
	case CUDA_ATTRIBUTE_CLOCK_RATE:
		*value = 1980000;
		return 0;
	default:
		return 1; /* an attribute this driver does not know */
	}
}

int cuDeviceGetName(char *name, int length, int device)
{
	snprintf(name, (size_t)length, "Fake GPU %d", device);
	return 0;
}

int cuCtxPushCurrent_v2(void *context)
{
	return context ? 0 : 201;
}

int cuCtxPopCurrent_v2(void **context)
{
	*context = NULL;
	return 0;
}

int cuCtxSynchronize(void)
{
	synchronized++;
	return 0;
}

/* How often a context was waited for. */
unsigned fake_synchronized(void)
{
	return synchronized;
}
