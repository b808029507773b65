/* HIP's streams: captures and host functions. */
#include "driver/hip_streams.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/array.h"
#include "driver/amd_library.h"
#include "driver/driver.h"
#include "driver/functions.h"
#include "driver/hip_abi.h"

#define NONE_CAPTURING 0
#define CAPTURING 1
#define LEGACY_STREAM 1u /* 0 and 1: the default stream, which cannot be captured */
#define THREAD_STREAM 2u /* the default stream of the calling thread */

static struct {
	int (*hipGetLastError)(void);
	int (*hipStreamIsCapturing)(void *stream, int *status);
	int (*hipStreamGetCaptureInfo)(void *stream, int *status, unsigned long long *number);
	int (*hipLaunchHostFunc)(void *stream, void (*function)(void *user), void *user);
	int (*hipPointerGetAttribute)(void *value, int attribute, void *address);
} hip;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards binding */
static _Atomic bool is_bound;

static bool bind_functions(void)
{
#define FUNCTION(name)                                                                             \
	{                                                                                          \
#name, offsetof(typeof(hip), name), 0                                              \
	}
	static const struct function functions[] = {
		FUNCTION(hipGetLastError),         FUNCTION(hipStreamIsCapturing),
		FUNCTION(hipStreamGetCaptureInfo), FUNCTION(hipLaunchHostFunc),
		FUNCTION(hipPointerGetAttribute),
	};
#undef FUNCTION
	void *library;

	/* acquire: pairs with the release below, after which `hip` does not change */
	if (atomic_load_explicit(&is_bound, memory_order_acquire))
		return true;
	pthread_mutex_lock(&lock);
	library = amd_library_get_loaded(AMD_HIP);
	if (library && !atomic_load_explicit(&is_bound, memory_order_relaxed)) {
		functions_bind(library, functions, ARRAY_LENGTH(functions), &hip);
		atomic_store_explicit(&is_bound, true, memory_order_release);
	}
	pthread_mutex_unlock(&lock);
	return library;
}

/* Clears the error, so the program does not see it. */
static int clear_error(int result)
{
	if (result && hip.hipGetLastError)
		hip.hipGetLastError();
	return result;
}

bool hip_streams_capture(uint64_t stream, uint64_t *number_out)
{
	unsigned long long number = 0;
	int status = NONE_CAPTURING;
	int result = 0;

	if (stream <= LEGACY_STREAM || !bind_functions())
		return false;
	if (hip.hipStreamGetCaptureInfo)
		result = hip.hipStreamGetCaptureInfo(driver_handle(stream), &status, &number);
	else if (hip.hipStreamIsCapturing)
		result = hip.hipStreamIsCapturing(driver_handle(stream), &status);
	if (clear_error(result) != 0 || status == NONE_CAPTURING)
		return false;
	*number_out = status == CAPTURING ? number : 0;
	return true;
}

int hip_streams_call(uint64_t stream, void (*function)(void *user), void *user)
{
	if (!bind_functions() || !hip.hipLaunchHostFunc)
		return HIP_E_NOT_SUPPORTED;
	return clear_error(hip.hipLaunchHostFunc(driver_handle(stream), function, user));
}

int hip_streams_device(uint64_t stream, uint64_t address)
{
	int value[2] = {-1, -1}; /* an int; more space if a version of HIP stores a wider one */

	if (stream > THREAD_STREAM || !bind_functions() || !hip.hipPointerGetAttribute ||
	    clear_error(hip.hipPointerGetAttribute(value, HIP_POINTER_DEVICE,
						   driver_handle(address))) != 0)
		return -1;
	return value[0];
}
