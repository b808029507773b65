/* HIP's streams: captures and host functions. */

#include "driver/driver.h"
#include "driver/hip_functions.h"

#define NONE_CAPTURING 0
#define CAPTURING 1
#define LEGACY_STREAM 1u /* 0 and 1: the default stream, which cannot be captured */
#define THREAD_STREAM 2u /* the default stream of the calling thread */

bool hip_streams_capture(uint64_t stream, uint64_t *number_out)
{
	unsigned long long number = 0;
	int status = NONE_CAPTURING;
	int result = 0;

	if (stream <= LEGACY_STREAM || !hip_functions_find())
		return false;
	if (hip.hipStreamGetCaptureInfo)
		result = hip.hipStreamGetCaptureInfo(driver_handle(stream), &status, &number);
	else if (hip.hipStreamIsCapturing)
		result = hip.hipStreamIsCapturing(driver_handle(stream), &status);
	if (hip_clear_error(result) != 0 || status == NONE_CAPTURING)
		return false;
	*number_out = status == CAPTURING ? number : 0;
	return true;
}

int hip_streams_call(uint64_t stream, void (*function)(void *user), void *user)
{
	if (!hip_functions_find() || !hip.hipLaunchHostFunc)
		return HIP_E_NOT_SUPPORTED;
	return hip_clear_error(hip.hipLaunchHostFunc(driver_handle(stream), function, user));
}

int hip_streams_device(uint64_t stream, uint64_t address)
{
	int value[2] = {-1, -1}; /* an int; more space if a version of HIP stores a wider one */

	if (stream > THREAD_STREAM || !hip_functions_find() || !hip.hipPointerGetAttribute ||
	    hip_clear_error(hip.hipPointerGetAttribute(value, HIP_POINTER_DEVICE,
						       driver_handle(address))) != 0)
		return -1;
	return value[0];
}
